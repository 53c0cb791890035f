package uplinkstate_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/disk/disktest"
	"trafficup/internal/edge"
	"trafficup/internal/failover"
	"trafficup/internal/uplinkstate"
)

const path = "/run/failover/state.json"

// bench is a reader, and the disk that it reads.
type bench struct {
	*uplinkstate.Reader
	disk *disktest.Disk
	told []error
}

func newBench(t *testing.T) *bench {
	b := &bench{disk: disktest.New()}
	if err := b.disk.FS().MkdirAll("/run/failover", 0o755); err != nil {
		t.Fatal(err)
	}
	b.Reader = uplinkstate.New(b.disk.FS(), path, "this", func(err error) { b.told = append(b.told, err) })
	return b
}

// write puts a report there that was written at a time.
func (b *bench) write(boot, active string, metered bool, at time.Time) {
	b.disk.SetBytes(path, fmt.Appendf(nil, `{"version":1,"boot":%q,"at":%q,"active":%q,"metered":%t,"uplinks":[]}`, boot, at.UTC().Format(time.RFC3339), active, metered))
}

// What the failover of this machine saves is what is read.
func TestReadsWhatFailoverSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		rules, err := failover.Preset("leo")
		if err != nil {
			t.Fatal(err)
		}
		c := failover.Config{Uplinks: []failover.Uplink{{Name: "leo"}, {Name: "lte", Metered: true}}, Rules: rules}
		now := failover.Now{Boot: time.Hour, Wall: time.Now()}
		s := c.New(now)
		s.Active, s.Since = 1, time.Hour-time.Minute
		store := edge.Store{FS: b.disk.FS(), Dir: "/run/failover", Boot: "this"}
		if err := store.Save(edge.NewReport(c, s, now, "this", 1, nil)); err != nil {
			t.Fatal(err)
		}
		want := uplinkstate.Uplink{Active: "lte", Metered: true, Since: now.Wall.UTC().Add(-time.Minute)}
		if got, ok := b.Now(); !ok || got != want {
			t.Errorf("%+v %v, want %+v", got, ok, want)
		}
	})
}

// counting counts the files that are opened.
type counting struct {
	disk.FS
	opened int
}

func (c *counting) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	c.opened++
	return c.FS.OpenFile(name, flag, perm)
}

// A change is seen within a second, and the file is left alone in between.
func TestLooksOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		files := &counting{FS: b.disk.FS()}
		b.Reader = uplinkstate.New(files, path, "this", func(err error) { t.Error(err) })
		b.write("this", "leo", false, time.Now())
		for n := range 100 {
			if n == 50 {
				b.write("this", "lte", true, time.Now())
			}
			time.Sleep(100 * time.Millisecond)
			s, ok := b.Now()
			if !ok || n < 50 && s.Active != "leo" || n > 60 && !s.Metered {
				t.Fatalf("look %d: %+v %v", n, s, ok)
			}
		}
		if files.opened != 10 {
			t.Errorf("%d looks in ten seconds", files.opened)
		}
	})
}

// What cannot be believed is not known, and told of once.
func TestNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		write func(b *bench)
		want  error
	}{
		"missing":       {func(*bench) {}, fs.ErrNotExist},
		"another boot":  {func(b *bench) { b.write("other", "lte", true, time.Now()) }, uplinkstate.ErrBoot},
		"old":           {func(b *bench) { b.write("this", "lte", true, time.Now().Add(-181*time.Second)) }, uplinkstate.ErrStale},
		"of the future": {func(b *bench) { b.write("this", "lte", true, time.Now().Add(time.Hour)) }, uplinkstate.ErrStale},
		"without time":  {func(b *bench) { b.disk.SetBytes(path, []byte(`{"version":1,"boot":"this","metered":true}`)) }, uplinkstate.ErrStale},
		"empty":         {func(b *bench) { b.disk.SetBytes(path, nil) }, uplinkstate.ErrDamaged},
		"cut off":       {func(b *bench) { b.disk.SetBytes(path, []byte(`{"version":1,"metered":tr`)) }, uplinkstate.ErrDamaged},
		"version":       {func(b *bench) { b.disk.SetBytes(path, []byte(`{"version":2}`)) }, uplinkstate.ErrDamaged},
		"a directory":   {func(b *bench) { _ = b.disk.FS().MkdirAll(path, 0o755) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				c.write(b)
				for range 5 {
					if s, ok := b.Now(); ok || s != (uplinkstate.Uplink{}) {
						t.Fatalf("%+v %v", s, ok)
					}
					time.Sleep(2 * time.Second)
				}
				if len(b.told) != 1 || c.want != nil && !errors.Is(b.told[0], c.want) || strings.Count(b.told[0].Error(), path) != 1 {
					t.Errorf("told %v", b.told)
				}
				b.write("this", "lte", true, time.Now())
				time.Sleep(time.Second)
				if s, ok := b.Now(); c.want != nil && (!ok || !s.Metered) {
					t.Errorf("then %+v %v", s, ok)
				}
			})
		})
	}
}

// A failover that dies is not believed any more after three minutes, and is again when it
// is back; each is told once, however often it comes.
func TestStaleAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 3 {
			b.write("this", "lte", true, time.Now())
			begin := time.Now()
			for time.Since(begin) < 4*time.Minute {
				time.Sleep(time.Second)
				age := time.Since(begin)
				if _, ok := b.Now(); ok && age > 181*time.Second || !ok && age < 3*time.Minute {
					t.Fatalf("after %s it is known: %v", age, ok)
				}
			}
		}
		if len(b.told) != 1 || !errors.Is(b.told[0], uplinkstate.ErrStale) {
			t.Errorf("told %v", b.told)
		}
	})
}

// One that cron starts each minute is believed in between, also when a run is decided
// at once and the next one takes long.
func TestKnownBetweenRunsByCron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for second := range 20 * 60 {
			if minute := second / 60; second%60 == minute%2*35 {
				b.write("this", "lte", true, time.Now())
			}
			if _, ok := b.Now(); !ok {
				t.Fatalf("not known after %d s: %v", second, b.told)
			}
			time.Sleep(time.Second)
		}
	})
}

// A clock on the wall that is set is no reason to forget what is written meanwhile.
func TestClockThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for n := range 30 {
			at := time.Now()
			if n > 10 {
				at = at.Add(time.Hour) // as the writer sees it
			}
			b.write("this", "leo", false, at)
			time.Sleep(10 * time.Second)
			if _, ok := b.Now(); !ok {
				t.Fatalf("not known after %d reports", n)
			}
		}
	})
}

// The report is for everybody to read, whatever the umask; its directory, too.
func TestOthersMayRead(t *testing.T) {
	dir := t.TempDir() + "/run/failover"
	store := edge.Store{FS: disk.OS{}, Dir: dir}
	if err := errors.Join(store.MakeDir(), store.Save(edge.Report{Version: 1}), store.Ask("lte", time.Hour, "drill")); err != nil {
		t.Fatal(err)
	}
	entries, err := disk.OS{}.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var modes []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		modes = append(modes, fmt.Sprintf("%s %o", e.Name(), info.Mode()))
	}
	if want := []string{"request.json 600", "state.json 644"}; !slices.Equal(modes, want) {
		t.Errorf("%q, want %q", modes, want)
	}
}
