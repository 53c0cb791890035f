package main

import (
	"encoding/json/v2"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// login is a token endpoint and an API that wants its tokens. Refresh tokens
// work once; one that is used again revokes all.
type login struct {
	mu         sync.Mutex
	answer     func(w http.ResponseWriter) bool // in place of a token; true when it has answered
	asked      int                              // guarded by mu
	bearer     bool                             // guarded by mu; a token came to the token endpoint
	refresh    string                           // guarded by mu; "": the client's secret is enough
	revoked    bool                             // guarded by mu
	current    string                           // guarded by mu; the token that is taken; "": none is
	calls      int                              // guarded by mu
	refused    int                              // guarded by mu
	keys       map[string]int                   // guarded by mu; acked
	bodies     map[string]string                // guarded by mu
	onCall     func(l *login, n int) bool       // called with mu held; false: 401 all the same
	token, api *httptest.Server
}

func newLogin(t *testing.T) *login {
	l := &login{keys: map[string]int{}, bodies: map[string]string{}}
	l.token = httptest.NewServer(http.HandlerFunc(l.grant))
	l.api = httptest.NewServer(http.HandlerFunc(l.take))
	t.Cleanup(l.token.Close)
	t.Cleanup(l.api.Close)
	return l
}

func (l *login) grant(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	l.bearer = l.bearer || strings.HasPrefix(r.Header.Get("Authorization"), "Bearer")
	if l.answer != nil && l.answer(w) {
		return
	}
	more := ""
	if l.refresh != "" {
		if used := r.FormValue("refresh_token"); used != l.refresh || l.revoked {
			l.revoked = true
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant","error_description":"used before"}`)
			return
		}
		l.refresh = fmt.Sprintf("CANARY-refresh-%d", l.asked)
		more = fmt.Sprintf(`,"refresh_token":%q`, l.refresh)
	}
	l.current = fmt.Sprintf("CANARY-access-%d", l.asked)
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600%s}`, l.current, more)
}

func (l *login) take(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	key := r.Header.Get("Idempotency-Key")
	ok := l.onCall == nil || l.onCall(l, l.calls)
	if sent := r.Header.Get("Authorization"); !ok || l.current == "" || sent != "Bearer "+l.current {
		l.refused++
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"title":"token %s is not valid"}`, sent) // as some do
		return
	}
	l.keys[key]++
	w.WriteHeader(http.StatusCreated)
}

