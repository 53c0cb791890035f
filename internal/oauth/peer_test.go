package oauth

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"trafficup/internal/secret"
)

// peer is a server that is not ours, oidc-provider on Node.
type peer struct{ URL, Refresh string }

// startPeer installs and starts it. That needs npm and its registry, hence only
// when OAUTH_PEER is 1; what is missing then is an error where CI is 1.
func startPeer(t *testing.T) (p peer) {
	t.Helper()
	if os.Getenv("OAUTH_PEER") != "1" {
		t.Skip("OAUTH_PEER is not 1: no test against a server from npm")
	}
	missing := t.Skipf
	if os.Getenv("CI") == "1" {
		missing = t.Fatalf
	}
	dir := t.TempDir()
	script, err := os.ReadFile("testdata/peer.mjs")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "peer.mjs"), string(script))
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "oidc-provider@8")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		missing("npm install oidc-provider: %v\n%s", err, out)
	}
	node := exec.Command("node", "peer.mjs")
	node.Dir, node.Stderr = dir, t.Output()
	out, err := node.StdoutPipe()
	if err == nil {
		err = node.Start()
	}
	if err != nil {
		missing("node: %v", err)
	}
	t.Cleanup(func() {
		_ = node.Process.Kill()
		_ = node.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if json.Unmarshal(lines.Bytes(), &p) == nil && p.URL != "" {
			return p
		}
	}
	t.Fatal("the server did not start")
	return p
}

// post asks the server something as the client, and returns the answer.
func (p peer) post(t *testing.T, path string, value secret.Secret) (answer struct{ Active bool }) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+path, strings.NewReader(url.Values{"token": {value.Reveal()}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("client", "CANARY-secret")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	_ = json.NewDecoder(resp.Body).Decode(&answer) // empty for a revocation
	return answer
}

func TestPeer(t *testing.T) {
	p := startPeer(t)
	cfg := Config{TokenURL: p.URL + "/token", ClientID: "client", ClientSecret: secret.New("CANARY-secret")}
	active := func(tok Token) bool { return p.post(t, "/token/introspection", tok.Value).Active }

	t.Run("revoked in mid-run", func(t *testing.T) {
		s := source(t, cfg)
		tok := get(t, s)
		if !active(tok) || tok.Expires.IsZero() {
			t.Fatal(tok)
		}
		p.post(t, "/token/revocation", tok.Value)
		if active(tok) {
			t.Fatal("not revoked")
		}
		next, err := s.Refuse(t.Context(), tok.Generation)
		if err != nil || !active(next) {
			t.Error(next, err)
		}
	})
	t.Run("rotation", func(t *testing.T) {
		cfg := cfg
		cfg.RefreshToken, cfg.CacheFile = secret.New(p.Refresh), filepath.Join(t.TempDir(), "token.json")
		tok := Token{}
		for range 4 { // each with the memory of the file alone
			s := source(t, cfg)
			next := get(t, s)
			if next.Value.IsZero() || tok.Value.Reveal() != "" && !next.Value.Equal(tok.Value) {
				t.Fatal("the cache was not used")
			}
			var err error
			if tok, err = s.Refuse(t.Context(), next.Generation); err != nil || !active(tok) || tok.Value.Equal(next.Value) {
				t.Fatal(tok, err)
			}
		}
		// The first refresh token was replaced; using it again is theft.
		cfg.CacheFile = ""
		if _, err := source(t, cfg).Token(t.Context()); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "invalid_grant") {
			t.Error(err)
		}
	})
	t.Run("wrong secret", func(t *testing.T) {
		cfg := cfg
		cfg.ClientSecret = secret.New("CANARY-wrong")
		if _, err := source(t, cfg).Token(t.Context()); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "invalid_client") || strings.Contains(err.Error(), "CANARY") {
			t.Error(err)
		}
	})
}
