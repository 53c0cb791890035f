package netshape

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/disk"
)

// shut is a disk of which the directory below cannot be used, for err.
type shut struct {
	disk.FS
	below string
	err   error
	write bool // but read
}

func (s shut) judge(op, name string, write bool) error {
	if strings.HasPrefix(name, s.below) && (write || !s.write) {
		return &fs.PathError{Op: op, Path: name, Err: s.err}
	}
	return nil
}

func (s shut) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	if err := s.judge("open", name, flag&(os.O_WRONLY|os.O_RDWR) != 0); err != nil {
		return nil, err
	}
	return s.FS.OpenFile(name, flag, perm)
}

func (s shut) MkdirAll(name string, perm fs.FileMode) error {
	if err := s.judge("mkdir", name, true); err != nil {
		return err
	}
	return s.FS.MkdirAll(name, perm)
}

// Who may not read the state is not told that nothing was applied, and changes nothing.
func TestStateThatCannotBeRead(t *testing.T) {
	b := newBox(t, "eth1")
	want := Desired{Interfaces: []Interface{cakeAt("9mbit")}}
	b.apply(t, want)
	before := b.picture()
	if s := must(b.Status("eth1")); s.Unreadable != "" || s.Interfaces[0].Wanted == nil {
		t.Fatalf("%+v", s)
	}
	b.FS = shut{FS: b.FS, below: b.Dir, err: syscall.EACCES}
	s, err := b.Status("eth1", "eth9")
	if err != nil || !strings.Contains(s.Unreadable, "permission denied") || !s.Interfaces[0].Ours {
		t.Errorf("%+v, %v", s, err)
	}
	for _, p := range []Plan{b.plan(t, want), MakeClear([]string{"eth1"}, must(b.Observe("eth1")))} {
		if len(p.Refusals) != 1 || p.Refusals[0].Code != CodeNoPermission || !strings.Contains(p.Refusals[0].Hint, "root") {
			t.Errorf("%+v", p.Refusals)
		}
		if _, err := b.Apply(t.Context(), p, 0); err == nil || b.picture() != before {
			t.Error(err)
		}
	}
	b.k.denied = errors.New("no CAP_NET_ADMIN")
	if p := b.plan(t, want); len(p.Refusals) != 1 || p.Refusals[0].Text != "no CAP_NET_ADMIN" {
		t.Errorf("%+v", p.Refusals)
	}
	b.FS = shut{FS: b.FS, below: b.Dir, err: syscall.EIO}
	if _, err := b.Status("eth1"); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
}

// Where nothing can be kept for the next boot, that is known before anything changes;
// and what came to stand all the same stays, which its error says.
func TestKeepThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, "eth1")
		b.Keep = "/var/lib/netshape"
		b.guard(t)
		open := b.FS
		closed := shut{FS: open, below: b.Keep, err: syscall.EROFS, write: true}
		p := b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}})
		if err := b.CanKeep(p); err != nil || len(b.d.Names()) > 0 {
			t.Error(err, b.d.Names())
		}
		b.FS = closed
		if err := b.CanKeep(p); !errors.Is(err, syscall.EROFS) {
			t.Error(err)
		}
		if err := b.CanKeep(MakeClear(nil, Observed{})); err != nil { // takes away, if there is anything
			t.Error(err)
		}
		done := must(b.Apply(t.Context(), p, time.Minute))
		if err := b.Confirm(t.Context(), done.ID); !errors.Is(err, ErrNotKept) || !errors.Is(err, syscall.EROFS) {
			t.Error(err)
		}
		b.pass(2 * time.Minute)
		if root := must(b.Status("eth1")).Interfaces[0].Root; root.Rate != 9e6 {
			t.Errorf("%+v", root)
		}
		// The same apply again changes nothing, and tries again to keep it.
		if _, err := b.Apply(t.Context(), b.plan(t, p.desired), 0); !errors.Is(err, ErrNotKept) {
			t.Error(err)
		}
		// What was never kept need not be forgotten.
		o := must(b.Observe("eth1"))
		if _, err := b.Apply(t.Context(), MakeClear([]string{"eth1"}, o), 0); err != nil {
			t.Error(err)
		}
		b.FS = open
		b.apply(t, p.desired)
		b.FS = closed
		if _, err := b.Apply(t.Context(), b.plan(t, p.desired), 0); err != nil { // kept already
			t.Error(err)
		}
		if _, err := b.Apply(t.Context(), MakeClear([]string{"eth1"}, must(b.Observe("eth1"))), 0); !errors.Is(err, ErrNotKept) {
			t.Error(err)
		}
	})
}

// A clear of nothing has nothing to do, and forgets nothing of what is kept.
func TestClearOfNothing(t *testing.T) {
	b := newBox(t, "eth1")
	b.Keep = "/var/lib/netshape"
	b.apply(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}, Classes: bulk})
	before := b.snapshot()
	p := MakeClear(nil, must(b.Observe()))
	if p.clear == nil {
		t.Fatal("it is no clear")
	}
	_, err := b.Apply(t.Context(), MakeClear([]string{}, Observed{}), 0)
	if kept, _, kerr := b.Kept(); err != nil || kerr != nil || len(kept.Classes) != 1 || len(kept.Interfaces) != 1 || b.snapshot() != before {
		t.Error(err, kerr, kept)
	}
}
