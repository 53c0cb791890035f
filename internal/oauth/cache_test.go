//go:build unix

package oauth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/secret"
)

// TestClockSteps: what a kept token has left when the wall clock was set since.
func TestClockSteps(t *testing.T) {
	received := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	k := kept{access: secret.New("a"), received: received, expires: received.Add(time.Hour)}
	for step, left := range map[time.Duration]time.Duration{
		0: time.Hour, 20 * time.Minute: 40 * time.Minute, time.Hour: 0, 24 * time.Hour: 0,
		-time.Minute: time.Hour, -1000 * time.Hour: time.Hour,
	} {
		g, ok := k.grant(secret.Secret{}, received.Add(step))
		if ok != (left > 0) || g.left != left {
			t.Errorf("%s later: %s, %v", step, g.left, ok)
		}
	}
	if _, ok := k.grant(secret.New("a"), received); ok {
		t.Error("the token in use was found")
	}
	// In a process only the monotonic clock counts: a token says so itself.
	r := &refresher{ahead: 0.2}
	r.settle(grant{value: secret.New("a"), lifetime: time.Hour, left: time.Hour}, nil, time.Now())
	if s := r.token.Expires.String(); !strings.Contains(s, "m=") {
		t.Errorf("expires %s has no monotonic reading", s)
	}
}

func TestCacheServesTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{expires: "3600"}
		cfg := serve(t, e)
		cfg.CacheFile = filepath.Join(t.TempDir(), "token.json")
		get(t, source(t, cfg))
		time.Sleep(30 * time.Minute)
		tok := get(t, source(t, cfg))
		if tok.Value.Reveal() != "CANARY-access-1" || time.Until(tok.Expires) != 30*time.Minute || e.count() != 1 {
			t.Error(tok, e.count())
		}
		other := cfg
		other.Scopes = []string{"more"}
		if tok := get(t, source(t, other)); tok.Value.Reveal() != "CANARY-access-2" {
			t.Error("a token for other rights was used")
		}
		time.Sleep(2 * time.Hour)
		if tok := get(t, source(t, other)); tok.Value.Reveal() != "CANARY-access-3" {
			t.Error("an expired token was used")
		}
	})
}

func TestCacheFaults(t *testing.T) {
	e := &endpoint{expires: "3600"}
	cfg := serve(t, e)
	dir := t.TempDir()
	cfg.CacheFile = filepath.Join(dir, "token.json")
	var warnings []string
	cfg.Warn = func(w string) { warnings = append(warnings, w) }
	if err := os.WriteFile(cfg.CacheFile, []byte(`{"access_token":"CANARY-`), 0o600); err != nil {
		t.Fatal(err)
	}
	get(t, source(t, cfg))
	if len(warnings) != 1 || !strings.Contains(warnings[0], "is damaged") || strings.Contains(warnings[0], "CANARY") {
		t.Errorf("%q", warnings)
	}
	cfg.CacheFile = filepath.Join(dir, "none", "token.json")
	if _, err := source(t, cfg).Token(t.Context()); !errors.Is(err, ErrCache) || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
}

// full is a disk on which nothing can be replaced.
type full struct{ disk.FS }

func (full) Rename(string, string) error {
	return &fs.PathError{Op: "rename", Err: errors.New("disk full")}
}

func TestRotationGoesOnInMemory(t *testing.T) {
	e := &endpoint{rotating: true, strict: true, refresh: "CANARY-refresh"}
	cfg := serve(t, e)
	cfg.RefreshToken, cfg.CacheFile = secret.New("CANARY-refresh"), filepath.Join(t.TempDir(), "token.json")
	cfg.Timeout = 10 * time.Second
	warned := 0
	cfg.Warn = func(string) { warned++ }
	c := newClient(cfg)
	for _, c.fsys = range []disk.FS{disk.OS{}, full{disk.OS{}}, full{disk.OS{}}, disk.OS{}} {
		// The file's token is the one refused, so that it is not taken.
		if _, err := c.fetch(t.Context(), secret.New("CANARY-access-1")); err != nil {
			t.Fatal(err)
		}
	}
	k, err := load(disk.OS{}, cfg.CacheFile, c.who)
	if err != nil || k.refresh.Reveal() != "CANARY-refresh-4" || warned != 2 || c.unsaved {
		t.Errorf("%q, %v, %d warnings", k.refresh.Reveal(), err, warned)
	}
}

