package deadletter

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"

	"trafficup/internal/disk/disktest"
)

func numbered(n int) Letter {
	l := Letter{Reason: "exhausted", Details: Details{Key: "key-" + strconv.Itoa(n)}}
	l.SetRecord([]byte(`{"n":"` + strconv.Itoa(n) + `"}`))
	return l
}

// keysIn returns how often each key stands in a file, and whether all of it
// could be read.
func keysIn(t *testing.T, d *disktest.Disk, file string) (keys map[string]int, torn bool) {
	t.Helper()
	keys = map[string]int{}
	if _, ok := d.Bytes(file); !ok {
		return keys, false
	}
	s := NewScanner(d.FS(), []string{file})
	for {
		e, err := s.Next()
		switch {
		case err == nil:
			keys[e.Key]++
		case errors.Is(err, ErrTorn) || errors.Is(err, ErrFormat):
			torn = true
		default:
			return keys, torn
		}
	}
}

func TestWriteErrors(t *testing.T) {
	torn := &disktest.Torn{Bytes: 7, Err: syscall.ENOSPC}
	cases := []struct {
		name   string
		fail   map[disktest.Kind]error
		broken bool // also later, when the disk works again
	}{
		{"no room", map[disktest.Kind]error{disktest.Write: torn}, false},
		{"no room, no cut", map[disktest.Kind]error{disktest.Write: torn, disktest.Truncate: syscall.EIO}, true},
		{"failed sync", map[disktest.Kind]error{disktest.Sync: syscall.EIO}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := disktest.New()
			w := NewWriter(d.FS(), "f")
			if err := w.Write(numbered(1)); err != nil {
				t.Fatal(err)
			}
			d.Hook(func(op disktest.Op) error { return c.fail[op.Kind] })
			first := w.Write(numbered(2))
			if first == nil {
				t.Fatal("no error")
			}
			d.Hook(nil)
			err := w.Write(numbered(3))
			if c.broken != (err != nil) || c.broken && err.Error() != first.Error() {
				t.Errorf("next write: %v", err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			keys, bad := keysIn(t, d, "f")
			if bad && c.fail[disktest.Truncate] == nil || keys["key-1"] != 1 || keys["key-2"] != 0 || w.Count() != 1+keys["key-3"] {
				t.Errorf("the file holds %v, torn %v; %d counted", keys, bad, w.Count())
			}
		})
	}
}

func TestFileThatCannotBeMade(t *testing.T) {
	d := disktest.New()
	w := NewWriter(d.FS(), "f")
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.SyncDir {
			return syscall.EIO
		}
		return nil
	})
	for range 2 {
		if err := w.Write(numbered(1)); !errors.Is(err, syscall.EIO) {
			t.Errorf("%v", err)
		}
	}
	if w.Count() != 0 {
		t.Errorf("%d letters counted", w.Count())
	}
}

// What Write returned nil for is there after a power cut.
func TestWrittenLettersSurvive(t *testing.T) {
	for at := int64(1); ; at++ {
		d := disktest.New()
		r := rand.New(rand.NewPCG(1, uint64(at)))
		w := NewWriter(d.FS(), "f")
		hit := false
		d.Hook(func(op disktest.Op) error {
			if op.N == at {
				hit = true
				d.PowerCut(r)
			}
			return nil
		})
		written := 0
		for written < 5 && w.Write(numbered(written)) == nil {
			written++
		}
		if !hit {
			d.PowerCut(r)
		}
		keys, _ := keysIn(t, d, "f")
		for n := range written {
			if keys["key-"+strconv.Itoa(n)] != 1 {
				t.Fatalf("cut at operation %d: letter %d of %d is lost", at, n, written)
			}
		}
		if !hit {
			return
		}
	}
}
