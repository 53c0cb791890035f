package main

import (
	"context"
	"encoding/json/v2"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trafficup/internal/atomicfile"
)

// checkLine is a line of doctor as programs read it.
type checkLine struct {
	Type    string `json:"message_type"`
	Result  string `json:"result"`
	What    string `json:"what"`
	Path    string `json:"path"`
	Message string `json:"message"`
	Do      string `json:"do"`
}

// examine runs doctor in both forms, which must say the same, with the exit code
// that is wanted, and show no secret; those of the tests have CANARY in them.
func examine(t *testing.T, want int, environ []string, args ...string) (lines []checkLine, text string) {
	t.Helper()
	for _, form := range []string{"--json=false", "--json"} {
		sys, stdout, stderr := testSystem(append([]string{"doctor", form}, args...)...)
		sys.environ = environ
		if code := run(sys); code != want {
			t.Fatalf("exit %d, want %d\n%s%s", code, want, stdout, stderr)
		}
		if all := stdout.String() + stderr.String(); strings.Contains(all, "CANARY") {
			t.Errorf("shows a secret:\n%s", all)
		}
		if form == "--json=false" {
			text = stdout.String()
			continue
		}
		for line := range strings.Lines(stdout.String()) {
			var l checkLine
			if err := json.Unmarshal([]byte(line), &l, json.RejectUnknownMembers(true)); err != nil || l.Type != "check" || l.What == "" || (l.Result == "ok") != (l.Do == "") {
				t.Errorf("%s: %v", line, err)
			}
			lines = append(lines, l)
		}
	}
	if got := len(lines); got != strings.Count(text, "\n")-strings.Count(text, "\n  ") {
		t.Errorf("%d objects for\n%s", got, text)
	}
	return lines, text
}

// says finds the line of a check whose message has a part.
func says(t *testing.T, lines []checkLine, path, what, result, part string) {
	t.Helper()
	for _, l := range lines {
		if l.Path == path && l.What == what && l.Result == result && strings.Contains(l.Message, part) {
			return
		}
	}
	t.Errorf("no %s %s %s: …%s… in %+v", result, path, what, part, lines)
}

// asked is an API that takes one token, and counts what is no HEAD.
func asked(t *testing.T, token string) (*httptest.Server, *atomic.Int64) {
	others := new(atomic.Int64)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch sent := r.Header.Get("Authorization"); {
		case r.Method != http.MethodHead || r.URL.Path != "/v1/logs":
			others.Add(1)
		case sent != "Bearer "+token:
			w.Header().Set("WWW-Authenticate", sent) // as bad servers do
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv, others
}

func privateFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func authority(t *testing.T, srv *httptest.Server) string {
	t.Helper()
	return privateFile(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
}

func privateDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// All is well: two paths, a token, a night, and a run that holds the lock. Only
// HEAD requests are made, and nothing in the state directory changes.
func TestDoctorFindsAllWell(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	srv, others := asked(t, "CANARY-token")
	defer srv.Close()
	dir := privateDir(t)
	unlock, err := atomicfile.TryLock(filepath.Join(dir, "lock"), "upload")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unlock() }()
	before, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	lines, text := examine(t, exitOK, []string{"HOME=/nowhere"}, "--url", srv.URL+"/v1/logs", "--fallback-url", srv.URL+"/v1/logs?b", "--state-dir", dir,
		"--set", "api.tls.ca_file="+authority(t, srv), "--set", "paths.fallback.http=2", "--token-file", privateFile(t, "token", "CANARY-token"), "--settle", "0s", writeNight(t, 3))
	says(t, lines, "primary", "tls", "ok", "TLS 1.3, verified, issued by")
	says(t, lines, "primary", "reach", "ok", "HEAD is answered with 401")
	says(t, lines, "primary", "login", "ok", "not refused: HEAD is answered with 405")
	says(t, lines, "", "token", "ok", "from the file")
	says(t, lines, "", "input", "ok", "night.ndjson: a file, 2")
	says(t, lines, "", "state lock", "ok", fmt.Sprintf("a run is under way: held by pid %d on", os.Getpid()))
	says(t, lines, "fallback", "login", "ok", "405")
	if strings.Contains(text, "failed") || others.Load() > 0 {
		t.Errorf("%d requests that are no HEAD\n%s", others.Load(), text)
	}
	entries, err := os.ReadDir(dir)
	after, rerr := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil || rerr != nil || len(entries) != 1 || string(after) != string(before) {
		t.Errorf("changed: %v, %q, %v, %v", entries, after, err, rerr)
	}
}

func TestDoctorFindsTheTokenRefused(t *testing.T) {
	srv, _ := asked(t, "other")
	base := []string{"--url", srv.URL + "/v1/logs", "--state-dir", privateDir(t), "--set", "api.tls.ca_file=" + authority(t, srv)}
	env := []string{"HOME=/nowhere"}
	file := privateFile(t, "token", "CANARY-token\n")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  []string
		args []string
		do   string
	}{
		"file":          {env, []string{"--token-file", file}, "write a new one into the file: " + file},
		"environment":   {append(env, "TRAFFICUP_API_AUTH_TOKEN=CANARY-token"), nil, "api.auth.token"},
		"command":       {env, []string{"--set", "api.auth.token_command=[echo, CANARY-token]"}, "echo"},
		"configuration": {append(env, "TRAFFICUP_API_HEADERS={Authorization: Basic CANARY}"), nil, "api.headers"},
	} {
		lines, _ := examine(t, exitFailed, c.env, append(base, c.args...)...)
		says(t, lines, "primary", "login", "failed", "the API refuses the token (401)")
		for _, l := range lines {
			if l.What == "login" && !strings.Contains(l.Do, c.do) {
				t.Errorf("%s: do %q", name, l.Do)
			}
		}
		if name == "file" {
			says(t, lines, "", "secret", "warning", "has mode 0644")
		}
	}
	lines, _ := examine(t, exitOK, env, base...)
	says(t, lines, "primary", "reach", "warning", "none is configured")
	lines, _ = examine(t, exitFailed, env, append(base, "--token-file", "none")...)
	says(t, lines, "", "token", "failed", "no such file")
}

