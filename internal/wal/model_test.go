package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/disk/disktest"
)

// model is what is known of a log from outside.
type model struct {
	mu   sync.Mutex
	sent []string     // guarded by mu; in the order of Append
	safe map[int]bool // guarded by mu; those known to be on disk
}

// send appends one payload of about size bytes; dones that come are noted.
func (m *model) send(l *Log, size int, waits bool) error {
	m.mu.Lock()
	i := len(m.sent)
	p := fmt.Sprintf("%d %s", i, strings.Repeat("x", size))
	m.sent = append(m.sent, p)
	m.mu.Unlock()
	if !waits {
		return l.Append([]byte(p), nil)
	}
	return l.Append([]byte(p), func(err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if err == nil {
			for j := range i + 1 { // those before it are durable with it
				m.safe[j] = true
			}
		}
	})
}

// check holds what was found against what was sent: in order, nothing invented,
// nothing lost that was safe. What was found is safe from now on, the rest gone.
func (m *model) check(got []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := 0
	for _, p := range got {
		for ; next < len(m.sent) && m.sent[next] != p; next++ {
			if m.safe[next] {
				return fmt.Errorf("frame %d is lost", next)
			}
		}
		if next == len(m.sent) {
			return fmt.Errorf("%.20q was not sent, or not now", p)
		}
		next++
	}
	for ; next < len(m.sent); next++ {
		if m.safe[next] {
			return fmt.Errorf("frame %d is lost", next)
		}
	}
	m.sent = append([]string(nil), got...)
	m.safe = map[int]bool{}
	for i := range got {
		m.safe[i] = true
	}
	return nil
}

// TestModel appends, crashes at any operation, with and without a power cut,
// also while opening, and opens again.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := disktest.New()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		m := &model{safe: map[int]bool{}}
		o := Options{SegmentSize: int64(rapid.IntRange(1, 3000).Draw(t, "segment size"))}
		for range rapid.IntRange(1, 8).Draw(t, "lives") {
			arm(d, rapid.IntRange(0, 40).Draw(t, "crash at"), rapid.IntRange(0, 1500).Draw(t, "torn"))
			o.FS = d.FS()
			m.life(t, d, o)
			if rapid.Bool().Draw(t, "power cut") {
				d.PowerCut(r)
			}
		}
		d.Kill()
		got, _ := readAll(t, d)
		if err := m.check(got); err != nil {
			t.Fatal(err)
		}
	})
}

// life is one process: it opens the log, appends and ends, one way or another.
func (m *model) life(t *rapid.T, d *disktest.Disk, o Options) {
	var got []string
	l, _, err := Open(dir, o, func(_ Pos, p []byte) error {
		got = append(got, string(p))
		return nil
	})
	if errors.Is(err, disktest.ErrDead) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // a draw may end the test
	if err := m.check(got); err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(0, 30).Draw(t, "frames") {
		err := m.send(l, rapid.IntRange(0, 700).Draw(t, "size"), rapid.Bool().Draw(t, "waits"))
		if err != nil && !errors.Is(err, disktest.ErrDead) {
			t.Fatal(err)
		}
	}
	if rapid.Bool().Draw(t, "killed") {
		d.Kill()
	}
	if err := l.Close(); err == nil {
		_ = m.check(m.sent) // all of it is safe
	} else if !errors.Is(err, disktest.ErrDead) {
		t.Fatal(err)
	}
}

func readAll(t interface{ Fatal(...any) }, d *disktest.Disk) (got []string, rep Report) {
	rep, err := Read(d.FS(), dir, func(_ Pos, p []byte) error {
		got = append(got, string(p))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, rep
}

// arm kills the process at its operation number at, within it where that is a
// write of more than torn bytes; 0 is never. What it returns says whether it did.
func arm(d *disktest.Disk, at, torn int) (fired func() bool) {
	n := 0
	d.Hook(func(disktest.Op) error {
		if n++; n != at {
			return nil
		}
		d.Kill()
		return &disktest.Torn{Bytes: torn, Err: disktest.ErrDead}
	})
	return func() bool { return at > 0 && n >= at }
}

// TestCrashAtEveryOperation goes through a log's whole life and ends it at each
// of its operations in turn, and the next life, which checks first, somewhere.
func TestCrashAtEveryOperation(t *testing.T) {
	for at, crashed := 1, true; crashed; at++ {
		for seed := range uint64(16) {
			d := disktest.New()
			m := &model{safe: map[int]bool{}}
			fired := arm(d, at, int(seed)*5)
			live(t, d, m)
			crashed = fired()
			d.Kill()
			if seed%3 == 0 {
				d.PowerCut(rand.New(rand.NewPCG(seed, uint64(at))))
			}
			arm(d, int(seed)+1, 0)
			live(t, d, m)
			d.PowerCut(rand.New(rand.NewPCG(uint64(at), seed)))
			got, _ := readAll(t, d)
			if err := m.check(got); err != nil {
				t.Fatalf("crash %d, seed %d: %v", at, seed, err)
			}
		}
		if !crashed && at < 30 {
			t.Fatalf("only %d operations", at)
		}
	}
}

func live(t *testing.T, d *disktest.Disk, m *model) {
	fsys := d.FS()
	for range 2 {
		var got []string
		l, _, err := Open(dir, Options{FS: fsys, SegmentSize: 120}, func(_ Pos, p []byte) error {
			got = append(got, string(p))
			return nil
		})
		if errors.Is(err, disktest.ErrDead) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := m.check(got); err != nil {
			t.Fatal(err)
		}
		for i := range 9 {
			_ = m.send(l, 20, i%3 > 0) // an error is the crash
			if i%2 > 0 {
				l.Sync()
			}
		}
		_, _ = l.Expire(time.Unix(0, 0))
		if l.Close() == nil {
			_ = m.check(m.sent)
		}
	}
}
