package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/disk/disktest"
)

func TestExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		l, _, _ := open(t, Options{FS: d.FS(), SegmentSize: headerSize + 2*18})
		start := time.Now()
		for _, p := range numbered(8) { // two an hour and so a segment each
			put(t, l, p)
			time.Sleep(30 * time.Minute)
		}
		expire := func(before time.Time, want int, left []string) {
			t.Helper()
			removed, err := l.Expire(before)
			if err != nil || removed != want {
				t.Fatalf("removed %d, %v, want %d", removed, err, want)
			}
			got, _ := read(t, d.FS())
			equal(t, got, left)
		}
		all := numbered(8)
		expire(start, 0, all)
		expire(start.Add(time.Hour), 0, all) // the second was created then, not earlier
		expire(start.Add(time.Hour+time.Second), 1, all[2:])
		done(t, l)

		l, _, _ = open(t, Options{FS: d.FS()})
		expire(start.Add(2*time.Hour+time.Second), 1, all[4:])
		expire(start.Add(1000*time.Hour), 1, all[6:]) // never the last
		put(t, l, "more")
		expire(start.Add(1000*time.Hour), 0, append(all[6:8:8], "more"))
		done(t, l)
		if _, err := l.Expire(start); err != ErrClosed {
			t.Fatalf("after close: %v", err)
		}
	})
}

// A segment that was begun while the clock showed 1970 does not make the one before
// it old, and the first may have been begun while the clock was ahead.
func TestExpireAfterAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, _ := open(t, Options{FS: disktest.New().FS(), SegmentSize: 1})
		put(t, l, numbered(4)...)
		now := time.Now()
		l.segments[1].created = 3
		if removed, err := l.Expire(now.Add(-time.Hour)); removed != 0 || err != nil {
			t.Fatalf("removed %d, %v", removed, err)
		}
		l.segments[0].created = now.AddDate(10, 0, 0).Unix()
		if removed, err := l.Expire(now.Add(-time.Hour)); removed != 1 || err != nil {
			t.Fatalf("removed %d, %v, want the first", removed, err)
		}
		done(t, l)
	})
}

func TestExpireThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		l, _, _ := open(t, Options{FS: d.FS(), SegmentSize: 1})
		put(t, l, numbered(5)...)
		time.Sleep(time.Hour)
		n := 0
		d.Hook(func(op disktest.Op) error {
			if op.Kind != disktest.Remove {
				return nil
			}
			if n++; n == 3 {
				return syscall.EIO
			}
			return nil
		})
		if removed, err := l.Expire(time.Now()); removed != 2 || !errors.Is(err, syscall.EIO) {
			t.Fatalf("%d, %v", removed, err)
		}
		if removed, err := l.Expire(time.Now()); removed != 2 || err != nil {
			t.Fatalf("again: %d, %v", removed, err)
		}
		done(t, l)
	})
}

// TestExpireIsDurable cuts the power right behind it.
func TestExpireIsDurable(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			d := disktest.New()
			l, _, _ := open(t, Options{FS: d.FS(), SegmentSize: 1})
			put(t, l, numbered(3)...)
			time.Sleep(time.Hour)
			if removed, err := l.Expire(time.Now()); removed != 2 || err != nil {
				t.Fatalf("%d, %v", removed, err)
			}
			d.PowerCut(rand.New(rand.NewPCG(seed, 0)))
			got, _ := read(t, d.FS())
			equal(t, got, numbered(3)[2:])
		})
	}
}

// TestExpireBesideDamage keeps what lies behind a segment whose time is unknown
// as long as it keeps that one, and no longer.
func TestExpireBesideDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		l, _, _ := open(t, Options{FS: d.FS(), SegmentSize: 1})
		start := time.Now()
		for _, p := range numbered(4) {
			put(t, l, p)
			time.Sleep(time.Hour)
		}
		done(t, l)
		data, _ := d.Bytes(path(2))
		clear(data[:headerSize])
		d.SetBytes(path(2), data)
		l, _, _ = open(t, Options{FS: d.FS()})
		for _, c := range []struct{ hours, want int }{{2, 0}, {3, 2}} {
			removed, err := l.Expire(start.Add(time.Duration(c.hours) * time.Hour))
			if removed != c.want || err != nil {
				t.Errorf("%d hours: %d, %v", c.hours, removed, err)
			}
		}
		done(t, l)
	})
}

func TestSegmentAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		for i, c := range []struct {
			wait     time.Duration
			segments int
		}{{0, 1}, {24 * time.Hour, 1}, {time.Second, 2}, {time.Hour, 2}} {
			time.Sleep(c.wait)
			l, _, _ := open(t, Options{FS: d.FS()})
			put(t, l, fmt.Sprint(i))
			done(t, l)
			if n := len(d.Names()); n != c.segments {
				t.Fatalf("open %d: %d segments, want %d", i, n, c.segments)
			}
		}
		got, _ := read(t, d.FS())
		equal(t, got, []string{"0", "1", "2", "3"})
	})
}

func TestSegmentSize(t *testing.T) {
	for _, c := range []struct {
		size     int64
		segments int
	}{{1, 6}, {headerSize + 2*18 - 1, 6}, {headerSize + 2*18, 3}, {headerSize + 3*18 - 1, 3}, {headerSize + 3*18, 2}, {0, 1}} {
		d := disktest.New()
		for half := range 2 {
			l, _, _ := open(t, Options{FS: d.FS(), SegmentSize: c.size})
			put(t, l, numbered(6)[3*half:3*half+3]...)
			done(t, l)
		}
		if n := len(d.Names()); n != c.segments {
			t.Errorf("segments of %d bytes: %d, want %d", c.size, n, c.segments)
		}
	}
}
