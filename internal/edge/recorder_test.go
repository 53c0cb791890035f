package edge

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/failover"
)

// full is a disk on which some room is left.
type full struct {
	disk.FS
	room int
}

type fullFile struct {
	disk.File
	on *full
}

func (f *full) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return fullFile{file, f}, nil
}

var errFull = errors.New("no space left on device")

func (f fullFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b[:min(len(b), f.on.room)])
	f.on.room -= n
	if err == nil && n < len(b) {
		err = errFull
	}
	return n, err
}

func record(n int) failover.Record {
	return failover.Record{Uplink: "leo", At: time.Date(2026, 3, 1, 0, 0, n, 0, time.UTC), OK: true, RTTMS: 41.5}
}

// linesOf are the records of a file, all of which have to say something.
func linesOf(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := new(failover.Trace).Read(bytes.NewReader(data), func(line int, err error) { t.Errorf("%s: line %d: %v", path, line, err) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRecorder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	r := NewRecorder(disk.OS{}, path)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 20 {
		r.Add(record(n))
	}
	r.Run(ctx, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	if n := linesOf(t, path); n != 20 {
		t.Errorf("%d records", n)
	}
	// One who was killed left half a line: it spoils no other.
	if err := os.WriteFile(path, []byte(`{"uplink":"leo","at":"2026-`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.write(record(1).Line()), r.close()); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(path)
	if !strings.HasSuffix(string(data), "2026-\n"+string(record(1).Line())) {
		t.Errorf("%q", data)
	}
}

// A recording takes twice its limit at most.
func TestRecorderIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	r := NewRecorder(disk.OS{}, path)
	r.limit = 1000
	for n := range 100 {
		if err := r.write(record(n % 60).Line()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + ".1"} {
		if info, err := os.Stat(name); err != nil || info.Size() > 1000 || linesOf(t, name) == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	// A day of two uplinks, looked at each second, one of which always fails.
	failed := failover.Record{Uplink: "leo", At: time.Date(2026, 3, 1, 0, 0, 0, 1e6, time.UTC), Why: "1 of 4 targets answer, want 2 (icmp 192.0.2.1: no answer within 1s; icmp 198.51.100.1: no answer within 1s; tcp 203.0.113.1:443: no answer within 1s)"}
	if day := 86400 * (len(failed.Line()) + len(record(1).Line())); day > RecordingSize {
		t.Errorf("a day takes %d bytes of %d", day, RecordingSize)
	}
}

// A disk that is full leaves whole lines, and is written to again when it has room.
func TestRecorderDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	line := record(1).Line()
	d := &full{disk.OS{}, 2*len(line) + len(line)/2}
	r := NewRecorder(d, path)
	var faults []string
	for range 6 {
		if err := r.write(line); err != nil {
			faults = append(faults, err.Error())
		}
	}
	if n := linesOf(t, path); n != 2 || len(faults) != 4 || !strings.Contains(faults[0], "no space left") || faults[1] != faults[3] {
		t.Errorf("%d records, %q", n, faults)
	}
	d.room = 1000
	if err := errors.Join(r.write(line), r.close()); err != nil {
		t.Error(err)
	}
	if n := linesOf(t, path); n != 3 {
		t.Errorf("%d records", n)
	}
}

// A recording that nobody writes away delays nobody.
func TestRecorderNeverWaits(t *testing.T) {
	r := NewRecorder(disk.OS{}, filepath.Join(t.TempDir(), "trace"))
	for n := range 10_000 {
		r.Add(record(n % 60))
	}
}
