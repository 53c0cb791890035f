package oauth

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"trafficup/internal/disk"
	"trafficup/internal/secret"
)

func FuzzJudge(f *testing.F) {
	for _, body := range []string{"", "{}", `{"access_token":"a","expires_in":60}`, `{"error":"invalid_grant"}`, `{"access_token":"a","expires_in":"NaN"}`, `{"access_token":"a","expires_in":1e400}`, "<html>CANARY-secret"} {
		f.Add(200, body, "5")
		f.Add(400, body, "99999999999")
	}
	var masks secret.Redactor
	masks.Add(secret.New("CANARY-secret"))
	f.Fuzz(func(t *testing.T, status int, body, after string) {
		a, err := judge(status, http.Header{"Retry-After": {after}}, []byte(body), masks.Redact)
		if err == nil {
			g, err := a.grant()
			if err != nil || status != 200 || g.value.IsZero() || g.lifetime < 0 || g.lifetime > 0 && g.lifetime < time.Second || g.left != g.lifetime {
				t.Errorf("%v, %v", g, err)
			}
			return
		}
		if errors.Is(err, ErrDenied) == errors.Is(err, ErrUnavailable) {
			t.Errorf("of no kind, or of two: %v", err)
		}
		text := err.Error()
		if strings.Contains(text, "CANARY-secret") || len(text) > maxWords+40 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", text)
		}
		if f := err.(*failure); f.wait < 0 || f.wait > maxWait {
			t.Errorf("wait %s", f.wait)
		}
	})
}

func FuzzCache(f *testing.F) {
	f.Add(`{"for":"me","access_token":"a","received":"2026-01-01T00:00:00Z","expires":"2026-01-01T01:00:00Z"}`)
	f.Add(`{"for":"me","access_token":"a","received":"2026-01-01T00:00:00Z"}`)
	f.Add(`{"for":"you"}`)
	f.Add("")
	now := time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC)
	name := filepath.Join(f.TempDir(), "token.json")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := load(disk.OS{}, name, "me")
		if err != nil {
			return
		}
		if g, ok := k.grant(secret.Secret{}, now); ok && (g.value.IsZero() || g.left < 0 || g.left > g.lifetime) {
			t.Errorf("%v", g)
		}
	})
}
