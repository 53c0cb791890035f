package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"trafficup/internal/disk"
	"trafficup/internal/disk/disktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "/log"

// salts makes segments the same in every run of a test.
func salts(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

// read returns the payloads of a log.
func read(t testing.TB, fsys disk.FS) ([]string, Report) {
	t.Helper()
	var got []string
	rep, err := Read(fsys, dir, func(_ Pos, p []byte) error {
		got = append(got, string(p))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, rep
}

// open opens a log and returns what Open visited.
func open(t testing.TB, o Options) (*Log, []string, Report) {
	t.Helper()
	var got []string
	l, rep, err := Open(dir, o, func(_ Pos, p []byte) error {
		got = append(got, string(p))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // for tests that fail
	return l, got, rep
}

// put appends payloads and waits for all of them.
func put(t testing.TB, l *Log, payloads ...string) {
	t.Helper()
	for _, err := range try(t, l, payloads...) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// try appends payloads and returns what became of each.
func try(t testing.TB, l *Log, payloads ...string) []error {
	t.Helper()
	errs := make([]error, len(payloads))
	var wg sync.WaitGroup
	for i, p := range payloads {
		wg.Add(1)
		err := l.Append([]byte(p), func(err error) {
			errs[i] = err
			wg.Done()
		})
		if err != nil {
			errs[i] = err
			wg.Done()
		}
	}
	wg.Wait()
	return errs
}

func done(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func equal(t testing.TB, got, want []string) {
	t.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Fatalf("frames are\n%q, want\n%q", got, want)
	}
}

// clean fails the test if anything was torn or damaged.
func clean(t testing.TB, rep Report) {
	t.Helper()
	if len(rep.Torn)+len(rep.Damaged) > 0 {
		t.Fatalf("report is %+v", rep)
	}
}

func numbered(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("frame %04d", i)
	}
	return all
}

func TestRoundTripOnTheMachinesDisk(t *testing.T) {
	where := filepath.Join(t.TempDir(), "log")
	longest := bytes.Repeat([]byte{0}, MaxFrame)
	for round := range 3 {
		n := 0
		l, rep, err := Open(where, Options{SegmentSize: 1 << 10}, func(p Pos, b []byte) error {
			if n++; n == 1 && (p != Pos{1, headerSize} || !bytes.Equal(b, longest)) {
				t.Errorf("first frame at %+v, %d bytes", p, len(b))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		clean(t, rep)
		if n != 2*round || rep.Frames != int64(n) || rep.Bytes != int64(round*(MaxFrame+5)) || rep.Segments != 2*round {
			t.Fatalf("round %d: visited %d, %+v", round, n, rep)
		}
		if err := l.Append(longest, nil); err != nil {
			t.Fatal(err)
		}
		put(t, l, "short")
		done(t, l)
	}
}

func TestAppendRefuses(t *testing.T) {
	l, _, _ := open(t, Options{FS: disktest.New().FS()})
	never := func(error) { t.Error("done was called") }
	if err := l.Append(make([]byte, MaxFrame+1), never); !errors.Is(err, ErrTooLong) {
		t.Errorf("too long: %v", err)
	}
	if err := l.Append(nil, never); !errors.Is(err, ErrEmpty) {
		t.Errorf("empty: %v", err)
	}
	done(t, l)
	done(t, l) // again
	if err := l.Append([]byte("x"), never); err != ErrClosed {
		t.Errorf("closed: %v", err)
	}
	l.Sync() // does nothing
}

func TestMissingDirectoryIsAnEmptyLog(t *testing.T) {
	got, rep := read(t, disktest.New().FS())
	clean(t, rep)
	if len(got) != 0 || rep.Segments != 0 {
		t.Fatalf("%q, %+v", got, rep)
	}
}

func TestOtherFilesAreIgnored(t *testing.T) {
	d := disktest.New()
	for _, name := range []string{"LOCK", "0000000000000001.wal.tmp", "1.wal", "000000000000000A.wal", "0000000000000000.wal", ".wal"} {
		d.SetBytes(filepath.Join(dir, name), []byte("other"))
	}
	if err := d.FS().MkdirAll(filepath.Join(dir, fileName(3)), 0o700); err != nil {
		t.Fatal(err)
	}
	l, _, rep := open(t, Options{FS: d.FS()})
	clean(t, rep)
	put(t, l, "one")
	done(t, l)
	got, rep := read(t, d.FS())
	equal(t, got, []string{"one"})
	clean(t, rep)
}

func TestErrorOfVisitEndsIt(t *testing.T) {
	d := disktest.New()
	l, _, _ := open(t, Options{FS: d.FS()})
	put(t, l, "one", "two")
	done(t, l)
	stop := errors.New("stop")
	n := 0
	visit := func(Pos, []byte) error { n++; return stop }
	if l, _, err := Open(dir, Options{FS: d.FS()}, visit); err != stop || l != nil {
		t.Errorf("Open: %v", err)
	}
	if _, err := Read(d.FS(), dir, visit); err != stop {
		t.Errorf("Read: %v", err)
	}
	if n != 2 {
		t.Errorf("%d visits, want one each", n)
	}
}

// TestReadBesideALog reads again and again while a log is written and rotated:
// what it sees is whole and in order.
func TestReadBesideALog(t *testing.T) {
	d := disktest.New()
	l, _, _ := open(t, Options{FS: d.FS(), SegmentSize: 200})
	all := numbered(400)
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, p := range all {
			if err := l.Append([]byte(p), nil); err != nil {
				t.Error(err)
			}
			if p == all[200] {
				put(t, l, "between")
			}
		}
	})
	for range 50 {
		last := ""
		rep, err := Read(d.FS(), dir, func(_ Pos, p []byte) error {
			if string(p) != "between" {
				if string(p) <= last {
					t.Errorf("%q comes after %q", p, last)
				}
				last = string(p)
			}
			return nil
		})
		if err != nil || len(rep.Damaged) > 0 {
			t.Errorf("%+v, %v", rep, err)
		}
	}
	wg.Wait()
	done(t, l)
	if got, _ := read(t, d.FS()); len(got) != 401 {
		t.Fatalf("%d frames", len(got))
	}
}
