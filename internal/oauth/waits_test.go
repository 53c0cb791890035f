package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"trafficup/internal/secret"
)

// A token that was refused is not sent again while the file that is to hold
// another cannot be read; the other is taken when it is there.
func TestRefusedFileIsEmptiedAndRefilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("first-token")
	s := File(path, nil)
	tok := get(t, s)
	put("")
	if _, err := s.Refuse(t.Context(), tok.Generation, "primary"); !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	for range 3 {
		if tok, err := s.Token(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Fatal(tok, err)
		}
	}
	put("second-token")
	if tok := get(t, s); tok.Value.Reveal() != "second-token" || tok.Generation != 2 {
		t.Error(tok.Generation)
	}
}

func TestWhatIsNoToken(t *testing.T) {
	for _, text := range []string{"Bearer abcdef", "bearer abcdef", "good tok", `{"access_token":"a"}`, `a"b`} {
		if Valid(secret.New(text)) == nil {
			t.Errorf("%q is taken", text)
		}
	}
	for _, text := range []string{"abc", "a.b-c_d~e+f/g==", "ghp_0123", "a:b", "Bearers"} {
		if err := Valid(secret.New(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A client's secret that was changed in its file is taken when the old one is
// denied, and asked for once.
func TestSecretIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		e.answer = func(w http.ResponseWriter, r *http.Request) {
			if _, pass, _ := r.BasicAuth(); pass != "new-secret" {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = fmt.Fprint(w, `{"error":"invalid_client"}`)
				return
			}
			_, _ = fmt.Fprint(w, `{"access_token":"abcdef","token_type":"Bearer"}`)
		}
		cfg := serve(t, e)
		cfg.ClientSecret = secret.New("old-secret")
		cfg.Reread = func() (secret.Secret, error) { return secret.New("new-secret"), nil }
		if tok := get(t, source(t, cfg)); tok.Value.Reveal() != "abcdef" || e.asked != 2 {
			t.Error(e.asked)
		}
		cfg.Reread = func() (secret.Secret, error) { return secret.New("old-secret"), nil }
		if _, err := source(t, cfg).Token(t.Context()); !errors.Is(err, ErrDenied) || e.asked != 3 {
			t.Error(err, e.asked)
		}
		e.wrong = nil // it was meant to be
	})
}