// What could not be kept is written as soon as it can be, while the token is used
// and at the end, but not over what another process has kept since.
func TestWhatWasNotKeptIsTriedAgain(t *testing.T) {
	for name, last := range map[string]func(t *testing.T, s Source, c *client){
		"while it is used": func(t *testing.T, s Source, c *client) {
			c.fsys = disk.OS{}
			get(t, s) // too soon
			if !c.unsaved {
				t.Error("tried again at once")
			}
			time.Sleep(minInterval)
			get(t, s)
		},
		"at the end": func(_ *testing.T, s Source, c *client) {
			c.fsys = disk.OS{}
			s.(keeper).Keep()
		},
		"not at all": func(t *testing.T, s Source, c *client) {
			s.(keeper).Keep()
			if !c.unsaved {
				t.Error("it passes for kept on a full disk")
			}
			c.fsys = disk.OS{}
			s.(keeper).Keep()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{rotating: true, strict: true, refresh: "CANARY-refresh", expires: "3600"}
				cfg := serve(t, e)
				cfg.RefreshToken, cfg.CacheFile = secret.New("CANARY-refresh"), filepath.Join(t.TempDir(), "token.json")
				var lost []string
				cfg.Lost = func(s string) { lost = append(lost, s) }
				s := source(t, cfg)
				c := s.(keeper).client
				c.fsys = full{disk.OS{}}
				get(t, s)
				if len(lost) != 1 || !strings.Contains(lost[0], "disk full") {
					t.Fatalf("%q", lost)
				}
				last(t, s, c)
				k, err := load(disk.OS{}, cfg.CacheFile, c.who)
				if err != nil || k.refresh.Reveal() != "CANARY-refresh-1" || c.unsaved || len(lost) != 2 {
					t.Errorf("%q, %v, unsaved %v, %q", k.refresh.Reveal(), err, c.unsaved, lost)
				}
			})
		})
	}
}

func TestWhatOthersKeptStands(t *testing.T) {
	e := &endpoint{rotating: true, refresh: "CANARY-refresh", expires: "3600"}
	cfg := serve(t, e)
	cfg.RefreshToken, cfg.CacheFile = secret.New("CANARY-refresh"), filepath.Join(t.TempDir(), "token.json")
	s := source(t, cfg)
	c := s.(keeper).client
	c.fsys = full{disk.OS{}}
	get(t, s)
	if err := save(disk.OS{}, cfg.CacheFile, c.who, kept{access: secret.New("CANARY-a"), refresh: secret.New("CANARY-later")}); err != nil {
		t.Fatal(err)
	}
	c.fsys = disk.OS{}
	s.(keeper).Keep()
	if k, err := load(disk.OS{}, cfg.CacheFile, c.who); err != nil || k.refresh.Reveal() != "CANARY-later" || c.unsaved {
		t.Errorf("%q, %v", k.refresh.Reveal(), err)
	}
}

// A cache that cannot be used ends a run at its first token; later the run goes on
// in memory, with the refresh token that was in the file.
func TestCacheThatCannotBeUsed(t *testing.T) {
	pipe := func(name string) error { return syscall.Mkfifo(name, 0o600) }
	dir := func(name string) error { return os.Mkdir(name, 0o700) }
	for name, c := range map[string]struct {
		spoil  func(string) error
		suffix string
	}{"a pipe": {pipe, ""}, "a directory": {dir, ""}, "a lock that is a pipe": {pipe, ".lock"}, "a lock that is a directory": {dir, ".lock"}} {
		t.Run(name, func(t *testing.T) {
			e := &endpoint{rotating: true, strict: true, refresh: "CANARY-refresh", expires: "3600"}
			cfg := serve(t, e)
			cfg.RefreshToken, cfg.CacheFile = secret.New("CANARY-refresh"), filepath.Join(t.TempDir(), "token.json")
			s := source(t, cfg)
			first := get(t, s)
			_ = os.Remove(cfg.CacheFile + c.suffix)
			if err := c.spoil(cfg.CacheFile + c.suffix); err != nil {
				t.Fatal(err)
			}
			if _, err := source(t, cfg).Token(t.Context()); !errors.Is(err, ErrCache) || !strings.Contains(err.Error(), cfg.CacheFile) {
				t.Errorf("at the start: %v", err)
			}
			tok, err := s.Refuse(t.Context(), first.Generation, "primary")
			if err != nil || tok.Value.Reveal() != "CANARY-access-2" {
				t.Errorf("in mid-run: %q, %v", tok.Value.Reveal(), err)
			}
			if n := e.count(); n != 2 {
				t.Errorf("%d requests", n)
			}
		})
	}
}