func (l *login) config(t *testing.T, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trafficup.yaml")
	text := fmt.Sprintf("api:\n  primary: %s/v1/logs\n  auth: {oauth: {token_url: %s/token, client_id: client, client_secret: CANARY-secret%s}}\n", l.api.URL, l.token.URL, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func plainNight(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"spot_id":"SP-%d","idempotency_key":"key-%05d","payload":{"house_number":"WXYZ-0000482"}}`+"\n", i, i)
	}
	file := filepath.Join(t.TempDir(), "night.ndjson")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// upload runs one and returns its code, its summary and all it said.
func (l *login) upload(t *testing.T, config, dir string, records int, flags ...string) (code int, sum map[string]any, said string) {
	t.Helper()
	args := append([]string{"upload", "--json", "--config", config, "--state-dir", dir, "--backoff-base", "5ms", "--log-format", "audit"}, flags...)
	sys, stdout, stderr := testSystem(append(args, plainNight(t, records))...)
	code = run(sys)
	for line := range strings.Lines(stdout.String()) {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil && m["message_type"] == "summary" {
			sum = m
		}
	}
	said = stdout.String() + stderr.String()
	noCanary(t, said, dir)
	return code, sum, said
}

// noCanary fails when a secret is in what was said or kept. The token's own file
// may hold it.
func noCanary(t *testing.T, said, dir string) {
	t.Helper()
	if i := strings.Index(said, "CANARY"); i >= 0 {
		t.Errorf("a secret was said: %q", said[max(0, i-80):min(len(said), i+20)])
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) == "token.json" {
			return nil
		}
		if b, _ := os.ReadFile(path); strings.Contains(string(b), "CANARY") {
			t.Errorf("a secret is in %s", path)
		}
		return nil
	})
}

func letterCount(t *testing.T, dir string) int {
	t.Helper()
	n := 0
	files, _ := filepath.Glob(filepath.Join(dir, "deadletters", "*.ndjson"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(b), "\n")
	}
	return n
}

func TestTokensComeFromTheServer(t *testing.T) {
	l, dir := newLogin(t), t.TempDir()
	code, sum, said := l.upload(t, l.config(t, ""), dir, 100)
	if code != exitOK || len(l.keys) != 100 || l.asked != 1 || l.bearer {
		t.Fatalf("code %d, %d keys, asked %d: %v\n%s", code, len(l.keys), l.asked, sum, said)
	}
	if info, err := os.Stat(filepath.Join(dir, "token.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if code, _, _ := l.upload(t, l.config(t, ""), dir, 120); code != exitOK || l.asked != 1 {
		t.Errorf("the next run: code %d, asked %d in all", code, l.asked)
	}
}

// The API refuses every token, though the server gives new ones.
func TestEveryTokenIsRefused(t *testing.T) {
	l, dir := newLogin(t), t.TempDir()
	l.onCall = func(*login, int) bool { return false }
	code, _, said := l.upload(t, l.config(t, ""), dir, 20, "--concurrency", "8")
	if code != exitAuth || l.asked > 2 || l.calls > 16 || letterCount(t, dir) != 0 {
		t.Errorf("code %d, asked %d, %d calls\n%s", code, l.asked, l.calls, said)
	}
}

// Revoked in mid-run, a token is replaced once for all workers; refresh tokens
// are kept before they are used.
func TestTokenRevokedInMidRun(t *testing.T) {
	for _, grant := range []string{"secret", "refresh token"} {
		t.Run(grant, func(t *testing.T) {
			l, dir, more := newLogin(t), t.TempDir(), ""
			if grant != "secret" {
				l.refresh, more = "CANARY-refresh-0", ", refresh_token: CANARY-refresh-0"
			}
			l.onCall = func(l *login, n int) bool {
				if n == 50 {
					l.current = "" // until another is asked for
				}
				return true
			}
			code, sum, said := l.upload(t, l.config(t, more), dir, 300, "--concurrency", "16")
			if code != exitOK || len(l.keys) != 300 || l.asked != 2 || l.refused > 17 || l.revoked {
				t.Fatalf("code %d, %d keys, asked %d, refused %d: %v\n%s", code, len(l.keys), l.asked, l.refused, sum, said)
			}
			if n := sum["breaker_transitions"].(float64); n != 0 {
				t.Errorf("%v breaker transitions", n)
			}
			l.onCall = nil
			if code, _, said := l.upload(t, l.config(t, more), dir, 310); code != exitOK || l.revoked {
				t.Errorf("the next run: code %d, revoked %v\n%s", code, l.revoked, said)
			}
		})
	}
}

// Two runs at once that share a cache make one request when both are refused.
func TestTwoRunsShareOneToken(t *testing.T) {
	l := newLogin(t)
	cache := filepath.Join(t.TempDir(), "token.json")
	l.refresh = "CANARY-refresh-0"
	conf := l.config(t, ", refresh_token: CANARY-refresh-0, cache_file: "+cache)
	l.onCall = func(l *login, n int) bool {
		if n == 100 {
			l.current = ""
		}
		time.Sleep(200 * time.Microsecond)
		return true
	}
	var both sync.WaitGroup
	for range 2 {
		dir := t.TempDir()
		both.Go(func() {
			if code, _, said := l.upload(t, conf, dir, 200); code != exitOK {
				t.Errorf("code %d\n%s", code, said)
			}
		})
	}
	both.Wait()
	if l.asked != 2 || l.revoked {
		t.Errorf("asked %d times, want once at the start and once when revoked; revoked %v", l.asked, l.revoked)
	}
}

// An answer of 401 now and then to a token that is good at other times costs a
// request each, and is no news about record or path.
func TestNowAndThenRefused(t *testing.T) {
	l, dir := newLogin(t), t.TempDir()
	l.onCall = func(_ *login, n int) bool { return n%10 != 0 }
	code, sum, said := l.upload(t, l.config(t, ""), dir, 100, "--concurrency", "1", "--max-attempts", "1")
	if code != exitOK || len(l.keys) != 100 || sum["breaker_transitions"].(float64) != 0 {
		t.Errorf("code %d, %d keys: %v\n%s", code, len(l.keys), sum, said)
	}
	for key, n := range l.keys {
		if n != 1 {
			t.Errorf("%s was applied %d times", key, n)
		}
	}
}

// What a token endpoint can answer, and what becomes of the night.
func TestTokenEndpointAnswers(t *testing.T) {
	status := func(code int, header, body string) func(w http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(code)
			fmt.Fprint(w, body)
			return true
		}
	}
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter) bool
		code   int
		says   string
	}{
		"invalid_grant":       {status(400, "", `{"error":"invalid_grant","error_description":"expired yesterday"}`), exitAuth, "invalid_grant"},
		"invalid_client":      {status(401, "", `{"error":"invalid_client"}`), exitAuth, "invalid_client"},
		"unauthorized_client": {status(400, "", `{"error":"unauthorized_client"}`), exitAuth, "unauthorized_client"},
		"503":                 {status(503, "", "down"), exitWaiting, "no token"},
		"429":                 {status(429, "Retry-After: 2", ""), exitWaiting, "no token"},
		"HTML":                {status(200, "Content-Type: text/html", "<html>Sign in</html>"), exitWaiting, "no token"},
		"no token":            {status(200, "", "{}"), exitWaiting, "no token"},
		"redirect":            {status(302, "Location: https://other.example/token", ""), exitWaiting, "no token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, dir := newLogin(t), t.TempDir()
			l.answer = c.answer
			start := time.Now()
			code, _, said := l.upload(t, l.config(t, ""), dir, 10, "--halt-after", "1500ms")
			if code != c.code || !strings.Contains(said, c.says) || l.calls != 0 || letterCount(t, dir) != 0 {
				t.Errorf("code %d, want %d; %d calls\n%s", code, c.code, l.calls, said)
			}
			if d := time.Since(start); c.code == exitAuth && d > 5*time.Second {
				t.Errorf("took %s", d)
			}
		})
	}
}

// A token endpoint that is down for a while delays the night and no more.
func TestTokenEndpointDownForAWhile(t *testing.T) {
	l, dir := newLogin(t), t.TempDir()
	l.answer = func(w http.ResponseWriter) bool {
		if l.asked > 1 {
			return false
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	code, sum, said := l.upload(t, l.config(t, ""), dir, 10)
	if code != exitOK || sum["acked"].(float64) != 10 || sum["retries"].(float64) != 0 || !strings.Contains(said, "asked for") {
		t.Errorf("code %d: %v\n%s", code, sum, said)
	}
}

func TestTokenFiles(t *testing.T) {
	l, dir := newLogin(t), t.TempDir()
	l.current = "CANARY-static"
	for name, text := range map[string]string{"plain": "CANARY-static", "line end": "CANARY-static\r\n", "quotes": "\"CANARY-static\"\n", "mark": "\ufeffCANARY-static"} {
		file := filepath.Join(dir, "token")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		conf := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(conf, []byte("api: {primary: \""+l.api.URL+"/v1\", auth: {token_file: "+file+"}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		state := t.TempDir()
		if code, _, said := l.upload(t, conf, state, 3); code != exitOK {
			t.Errorf("%s: code %d\n%s", name, code, said)
		}
		// Found by its name among what the service manager passes.
		if err := os.WriteFile(conf, []byte("api: {primary: \""+l.api.URL+"/v1\", auth: {token_file: token}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		sys, stdout, stderr := testSystem("upload", "--config", conf, "--state-dir", t.TempDir(), plainNight(t, 2))
		sys.environ = []string{"CREDENTIALS_DIRECTORY=" + dir}
		if code := run(sys); code != exitOK {
			t.Errorf("%s: code %d\n%s%s", name, code, stdout, stderr)
		}
	}
}

// A token file that holds none ends the run soon, with the file named whole.
func TestTokenFilesThatHoldNone(t *testing.T) {
	for name, text := range map[string]string{"missing": "", "empty": "\n", "two lines": "CANARY-a\nCANARY-b\n", "a header": "Bearer CANARY-a", "a document": `{"access_token":"CANARY-a"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, state := newLogin(t), t.TempDir()
			file := filepath.Join(state, "token")
			if name != "missing" {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			sys, stdout, stderr := testSystem("upload", "--url", l.api.URL, "--token-file", file, "--state-dir", filepath.Join(state, "s"), plainNight(t, 5))
			start := time.Now()
			code := run(sys)
			if said := stdout.String() + stderr.String(); code != exitAuth || l.calls != 0 || !strings.Contains(said, "put the token alone into "+file) || strings.Contains(said, "CANARY") {
				t.Errorf("code %d, %d calls: %s", code, l.calls, said)
			}
			if d := time.Since(start); d > 30*time.Second {
				t.Errorf("took %s", d)
			}
		})
	}
}
