//go:build unix

package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// spellings are how servers write what they repeat: each content type has its own.
var spellings = map[string]*strings.Replacer{
	"application/problem+json": strings.NewReplacer("+", "%2b", "/", "%2f"),
	"text/plain":               strings.NewReplacer("+", "&#43;", "/", "&#x2f;"),
	"application/json":         strings.NewReplacer("+", "\\u002b", "/", "\\/"),
	"text/html":                strings.NewReplacer("+", "&plus;", "/", "&sol;"),
}

// gossip answers with all that it was shown, as careless servers do.
func gossip(status int, contentType string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		said := spellings[contentType].Replace(fmt.Sprint(r.Header, " ", r.URL))
		for _, word := range []string{r.Header.Get("Authorization"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")} {
			said += " " + base64.StdEncoding.EncodeToString([]byte(word))
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Location", "https://u:CANARY-location@other.example/?"+r.Header.Get("Authorization"))
		w.WriteHeader(status)
		if contentType == "text/html" {
			fmt.Fprintf(w, "<html>%s</html>", said)
			return
		}
		fmt.Fprintf(w, `{"title":%q}`, said)
	}
}

// silentTLS is a server that nobody trusts, and that does not complain.
func silentTLS(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	return s
}

// Secrets are planted in every place there is for them; nothing that any command
// says or keeps holds one, however it ends.
func TestNoSecretGetsOut(t *testing.T) {
	work := t.TempDir()
	night := plainNight(t, 5)
	put := func(name, text string) string {
		path := filepath.Join(work, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	l := newLogin(t)
	l.refresh = "CANARY-refresh-0"
	tokenFile := put("token", "CANARY-sta+tic/\n")
	command := put("command", "#!/bin/sh\necho CANARY-com+mand/\n")
	if err := os.Chmod(command, 0o700); err != nil {
		t.Fatal(err)
	}
	auths := map[string]string{
		"token":   "{token: CANARY-con+fig/}",
		"file":    "{token_file: " + tokenFile + "}",
		"command": "{token_command: [" + command + "]}",
		"oauth":   "{oauth: {token_url: " + l.token.URL + "/token, client_id: c, client_secret: CANARY-secret, refresh_token: CANARY-refresh-0, cache_file: " + filepath.Join(work, "token.json") + "}}",
	}
	servers := map[string]*httptest.Server{
		"rejects":  httptest.NewServer(gossip(422, "application/problem+json")),
		"fails":    httptest.NewServer(gossip(500, "text/plain")),
		"refuses":  httptest.NewServer(gossip(401, "application/json")),
		"redirect": httptest.NewServer(gossip(302, "application/json")),
		"portal":   httptest.NewServer(gossip(200, "text/html")),
		"proxy":    httptest.NewServer(gossip(407, "text/plain")),
		"takes":    httptest.NewServer(gossip(201, "application/json")),
		"TLS":      silentTLS(gossip(201, "application/json")),
	}
	for _, s := range servers {
		t.Cleanup(s.Close)
	}
	// Loopback is never reached through a proxy; a name is.
	proxied := "http://u:CANARY-proxy@" + strings.TrimPrefix(servers["proxy"].URL, "http://")
	formats := []string{"audit", "json", "logfmt"}
	n := 0
	for auth, text := range auths {
		for name, s := range servers {
			if auth != "token" && name != "rejects" && name != "refuses" {
				continue // the rest has nothing to do with where the token comes from
			}
			url, path := s.URL+"/v1/logs?key=CANARY-query", ""
			if name == "proxy" {
				url, path = "http://api.invalid/v1/logs?key=CANARY-query", "paths: {primary: {proxy: \""+proxied+"\"}}\n"
			}
			conf := put("trafficup.yaml", fmt.Sprintf("api:\n  primary: %q\n  headers: {X-Api-Key: CANARY-header}\n  auth: %s\n%s", url, text, path))
			state := filepath.Join(work, auth+"-"+name)
			flags := []string{"--config", conf, "--state-dir", state}
			sends := append([]string{"--backoff-base", "1ms", "--backoff-cap", "2ms", "--max-attempts", "2", "--breaker-open", "20ms", "--halt-after", "200ms", "--log-format", formats[n%3]}, flags...)
			n++
			for _, args := range [][]string{
				append(append([]string{"upload", night}, sends...), "--log-file", filepath.Join(state, "audit.log")),
				append([]string{"upload", night, "--json"}, sends...),
				append([]string{"upload", night, "--quiet"}, sends...),
				append([]string{"replay"}, sends...),
				append([]string{"validate", night}, flags...),
				append([]string{"status"}, flags...), append([]string{"status", "--json"}, flags...),
				append([]string{"explain", "key-00000"}, flags...), append([]string{"explain", "key-00000", "--json"}, flags...),
				append([]string{"deadletters", "list"}, flags...), append([]string{"deadletters", "show", "key-00000"}, flags...),
				append([]string{"deadletters", "export"}, flags...),
				append([]string{"state", "check"}, flags...),
				append([]string{"config", "show"}, flags...), append([]string{"config", "show", "--json"}, flags...), append([]string{"config", "check"}, flags...),
			} {
				noSecretIn(t, nil, args...)
			}
			nothingKept(t, state)
		}
	}
	// Mistakes do not show what stands in the wrong place.
	for _, text := range []string{
		"api: {auth: {token: [CANARY]}}", "api: {auth: {token: \"CANARY\\nCANARY\"}}", "api: {primary: \"https://u:CANARY@h/\"}",
		"api: {primary: \"u:CANARY@h\"}", "api: {headers: {X-Key: [CANARY]}}",
		"api: {auth: {oauth: {token_url: \"http://u:CANARY@h/\"}}}", "paths: {primary: {proxy: \"ftp://u:CANARY@h\"}}",
		"api: {headers: {\"X Key\": CANARY}}", "api: {headers: CANARY}", "api: {auth: CANARY}",
	} {
		conf := put("trafficup.yaml", text)
		for _, args := range [][]string{{"config", "check"}, {"config", "show"}, {"upload", night, "--url", "http://127.0.0.1:1/", "--state-dir", work, "--halt-after", "100ms"}} {
			noSecretIn(t, nil, append(args, "--config", conf)...)
		}
	}
	conf := put("trafficup.yaml", "")
	env := []string{"TRAFFICUP_API_AUTH_TOKEN=CANARY-env", "TRAFFICUP_API_HEADERS=X-Key=CANARY-header", "HTTP_PROXY=http://u:CANARY-proxy@127.0.0.1:1", "TRAFFICUP_API_PRIMARY=http://api.invalid/", "TRAFFICUP_PATHS={primary: {htpp: CANARY"}
	for _, args := range [][]string{{"config", "show"}, {"config", "check"}, {"upload", night, "--state-dir", work, "--halt-after", "100ms"}, {"upload", night, "--set", "api.auth.token=CANARY"}, {"upload", night, "--set", "api.headers={X: CANARY}"}} {
		noSecretIn(t, env, append(args, "--config", conf)...)
		noSecretIn(t, env[:4], append(args, "--config", conf)...)
	}
}

// noSecretIn runs a command and reads all it says.
func noSecretIn(t *testing.T, env []string, args ...string) {
	t.Helper()
	sys, stdout, stderr := testSystem(args...)
	sys.environ = env
	run(sys)
	for _, said := range []string{stdout.String(), stderr.String()} {
		if i := strings.Index(said, base64.RawStdEncoding.EncodeToString([]byte("CANARY"))); i >= 0 {
			t.Errorf("%s says in base64: …%q…", args, said[max(0, i-120):min(len(said), i+30)])
		}
		given := strings.Join(args, " ")
		if i := strings.Index(said, "CANARY"); i >= 0 && !strings.Contains(given, "CANARY") || strings.Count(said, "CANARY") > strings.Count(given, "CANARY") {
			t.Errorf("%s says: …%q…", given, said[max(0, i-120):min(len(said), i+30)])
		}
	}
}

func nothingKept(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if i := strings.Index(string(b), "CANARY"); i >= 0 {
			t.Errorf("%s holds a secret: …%q…", path, b[max(0, i-120):min(len(b), i+30)])
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files in %s: %v", files, dir, err)
	}
}

// Neither its command line nor the traces of a crash tell.
func TestNoSecretInACrash(t *testing.T) {
	api := newSlowAPI(t)
	conf := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(conf, []byte("api: {primary: \""+api.URL+"\", headers: {X-Key: CANARY-header}, auth: {token: CANARY-token}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startSubprocess(t, "upload", "--config", conf, "--state-dir", t.TempDir(), writeNight(t, 20))
	api.next(t)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
	if err == nil && strings.Contains(string(line), "CANARY") {
		t.Errorf("the command line: %q", line)
	}
	p.signal(syscall.SIGQUIT)
	p.exits(2)
	if said := p.stderr.String(); !strings.Contains(said, "goroutine") || strings.Contains(said, "CANARY") {
		t.Errorf("%s", said)
	}
}
