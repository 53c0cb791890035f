package secret

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trafficup/internal/disk"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, raw, want, err string }{
		{"plain", "abc", "abc", ""},
		{"newline", "abc\n", "abc", ""},
		{"CRLF", "abc\r\n\r\n", "abc", ""},
		{"mark", "\ufeffabc\n", "abc", ""},
		{"quotes", "\"abc\"\n", "abc", ""},
		{"single quotes", "'abc'", "abc", ""},
		{"blanks in quotes", " \" abc\t\" ", "abc", ""},
		{"one quote only", "\"abc", "\"abc", ""},
		{"one pair only", "''abc''", "'abc'", ""},
		{"blank inside", "Basic abc=", "Basic abc=", ""},
		{"empty", "", "", "is empty"},
		{"blanks alone", " \r\n", "", "is empty"},
		{"quotes alone", "\"\"", "", "is empty"},
		{"two lines", "topsecret\nother", "", "more than one line: a line end at byte 10"},
		{"tab inside", "topsecret\tx", "", "control character at byte 10"},
		{"nought", "topsecret\x00", "", "control character at byte 10"},
		{"delete", "topsecret\x7f", "", "control character"},
		{"umlaut", "topsecretü", "", "byte 10 that is not ASCII"},
		{"longest", strings.Repeat("x", Longest), strings.Repeat("x", Longest), ""},
		{"too long", "topsecret" + strings.Repeat("x", Longest), "", "longer than 8 KiB"},
		{"UTF-16", "\xff\xfea\x00", "", "UTF-16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Clean([]byte(c.raw))
			if s.Reveal() != c.want || (err == nil) != (c.err == "") {
				t.Fatalf("%q, %v", s.Reveal(), err)
			}
			if err != nil && (!strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "topsecret")) {
				t.Errorf("error %q", err)
			}
		})
	}
}

func FuzzClean(f *testing.F) {
	f.Add([]byte("\ufeff\"abc\"\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Clean(raw)
		if err != nil {
			return
		}
		v := s.Reveal()
		if v == "" || strings.Trim(v, " ") != v || !bytes.Contains(raw, []byte(v)) {
			t.Errorf("%q of %q", v, raw)
		}
		for _, c := range []byte(v) {
			if c < ' ' || c > '~' {
				t.Errorf("%q is not for headers", v)
			}
		}
	})
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	for _, c := range []struct {
		mode os.FileMode
		warn bool
	}{{0o600, false}, {0o400, false}, {0o640, true}, {0o604, true}, {0o700, true}} {
		if err := errors.Join(os.WriteFile(path, []byte("abc\n"), 0o600), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		s, warning, err := ReadFile(path)
		if err != nil || s.Reveal() != "abc" || (warning != "") != c.warn {
			t.Errorf("%o: %v, %q, %v", c.mode, s, warning, err)
		}
		if c.warn && !strings.Contains(warning, "chmod 600 \""+path+"\"") {
			t.Errorf("warning %q", warning)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := ReadFile(dir); !errors.Is(err, disk.ErrNotRegular) {
		t.Errorf("directory: %v", err)
	}
	if _, _, err := ReadFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	for size, ok := range map[int]bool{maxFile: true, maxFile + 1: false} {
		if err := os.WriteFile(path, append(bytes.Repeat([]byte("\n"), size-1), 'x'), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadFile(path); (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadFile(path); !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), path) {
		t.Errorf("empty: %v", err)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, name string
		ok        bool
	}{{dir, "token", true}, {dir, "other", false}, {"", "token", false}, {dir, "", false}, {dir, "..", false}, {dir + "/x", "../token", false}} {
		path, ok := Find(c.name, func(string) string { return c.dir })
		if ok != c.ok || ok && path != filepath.Join(dir, "token") {
			t.Errorf("%q in %q: %q, %v", c.name, c.dir, path, ok)
		}
	}
}
