package wal

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"trafficup/internal/disk/disktest"
)

// TestFailureIsFinal lets a write or sync fail while frames wait, on a disk that
// would work again afterwards.
func TestFailureIsFinal(t *testing.T) {
	for _, c := range []struct {
		name string
		kind disktest.Kind
		err  error
		want error
	}{
		{"full disk", disktest.Write, &disktest.Torn{Bytes: 20, Err: syscall.ENOSPC}, syscall.ENOSPC},
		{"short write", disktest.Write, &disktest.Torn{Bytes: 20}, io.ErrShortWrite},
		{"error of a write", disktest.Write, syscall.EIO, syscall.EIO},
		{"error of a sync", disktest.Sync, syscall.EIO, syscall.EIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := disktest.New()
			l, _, _ := open(t, Options{FS: d.FS()})
			put(t, l, "safe one", "safe two")
			kept, _ := d.Bytes(path(1))
			var after []disktest.Kind
			var during error
			d.Hook(func(op disktest.Op) error {
				if len(after) > 0 || op.Kind == c.kind {
					after = append(after, op.Kind)
				}
				if len(after) != 1 {
					return nil
				}
				if err := l.Append([]byte("lost, too"), func(err error) { during = err }); err != nil {
					t.Error(err)
				}
				return c.err
			})
			for i, err := range try(t, l, "lost one", "lost two", "lost three") {
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), fileName(1)) {
					t.Errorf("frame %d: %v", i, err)
				}
			}
			err := l.Append([]byte("late"), func(error) { t.Error("done was called") })
			if !errors.Is(err, c.want) {
				t.Errorf("later append: %v", err)
			}
			if err := l.Close(); !errors.Is(err, c.want) {
				t.Errorf("close: %v", err)
			}
			if err := l.Append([]byte("late"), nil); err != ErrClosed {
				t.Errorf("append after close: %v", err)
			}
			if !errors.Is(during, c.want) {
				t.Errorf("frame appended during the failure: %v", during)
			}
			want := []disktest.Kind{c.kind, disktest.Truncate, disktest.Sync}
			if len(after) != 3 || after[0] != want[0] || after[1] != want[1] || after[2] != want[2] {
				t.Errorf("operations are %v, want %v", after, want)
			}
			if got, _ := d.Bytes(path(1)); string(got) != string(kept) {
				t.Errorf("the segment has %d bytes, want the %d that were safe", len(got), len(kept))
			}
			l, got, rep := open(t, Options{FS: d.FS()})
			equal(t, got, []string{"safe one", "safe two"})
			clean(t, rep)
			done(t, l)
		})
	}
}

// TestRotationThatFails tells those that are on disk from those that are not.
func TestRotationThatFails(t *testing.T) {
	for _, kind := range []disktest.Kind{disktest.Create, disktest.Write, disktest.Sync, disktest.SyncDir} {
		t.Run(string(kind), func(t *testing.T) {
			d := disktest.New()
			l, _, _ := open(t, Options{FS: d.FS(), SegmentSize: headerSize + 2*18})
			d.Hook(func(op disktest.Op) error {
				if op.Kind == kind && (op.Name == path(2) || kind == disktest.SyncDir) {
					return syscall.EIO
				}
				return nil
			})
			for i, err := range try(t, l, numbered(5)...) {
				switch {
				case i < 2 && err != nil:
					t.Errorf("frame %d is on disk, but: %v", i, err)
				case i >= 2 && (!errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), fileName(2))):
					t.Errorf("frame %d: %v", i, err)
				}
			}
			if err := l.Close(); !errors.Is(err, syscall.EIO) {
				t.Errorf("close: %v", err)
			}
			d.Hook(nil)
			before, after, rep := reopen(t, d)
			clean(t, rep)
			equal(t, before, numbered(2))
			equal(t, after, append(numbered(2), "appended"))
		})
	}
}

func TestFullDisk(t *testing.T) {
	d := disktest.New()
	l, _, _ := open(t, Options{FS: d.FS(), SegmentSize: 200})
	d.Limit(1000)
	errs := try(t, l, numbered(100)...)
	done := 0
	for done < len(errs) && errs[done] == nil {
		done++
	}
	for i, err := range errs[done:] {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("frame %d: %v", done+i, err)
		}
	}
	if err := l.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("close: %v", err)
	}
	got, rep := read(t, d.FS())
	equal(t, got, numbered(100)[:done])
	clean(t, rep)
}

// TestOpenOnABadDisk returns errors of the file system, and leaks nothing.
func TestOpenOnABadDisk(t *testing.T) {
	for _, kind := range []disktest.Kind{disktest.Mkdir, disktest.Create, disktest.Write, disktest.Sync, disktest.Truncate, disktest.Remove, disktest.SyncDir} {
		t.Run(string(kind), func(t *testing.T) {
			d := disktest.New()
			switch kind {
			case disktest.Truncate, disktest.Remove:
				d = sample(t, numbered(5))
				data, _ := d.Bytes(path(2))
				if kind == disktest.Remove {
					data = data[:5]
				}
				d.SetBytes(path(2), data[:len(data)-1])
			}
			d.Hook(func(op disktest.Op) error {
				if op.Kind == kind {
					return syscall.EIO
				}
				return nil
			})
			l, _, err := Open(dir, Options{FS: d.FS()}, func(Pos, []byte) error { return nil })
			if !errors.Is(err, syscall.EIO) || l != nil {
				t.Fatalf("%v", err)
			}
		})
	}
	_, _, err := Open(dir, Options{FS: disktest.New().FS(), Rand: strings.NewReader("")}, nil)
	if !errors.Is(err, io.EOF) {
		t.Fatalf("without salt: %v", err)
	}
}
