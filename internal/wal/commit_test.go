package wal

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/disk/disktest"
)

// count counts the operations of one kind from now on.
func count(d *disktest.Disk, kind disktest.Kind) *atomic.Int64 {
	var n atomic.Int64
	d.Hook(func(op disktest.Op) error {
		if op.Kind == kind {
			n.Add(1)
		}
		return nil
	})
	return &n
}

// TestOneSyncForAll lets 64 wait at once, again and again, on a disk of which a
// sync takes a moment.
func TestOneSyncForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		l, _, _ := open(t, Options{FS: d.FS()})
		syncs := 0
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.Sync {
				syncs++
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		const waiters, each = 64, 20
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() {
				for range each {
					put(t, l, "frame")
				}
			})
		}
		wg.Wait()
		done(t, l)
		t.Logf("%d frames, %d syncs", waiters*each, syncs)
		if syncs > 3*each {
			t.Fatalf("%d syncs for %d frames of %d waiters", syncs, waiters*each, waiters)
		}
	})
}

func TestDelay(t *testing.T) {
	const delay = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		l, _, _ := open(t, Options{FS: d.FS(), Delay: delay})
		syncs := count(d, disktest.Sync)
		start := time.Now()
		at := make(chan time.Duration, 3)
		note := func(err error) {
			if err != nil {
				t.Error(err)
			}
			at <- time.Since(start)
		}
		send := func(done func(error)) {
			t.Helper()
			if err := l.Append([]byte("frame"), done); err != nil {
				t.Fatal(err)
			}
		}

		send(note)
		time.Sleep(delay / 2)
		send(note) // company: it does not wait for its own delay
		send(nil)
		if a, b := <-at, <-at; a != delay || b != delay || syncs.Load() != 1 {
			t.Fatalf("done after %v and %v with %d syncs, want one after %v", a, b, syncs.Load(), delay)
		}

		time.Sleep(time.Hour)
		start = time.Now()
		send(note)
		l.Sync()
		if a := <-at; a != 0 {
			t.Fatalf("done after %v although Sync was called", a)
		}

		l.Sync() // there is nothing to sync: the next one waits all the same
		synctest.Wait()
		send(note)
		if a := <-at; a != delay {
			t.Fatalf("done after %v, want %v", a, delay)
		}

		start = time.Now()
		send(note)
		done(t, l)
		if a := <-at; a != 0 {
			t.Fatalf("done after %v although the log was closed", a)
		}
	})
}

// TestFramesWithoutDone are written at once and synced later.
func TestFramesWithoutDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		l, _, _ := open(t, Options{FS: d.FS(), Delay: time.Hour})
		syncs := count(d, disktest.Sync)
		step := func(what string, frames int, want int64) {
			t.Helper()
			synctest.Wait()
			if got, _ := read(t, d.FS()); len(got) != frames || syncs.Load() != want {
				t.Fatalf("%s: %d frames in the file and %d syncs, want %d and %d", what, len(got), syncs.Load(), frames, want)
			}
		}
		for i := range 3 {
			if err := l.Append([]byte("frame"), nil); err != nil {
				t.Fatal(err)
			}
			step("appended", i+1, 0)
		}
		l.Sync()
		step("synced", 3, 1)
		if err := l.Append([]byte("frame"), nil); err != nil {
			t.Fatal(err)
		}
		done(t, l)
		step("closed", 4, 2)
	})
}

func TestDonesComeInOrder(t *testing.T) {
	d := disktest.New()
	l, _, _ := open(t, Options{FS: d.FS(), SegmentSize: 100})
	var got []int
	for i := range 1000 {
		p := []byte{byte(i), byte(i >> 8)}
		if err := l.Append(p, func(error) { got = append(got, i) }); err != nil {
			t.Fatal(err)
		}
		clear(p) // the log has its own copy
	}
	done(t, l)
	for i, n := range got {
		if i != n {
			t.Fatalf("done %d came as number %d", n, i)
		}
	}
	frames, _ := read(t, d.FS())
	for i, p := range frames {
		if p != string([]byte{byte(i), byte(i >> 8)}) {
			t.Fatalf("frame %d is %q", i, p)
		}
	}
	if len(got) != 1000 || len(frames) != 1000 {
		t.Fatalf("%d dones, %d frames", len(got), len(frames))
	}
}

// TestAppendInDone appends from the log's own goroutine.
func TestAppendInDone(t *testing.T) {
	l, _, _ := open(t, Options{FS: disktest.New().FS()})
	ended := make(chan error)
	err := l.Append([]byte("one"), func(error) {
		if err := l.Append([]byte("two"), func(err error) { ended <- err }); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	done(t, l)
}

func TestSegmentsAreWholeBeforeTheNext(t *testing.T) {
	d := disktest.New()
	l, _, _ := open(t, Options{FS: d.FS(), SegmentSize: headerSize + 3*18})
	var ops []disktest.Kind
	d.Hook(func(op disktest.Op) error { ops = append(ops, op.Kind); return nil })
	for _, p := range numbered(4) {
		if err := l.Append([]byte(p), nil); err != nil {
			t.Fatal(err)
		}
	}
	done(t, l)
	made := 0
	for i, kind := range ops {
		if kind != disktest.Create {
			continue
		}
		made++
		want := []disktest.Kind{disktest.Sync, disktest.Create, disktest.Write, disktest.Sync, disktest.SyncDir, disktest.Write}
		for j, kind := range want {
			if ops[i-1+j] != kind {
				t.Fatalf("operations are %v", ops)
			}
		}
	}
	if made != 1 {
		t.Fatalf("operations are %v", ops)
	}
}