// A token of an OAuth 2 server is asked for only where it can be kept.
func TestDoctorAsksForAToken(t *testing.T) {
	srv, _ := asked(t, "CANARY-access")
	grants := 0
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		grants++
		if r.FormValue("scope") == "wrong" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_scope"}`)
			return
		}
		fmt.Fprint(w, `{"access_token":"CANARY-access","token_type":"Bearer","expires_in":3600}`)
	}))
	defer login.Close()
	dir := filepath.Join(t.TempDir(), "state")
	args := []string{"--url", srv.URL + "/v1/logs", "--state-dir", dir, "--set", "api.tls.ca_file=" + authority(t, srv),
		"--set", "api.auth.oauth.token_url=" + login.URL, "--set", "api.auth.oauth.client_id=station-501", "--set", "api.auth.oauth.client_secret_file=" + privateFile(t, "secret", "CANARY-secret")}
	lines, _ := examine(t, exitOK, nil, args...)
	says(t, lines, "", "token", "warning", "not asked for, as it could not be kept")
	if err := os.Mkdir(dir, 0o700); err != nil || grants > 0 {
		t.Fatalf("%d grants, %v", grants, err)
	}
	lines, _ = examine(t, exitOK, nil, args...)
	says(t, lines, "", "token", "ok", "OAuth 2 by client secret; expires in ")
	says(t, lines, "primary", "login", "ok", "405")
	if grants != 1 { // the second form found the first one's
		t.Errorf("%d grants", grants)
	}
	lines, _ = examine(t, exitFailed, nil, append(args, "--set", "api.auth.oauth.scopes=wrong")...)
	says(t, lines, "", "token", "failed", "invalid_scope")
}

// Where nobody answers, every check has an end; a signal ends them all.
func TestDoctorComesToAnEnd(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, by the kernel, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	args := []string{"--url", "http://" + silent.Addr().String(), "--state-dir", privateDir(t)}
	lines, _ := examine(t, exitFailed, nil, append(args, "--request-timeout", "50ms", "--connect-timeout", "50ms")...)
	says(t, lines, "primary", "reach", "failed", "no answer within 50ms")
	sys, stdout, stderr := testSystem(append([]string{"doctor", "--request-timeout", "1h"}, args...)...)
	soft, stop := context.WithCancel(t.Context())
	defer stop()
	sys.soft = soft
	sys.stdout = writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "state lock") {
			sys.signal.Store(int32(syscall.SIGINT))
			stop()
		}
		return stdout.Write(p)
	})
	if code := run(sys); code != exitSignal+int(syscall.SIGINT) || !sys.graceful.Load() {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestExpires(t *testing.T) {
	now := time.Now()
	for at, want := range map[time.Time]string{{}: "when it ends is not known", now.Add(90 * time.Second): "expires in 1m30s"} {
		if got := expires(at, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
