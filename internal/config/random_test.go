package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// value draws a piece of YAML, of any shape.
func value(t *rapid.T, depth int) string {
	scalars := []string{"null", "~", "", "true", "no", "0", "-1", "1e309", ".nan", "20s", "5 m", "\"02:00\"", "02:00", "50MB", "5%", "auto", "a b", "\"\"", "!!binary aGk=", "*x", "&x 1", "'it''s'", "[", "{", "- -", "https://h/", "\"\\u0000\"", "\ufeff"}
	if depth > 4 {
		return rapid.SampledFrom(scalars).Draw(t, "scalar")
	}
	switch rapid.IntRange(0, 3).Draw(t, "shape") {
	case 0:
		return "[" + value(t, depth+1) + ", " + value(t, depth+1) + "]"
	case 1:
		return "{" + rapid.SampledFrom([]string{"url", "http", "path", "a", "include", "<<", "0", "null"}).Draw(t, "key") + ": " + value(t, depth+1) + "}"
	}
	return rapid.SampledFrom(scalars).Draw(t, "scalar")
}

// Whatever a file holds, it is taken or ends in messages that name it.
func TestNoFilePanics(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	rapid.Check(t, func(t *rapid.T) {
		for range 5 { // a check has some cost of its own
			var b strings.Builder
			for range rapid.IntRange(0, 4).Draw(t, "options") {
				o := rapid.SampledFrom(Options()).Draw(t, "option")
				key := o.Key
				if rapid.IntRange(0, 9).Draw(t, "misspelt") == 0 {
					key += "x"
				}
				if o.Key == "include" {
					continue // would read what is on this machine
				}
				b.WriteString(nest(key, value(t, 0)))
			}
			if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := Load(Sources{File: path, Environ: []string{"TRAFFICUP_PATHS=" + value(t, 0)}})
			for _, m := range messages(err) {
				if !strings.Contains(m, path) && !strings.Contains(m, "TRAFFICUP_PATHS") {
					t.Fatalf("%s names no place in\n%s", m, b.String())
				}
			}
			l.Lines()
		}
	})
}

// What is no configuration is said to be none.
func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ path, want string }{
		{put("empty", ""), ""},
		{put("comments", "# nothing\n\n"), ""},
		{put("mark", "\ufeffupload: {rate: 1}\n"), ""},
		{put("lines", "upload: {rate: 1}\r\nretry: {cap: 1m}\r\n"), ""},
		{put("tabs", "upload:\n\trate: 1\n"), "indent with blanks, not tabs"},
		{put("word", "rate"), "write keys with their values"},
		{put("list", "- rate: 1"), "is a list"},
		{put("large", strings.Repeat("# 10 MB of comments\n", 1<<19)), "larger than"},
		{put("binary", "\x00\x01\x02"), "no YAML"},
		{put("UTF-16", "\xff\xfeu\x00"), "write keys with their values"},
		{dir, "it is a directory"},
		{filepath.Join(dir, "none"), "no such file"},
		{put("bomb", "a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\npaths: {d: {url: [*c, *c]}}\n"), "unknown key a"},
	} {
		_, err := Load(Sources{File: c.path})
		if all := strings.Join(messages(err), "\n"); c.want == "" && err != nil || !strings.Contains(all, c.want) {
			t.Errorf("%s: %v, want %q", filepath.Base(c.path), err, c.want)
		}
	}
}
