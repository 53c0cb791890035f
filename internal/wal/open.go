package wal

import (
	"fmt"
	"os"
	"time"

	"trafficup/internal/disk"
)

// Open makes dir where it is missing (as [disk.MakeDir] does), visits every good
// frame oldest first, cuts off what a crash left half-written at the end, and
// returns a log that goes on behind it. The payload is valid during the call
// only; an error of visit ends Open with it. When Open returns, all frames
// visited are on disk. What cannot be read is reported, never an error; errors
// are those of the file system.
func Open(dir string, o Options, visit func(Pos, []byte) error) (*Log, Report, error) {
	o = o.filled()
	if err := disk.MakeDir(o.FS, dir); err != nil {
		return nil, Report{}, fmt.Errorf("open log: %w", err)
	}
	r := reader{fsys: o.FS, dir: dir, visit: visit}
	if err := r.all(); err != nil {
		return nil, r.report, err
	}
	l := &Log{dir: dir, o: o, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	if err := l.resume(r.found); err != nil {
		if l.tail.f != nil {
			_ = l.tail.f.Close() // the first error says more
		}
		return nil, r.report, fmt.Errorf("open log: %w", err)
	}
	go l.run()
	return l, r.report, nil
}

// resume repairs the end of the log and gets the segment to write to.
func (l *Log) resume(all []found) error {
	usable := false
	if n := len(all); n > 0 && all[n-1].unborn() {
		if err := l.o.FS.Remove(all[n-1].path); err != nil {
			return err
		}
		all = all[:n-1]
	} else if n > 0 {
		last := all[n-1]
		if err := l.mend(last); err != nil {
			return err
		}
		usable = last.sound && time.Since(time.Unix(last.created, 0)) <= l.o.SegmentAge
	}
	// A process that was killed may not have come to make its names durable.
	if err := l.o.FS.SyncDir(l.dir); err != nil {
		return err
	}
	l.segments = known(all)
	if usable {
		return nil
	}
	if l.tail.f != nil {
		_ = l.tail.f.Close() // it is synced
	}
	if len(all) == 0 {
		return l.begin(1)
	}
	return l.begin(all[len(all)-1].seq + 1)
}

// mend cuts off the torn tail of the last segment and syncs the rest: a killed
// process may have left frames in the kernel's memory only.
func (l *Log) mend(s found) error {
	f, err := l.o.FS.OpenFile(s.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if s.sound && s.end < s.size {
		err = f.Truncate(s.end)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	l.tail = tail{f: f, name: s.path, seq: s.seq, seed: s.seed, size: s.end, synced: s.end}
	return nil
}

// known is what Expire works on. A segment whose own time cannot be read counts
// as created with the next one.
func known(all []found) []segment {
	segments := make([]segment, len(all))
	created := time.Now().Unix()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].sound {
			created = all[i].created
		}
		segments[i] = segment{all[i].seq, created}
	}
	return segments
}
