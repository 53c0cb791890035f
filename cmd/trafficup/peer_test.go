//go:build unix

package main

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPeer runs the whole program with tokens from a server that is not ours.
func TestPeer(t *testing.T) {
	bin := buildPeer(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, p *peer)
	}{
		{"secret in the header", func(t *testing.T, p *peer) { peerClient(t, p, "header") }},
		{"secret in the body", func(t *testing.T, p *peer) { peerClient(t, p, "body") }},
		{"rotation", peerRotation},
		{"revoked in mid-run", peerRevoked},
		{"a hundred workers", peerWorkers},
		{"two processes", peerProcesses},
		{"wrong secret", peerWrongSecret},
		{"used up", peerUsedUp},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, startPeer(t, bin)) })
	}
}

func peerClient(t *testing.T, p *peer, style string) {
	code, sum, said := p.upload(p.config("/v1/logs", map[string]any{"auth_style": style}), t.TempDir(), 200)
	if code != exitOK {
		t.Errorf("code %d: %v\n%s", code, sum, said)
	}
	p.expect(want{asked: map[int]int{http.StatusOK: 1}, records: 200})
}

// Each run has but the file to know the refresh token from.
func peerRotation(t *testing.T, p *peer) {
	dir, conf := t.TempDir(), p.config("/v1/logs", map[string]any{"refresh_token": p.Refresh})
	for i := range 3 {
		if i > 0 {
			p.revokeLast()
		}
		if code, sum, said := p.upload(conf, dir, 50*(i+1)); code != exitOK {
			t.Fatalf("run %d: code %d: %v\n%s", i, code, sum, said)
		}
		if info, err := os.Stat(filepath.Join(dir, "token.json")); err != nil || info.Mode() != 0o600 {
			t.Error(info, err)
		}
		p.expect(want{asked: map[int]int{http.StatusOK: i + 1}, least: i, most: 8 * i, records: 50 * (i + 1)})
	}
	if all := slices.Compact(slices.Sorted(slices.Values(append(p.refresh, p.Refresh)))); len(all) != 4 {
		t.Errorf("%d refresh tokens, want the first and one of each run", len(all))
	}
}

func peerRevoked(t *testing.T, p *peer) {
	p.before = func(n int, bearer string, _ *http.Request) {
		if n == 50 {
			p.revoke(bearer)
		}
	}
	p.undisturbed(300, "16")
	p.expect(want{asked: map[int]int{http.StatusOK: 2}, least: 1, most: 16, records: 300})
}

func peerWorkers(t *testing.T, p *peer) {
	p.before = barrier(t, 100, p.revoke, "/v1/logs")
	p.undisturbed(250, "100")
	p.expect(want{asked: map[int]int{http.StatusOK: 2}, least: 100, most: 100, records: 250})
}

// undisturbed uploads with a refresh token; what happens to its tokens is news
// about no record and no path.
func (p *peer) undisturbed(records int, workers string) {
	p.t.Helper()
	dir := p.t.TempDir()
	code, sum, said := p.upload(p.config("/v1/logs", map[string]any{"refresh_token": p.Refresh}), dir, records, "--concurrency", workers)
	if code != exitOK || sum["breaker_transitions"] != 0.0 || letterCount(p.t, dir) != 0 {
		p.t.Errorf("code %d: %v\n%s", code, sum, said)
	}
}

// barrier holds calls until n have come on each of the paths; the last one runs
// then before all go on. Calls that come later are not held.
func barrier(t *testing.T, n int, then func(bearer string), paths ...string) func(int, string, *http.Request) {
	var mu sync.Mutex
	came, first, open := map[string]int{}, "", make(chan struct{})
	return func(_ int, bearer string, r *http.Request) {
		mu.Lock()
		if first == "" {
			first = bearer
		}
		if came[r.URL.Path]++; came[r.URL.Path] <= n && bearer != first {
			t.Error("not all came with the same token")
		}
		full := !slices.ContainsFunc(paths, func(p string) bool { return came[p] < n })
		select {
		case <-open:
		default:
			if full {
				then(bearer)
				close(open)
			}
		}
		mu.Unlock()
		select {
		case <-open:
		case <-r.Context().Done():
		case <-time.After(patience):
			t.Errorf("only %v came", came)
		}
	}
}

func peerProcesses(t *testing.T, p *peer) {
	p.before = barrier(t, 4, p.revoke, "/a", "/b")
	cache := filepath.Join(t.TempDir(), "token.json")
	processes := map[string]*subprocess{}
	for path, prefix := range map[string]string{"/a": "key", "/b": "other"} {
		night := plainNight(t, 60)
		text, err := os.ReadFile(night)
		if err == nil {
			err = os.WriteFile(night, bytes.ReplaceAll(text, []byte("key-"), []byte(prefix+"-")), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		conf := p.config(path, map[string]any{"refresh_token": p.Refresh, "cache_file": cache})
		processes[dir] = startSubprocess(t, "upload", "--config", conf, "--state-dir", dir, "--request-timeout", "1m", "--log-format", "audit", "--concurrency", "4", night)
	}
	for dir, process := range processes {
		process.exits(exitOK)
		p.noSecret(process.stdout.String()+process.stderr.String(), dir)
	}
	p.expect(want{asked: map[int]int{http.StatusOK: 2}, least: 8, most: 8, records: 120})
}

func peerWrongSecret(t *testing.T, p *peer) {
	for i, more := range []map[string]any{{"auth_style": "header"}, {"auth_style": "body"}, {"refresh_token": p.Refresh}} {
		more["client_secret"] = "CANARY-wrong"
		p.denied(more, "invalid_client")
		p.expect(want{asked: map[int]int{http.StatusUnauthorized: i + 1}})
	}
}

func peerUsedUp(t *testing.T, p *peer) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {p.Refresh}}
	if status, answer := p.post(p.Token, "client", peerSecret, form); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	p.denied(map[string]any{"refresh_token": p.Refresh}, "invalid_grant")
	p.expect(want{asked: map[int]int{http.StatusBadRequest: 1}})
}

// denied uploads in vain: the run ends soon, with the server's word for it.
func (p *peer) denied(more map[string]any, word string) {
	p.t.Helper()
	dir, begin := p.t.TempDir(), time.Now()
	code, _, said := p.upload(p.config("/v1/logs", more), dir, 20)
	if code != exitAuth || !strings.Contains(said, word) || letterCount(p.t, dir) != 0 {
		p.t.Errorf("code %d\n%s", code, said)
	}
	if d := time.Since(begin); d > 5*time.Second {
		p.t.Errorf("took %s", d)
	}
}
