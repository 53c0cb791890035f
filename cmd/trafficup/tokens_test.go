package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// One path takes every token, the other none: that is the other's fault, and no
// reason to take the place of the token that is taken.
func TestOnePathRefusesTheToken(t *testing.T) {
	l, dir := newLogin(t), t.TempDir()
	var refused atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refused.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer other.Close()
	code, sum, said := l.upload(t, l.config(t, ""), dir, 1000, "--fallback-url", other.URL, "--canary-fallback", "10%", "--concurrency", "16")
	if code != exitOK || len(l.keys) != 1000 || l.asked > 2 || refused.Load() < 3 {
		t.Errorf("code %d, %d keys, %d tokens for %d refusals: %v\n%s", code, len(l.keys), l.asked, refused.Load(), sum, said)
	}
	const warning = "fallback: refuses the token that another path takes"
	if n := strings.Count(said, `"warning: `+warning) + strings.Count(said, `"`+warning); n != 1 {
		t.Errorf("%d warnings\n%s", n, said)
	}
}

// A cache that cannot be used is told at once, with its name and what to do.
func TestTokenCacheCannotBeUsed(t *testing.T) {
	pipe := func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "token.json"), 0o600) }
	for name, c := range map[string]struct {
		spoil func(dir string) error
		more  string
		says  string
	}{
		"a pipe":       {pipe, "", "token.json"},
		"a directory":  {func(dir string) error { return os.Mkdir(filepath.Join(dir, "token.json"), 0o700) }, "", "token.json"},
		"its lock":     {func(dir string) error { return os.Mkdir(filepath.Join(dir, "token.json.lock"), 0o700) }, "", "token.json.lock"},
		"no directory": {func(string) error { return nil }, ", cache_file: /none/at/all/token.json", "mkdir -p -m 700 /none/at/all"},
	} {
		t.Run(name, func(t *testing.T) {
			l, dir := newLogin(t), t.TempDir()
			if err := c.spoil(dir); err != nil {
				t.Fatal(err)
			}
			code, _, said := l.upload(t, l.config(t, c.more), dir, 5)
			if code != exitFailed || l.asked+l.calls > 0 || !strings.Contains(said, c.says) || !strings.Contains(said, "api.auth.oauth.cache_file") {
				t.Errorf("code %d, asked %d, %d calls\n%s", code, l.asked, l.calls, said)
			}
			lines, _ := examine(t, exitFailed, nil, "--config", l.config(t, c.more), "--state-dir", dir)
			says(t, lines, "", "token", "failed", strings.TrimPrefix(c.says, "mkdir -p -m 700 "))
		})
	}
}

// A rotated refresh token that cannot be kept is told in quiet mode, too, and
// kept when the disk lets it.
func TestLostRefreshTokenIsToldInQuietMode(t *testing.T) {
	for _, mended := range []bool{false, true} {
		t.Run(fmt.Sprint("mended ", mended), func(t *testing.T) {
			l, dir := newLogin(t), t.TempDir()
			l.refresh = "CANARY-refresh-0"
			conf := l.config(t, ", refresh_token: CANARY-refresh-0")
			full := filepath.Join(dir, "token.json.tmp") // stands for a disk that cannot be written
			if err := os.MkdirAll(filepath.Join(full, "x"), 0o700); err != nil {
				t.Fatal(err)
			}
			l.onCall = func(*login, int) bool {
				if mended {
					_ = os.RemoveAll(full)
				}
				return true
			}
			args := []string{"upload", "--quiet", "--config", conf, "--state-dir", dir, plainNight(t, 5)}
			sys, stdout, stderr := testSystem(args...)
			code := run(sys)
			said := stdout.String() + stderr.String()
			if code != exitOK || !strings.Contains(stderr.String(), "warning: the refresh token, which the server has replaced, is not kept") {
				t.Fatalf("code %d: %q", code, said)
			}
			noCanary(t, said, dir)
			sys, stdout, stderr = testSystem(append(args[:len(args)-1], plainNight(t, 7))...)
			want := exitAuth
			if mended {
				want = exitOK
			}
			if code := run(sys); code != want {
				t.Errorf("the next run: code %d, want %d: %s%s", code, want, stdout, stderr)
			}
			if kept := strings.Contains(said, "kept now"); kept != mended {
				t.Errorf("said: %q", said)
			}
		})
	}
}

// Doctor finds what would end a run at once, and says each thing once.
func TestDoctorFindsWhatEndsARun(t *testing.T) {
	srv, _ := asked(t, "CANARY-token")
	file := privateFile(t, "token", "CANARY-token\n")
	base := []string{"--url", srv.URL + "/v1/logs", "--state-dir", privateDir(t), "--set", "api.tls.ca_file=" + authority(t, srv), "--token-file", file}
	lines, _ := examine(t, exitFailed, nil, append(base, "--log-file", "/nonexist/x.log", "--log-format", "audit")...)
	says(t, lines, "", "log file", "failed", "it cannot be made")
	lines, _ = examine(t, exitFailed, nil, append(base, "--deadline", "1ms", "--splay", "1h")...)
	says(t, lines, "", "configuration", "failed", "--splay 1h0m0s may outlast the deadline")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	lines, text := examine(t, exitOK, nil, base...)
	says(t, lines, "", "token", "ok", "from the file")
	if n := strings.Count(text, "0644"); n != 1 {
		t.Errorf("said %d times\n%s", n, text)
	}
}
