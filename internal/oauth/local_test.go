package oauth

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	var warnings []string
	s := File(path, func(w string) { warnings = append(warnings, w) })
	if _, err := s.Token(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	write(t, path, "one\n")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if tok := get(t, s); tok.Value.Reveal() != "one" || tok.Generation != 1 {
		t.Error(tok)
	}
	if _, err := s.Refuse(t.Context(), 1, "primary"); !errors.Is(err, ErrSame) {
		t.Error(err)
	}
	write(t, path, "other\n")
	if tok := get(t, s); tok.Value.Reveal() != "other" || tok.Generation != 2 {
		t.Error(tok)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		text string
		age  time.Duration
	}{{"OTHER\n", time.Hour}, {"longer\n", time.Hour}, {"other\n", 0}} { // the time alone, the size alone, both
		write(t, path, c.text)
		if err := os.Chtimes(path, time.Time{}, info.ModTime().Add(-c.age)); err != nil {
			t.Fatal(err)
		}
		if tok := get(t, s); tok.Generation != uint64(3+i) {
			t.Errorf("%q: %v", c.text, tok)
		}
	}
	// A change that shows in no property of the file is found by its refusal.
	write(t, path, "third\n")
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if tok := get(t, s); tok.Generation != 5 {
		t.Error(tok)
	}
	if tok, err := s.Refuse(t.Context(), 5, "primary"); err != nil || tok.Value.Reveal() != "third" {
		t.Error(tok, err)
	}
	if tok, err := s.Refuse(t.Context(), 1, "primary"); err != nil || tok.Generation != 6 {
		t.Error("a late refusal:", tok, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if tok := get(t, s); tok.Generation != 6 {
		t.Error(tok)
	}
	if _, err := s.Refuse(t.Context(), 6, "primary"); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if len(warnings) != 1 {
		t.Errorf("warnings %q", warnings)
	}
}

func TestCommand(t *testing.T) {
	for name, c := range map[string]struct {
		script, want string
		lives        bool
		err          error
		text         string
	}{
		"plain":       {script: "echo abc", want: "abc"},
		"JSON":        {script: `echo '{"access_token":"abc","expires_in":60}'`, want: "abc", lives: true},
		"failing":     {script: "echo 'please log in' >&2; echo more >&2; echo CANARY; exit 3", err: ErrUnavailable, text: "exit status 3: please log in"},
		"silent":      {script: "exit 0", err: ErrUnavailable, text: "is empty"},
		"bad JSON":    {script: "echo '{CANARY'", err: ErrUnavailable, text: "not the JSON"},
		"two lines":   {script: "echo CANARY; echo CANARY", err: ErrUnavailable, text: "more than one line"},
		"endless":     {script: "head -c 100000 /dev/zero", err: ErrUnavailable, text: "more than 64 KiB"},
		"loud":        {script: "head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1", err: ErrUnavailable, text: "xxx"},
		"JSON, empty": {script: "echo '{}'", err: ErrUnavailable, text: "no access_token"},
	} {
		t.Run(name, func(t *testing.T) {
			tok, err := Command([]string{"/bin/sh", "-c", c.script}).Token(t.Context())
			if tok.Value.Reveal() != c.want || tok.Expires.IsZero() == c.lives || !errors.Is(err, c.err) {
				t.Fatal(tok, err)
			}
			if err != nil && (!strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "CANARY") || len(err.Error()) > maxWords+40) {
				t.Error(err)
			}
		})
	}
	for _, argv := range [][]string{nil, {filepath.Join(t.TempDir(), "none")}} {
		if _, err := Command(argv).Token(t.Context()); !errors.Is(err, ErrDenied) {
			t.Error(err)
		}
	}
}

func TestCommandIsRunOncePerRefusal(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	s := Command([]string{"/bin/sh", "-c", `echo x >> "$0"; wc -l < "$0"`, log})
	for want := uint64(1); want < 3; want++ {
		if tok := get(t, s); tok.Generation != want {
			t.Error(tok)
		}
		if want == 1 {
			if _, err := s.Refuse(t.Context(), 1, "primary"); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := s.Refuse(t.Context(), 2, "primary"); !errors.Is(err, ErrSame) {
		t.Error(err)
	}
}

func TestCommandHasADeadline(t *testing.T) {
	s := Command([]string{"/bin/sh", "-c", "sleep 3 & sleep 3"}).(*refresher)
	s.timeout = 50 * time.Millisecond
	if _, err := s.Token(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "/bin/sh: has not answered for 100ms") {
		t.Error(err)
	}
}
