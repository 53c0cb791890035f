package edge

import (
	"context"
	"errors"
	"fmt"
	"os"

	"trafficup/internal/disk"
	"trafficup/internal/failover"
)

// RecordingSize is how large a recording grows before it is begun anew: a day of two
// uplinks, one of which fails all day, fits.
const RecordingSize = 64 << 20

// Recorder adds rounds to a file. A disk that is full, or hangs, delays nobody.
type Recorder struct {
	fs      disk.FS
	path    string
	limit   int64
	waiting chan failover.Record
	file    disk.File
	size    int64
}

// NewRecorder returns one that writes nothing before it runs.
func NewRecorder(fsys disk.FS, path string) *Recorder {
	return &Recorder{fs: fsys, path: path, limit: RecordingSize, waiting: make(chan failover.Record, 256)}
}

// Add hands over a record, which is lost where the disk does not keep up.
func (r *Recorder) Add(record failover.Record) {
	select {
	case r.waiting <- record:
	default:
	}
}

// Run writes until ctx ends, and then what waits. told is called after each record,
// with what is the matter; nil: nothing is.
func (r *Recorder) Run(ctx context.Context, told func(error)) {
	for {
		select {
		case record := <-r.waiting:
			told(r.write(record.Line()))
			continue
		case <-ctx.Done():
		}
		for len(r.waiting) > 0 {
			told(r.write((<-r.waiting).Line()))
		}
		told(r.close())
		return
	}
}

// write adds a line. What was written of one that failed is taken back, or ended by
// the next one that opens the file.
func (r *Recorder) write(line []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("record: %w; what happens is not recorded", errors.Join(err, r.close()))
		}
	}()
	if r.file != nil && r.size+int64(len(line)) > r.limit {
		if err := errors.Join(r.close(), r.fs.Rename(r.path, r.path+".1")); err != nil {
			return err
		}
	}
	if r.file == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	if _, err := r.file.Write(line); err != nil {
		return errors.Join(err, r.file.Truncate(r.size))
	}
	r.size += int64(len(line))
	return nil
}

func (r *Recorder) open() error {
	file, err := r.fs.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	size := int64(0)
	info, err := file.Stat()
	if err == nil {
		size = info.Size()
	}
	if size > 0 { // the last line may have no end
		_, err = file.Write([]byte("\n"))
		size++
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	r.file, r.size = file, size
	return nil
}

func (r *Recorder) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
