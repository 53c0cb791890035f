//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// peerSecret is the secret of the client at the peer. A wrong encoding spoils it.
const peerSecret = "CANARY-s%2Bcr t+:&="

// peer is an OAuth server that is not ours, with a proxy before it that counts
// the requests for tokens, and an API that asks it about each bearer.
type peer struct {
	t                                  *testing.T
	Token, Introspect, Revoke, Refresh string
	proxy, api                         *httptest.Server
	// before is called with each call of the API, the nth, before its bearer is
	// looked at; nil: nothing is.
	before func(n int, bearer string, r *http.Request)

	mu      sync.Mutex
	asked   map[int]int     // guarded by mu; requests for tokens, by the status of their answers
	tokens  []string        // guarded by mu; access tokens given
	refresh []string        // guarded by mu; refresh tokens given
	shown   []string        // guarded by mu; what came in Authorization headers of requests for tokens
	calls   int             // guarded by mu; of the API
	refused int             // guarded by mu; of these
	keys    map[string]bool // guarded by mu; acked
}

// buildPeer builds the server. Its modules come from the module proxy.
func buildPeer(t *testing.T) (bin string) {
	t.Helper()
	bin = filepath.Join(t.TempDir(), "oauthpeer")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin, ".")
	cmd.Dir = filepath.Join("..", "..", "test", "oauthpeer")
	if out, err := cmd.CombinedOutput(); err != nil {
		lacks(t, fmt.Sprintf("what it takes to build test/oauthpeer: %v\n%s", err, out))
	}
	return bin
}

// spawn starts the server, which ends with its standard input, and returns the
// line it says.
func spawn(t *testing.T, bin string) []byte {
	t.Helper()
	cmd := exec.Command(bin)
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	hello, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the server says %q: %v", hello, err)
	}
	return hello
}

// startPeer starts the server, the proxy and the API.
func startPeer(t *testing.T, bin string) *peer {
	t.Helper()
	p := &peer{t: t, asked: map[int]int{}, keys: map[string]bool{}}
	if err := json.Unmarshal(spawn(t, bin), p, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(p.Token)
	if err != nil {
		t.Fatal(err)
	}
	p.proxy = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.Out.URL, r.Out.Host = target, target.Host },
		ModifyResponse: p.count,
	})
	t.Cleanup(p.proxy.Close)
	p.api = httptest.NewServer(http.HandlerFunc(p.take))
	t.Cleanup(p.api.Close)
	return p
}

// count takes down what the token endpoint answers.
func (p *peer) count(resp *http.Response) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var a struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[resp.StatusCode]++
	if a.Access != "" {
		p.tokens = append(p.tokens, a.Access)
	}
	if a.Refresh != "" {
		p.refresh = append(p.refresh, a.Refresh)
	}
	if _, shown, ok := strings.Cut(resp.Request.Header.Get("Authorization"), " "); ok {
		p.shown = append(p.shown, shown)
	}
	return nil
}

// take is the API: it takes a record when the peer says that its bearer is valid.
func (p *peer) take(w http.ResponseWriter, r *http.Request) {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	p.calls++
	n := p.calls
	p.mu.Unlock()
	if p.before != nil {
		p.before(n, bearer, r)
	}
	status, about := p.post(p.Introspect, "api", "CANARY-api", url.Values{"token": {bearer}})
	p.mu.Lock()
	defer p.mu.Unlock()
	if active, ok := about["active"].(bool); status != http.StatusOK || !ok {
		p.t.Errorf("introspection: %d %v", status, about)
	} else if !active {
		p.refused++
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	p.keys[r.Header.Get("Idempotency-Key")] = true
	w.WriteHeader(http.StatusCreated)
}

// post asks the peer as a client, past the proxy.
func (p *peer) post(to, id, secret string, form url.Values) (status int, answer map[string]any) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		p.t.Error(err)
		return 0, nil
	}
	req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Error(err)
		return 0, nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && len(body) > 0 { // empty for a revocation
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		p.t.Errorf("%s answers %d %q: %v", to, resp.StatusCode, body, err)
	}
	return resp.StatusCode, answer
}

// revoke ends an access token; the refresh token stays.
func (p *peer) revoke(token string) {
	p.t.Helper()
	if status, about := p.post(p.Revoke, "client", peerSecret, url.Values{"token": {token}}); status != http.StatusOK {
		p.t.Errorf("revocation: %d %v", status, about)
	}
}

// revokeLast ends the access token that was given last.
func (p *peer) revokeLast() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revoke(p.tokens[len(p.tokens)-1])
}

// config is one whose API has that path. more goes into api.auth.oauth, and
// over the client's secret where it holds another.
func (p *peer) config(path string, more map[string]any) string {
	p.t.Helper()
	oauth := map[string]any{"token_url": p.proxy.URL, "client_id": "client", "client_secret": peerSecret}
	maps.Copy(oauth, more)
	text, err := json.Marshal(map[string]any{"api": map[string]any{"primary": p.api.URL + path, "auth": map[string]any{"oauth": oauth}}})
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(p.t.TempDir(), "trafficup.yaml") // JSON is YAML
	if err := os.WriteFile(file, text, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return file
}

// upload runs one in this process and returns its code, its summary and what it
// said, which holds no secret.
func (p *peer) upload(config, dir string, records int, flags ...string) (code int, sum map[string]any, said string) {
	p.t.Helper()
	args := []string{"upload", "--json", "--config", config, "--state-dir", dir, "--request-timeout", "1m", "--log-format", "audit"}
	sys, stdout, stderr := testSystem(append(append(args, flags...), plainNight(p.t, records))...)
	code = run(sys)
	for line := range strings.Lines(stdout.String()) {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil && m["message_type"] == "summary" {
			sum = m
		}
	}
	said = stdout.String() + stderr.String()
	p.noSecret(said, dir)
	return code, sum, said
}

// noSecret fails when one is in what was said or kept. The token's own file may
// hold it.
func (p *peer) noSecret(said, dir string) {
	p.t.Helper()
	noCanary(p.t, said, dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	places := map[string]string{"what was said": said}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "token.json" {
			return err
		}
		b, err := os.ReadFile(path)
		places[path] = string(b)
		return err
	})
	if err != nil {
		p.t.Error(err)
	}
	for _, secret := range slices.Concat(p.tokens, p.refresh, p.shown) {
		for place, text := range places {
			if strings.Contains(text, secret) {
				p.t.Errorf("%.12s… is in %s", secret, place)
			}
		}
	}
}

// want is what has to have come of all runs so far.
type want struct {
	asked       map[int]int // requests for tokens, by the status of their answers
	least, most int         // calls of the API that were refused
	records     int         // that came
}

// expect checks it, and that no call came in vain beside those refused.
func (p *peer) expect(w want) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Logf("token requests %v, %d API calls, %d of them refused, %d records", p.asked, p.calls, p.refused, len(p.keys))
	if !maps.Equal(p.asked, w.asked) {
		p.t.Errorf("token requests by status: %v, want %v", p.asked, w.asked)
	}
	if p.refused < w.least || p.refused > w.most {
		p.t.Errorf("%d calls were refused, want %d to %d", p.refused, w.least, w.most)
	}
	if len(p.keys) != w.records || p.calls != w.records+p.refused {
		p.t.Errorf("%d records came in %d calls, want %d, once each", len(p.keys), p.calls, w.records)
	}
}
