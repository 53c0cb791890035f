package wal

import (
	"fmt"
	"os"
	"time"
)

// keepBuffer is the largest buffer, in bytes, that is kept for the next batch.
const keepBuffer = 1 << 20

// run is the log's goroutine: it alone writes and syncs.
func (l *Log) run() {
	defer close(l.ended)
	var spare batch
	for {
		whole, last := l.take(spare)
		b := whole
		if err := l.commit(&b); err != nil {
			l.fail(b.frames, err)
			return
		}
		if last {
			_ = l.tail.f.Close() // all of it is synced
			l.mu.Lock()
			l.err = l.gone()
			l.mu.Unlock()
			return
		}
		clear(whole.frames) // let go of the dones
		spare = batch{buf: whole.buf[:0], frames: whole.frames[:0]}
		if cap(whole.buf) > keepBuffer {
			spare = batch{}
		}
	}
}

// take waits until there is something to do and returns all pending frames,
// leaving spare in their place. last says that no more will come.
func (l *Log) take(spare batch) (b batch, last bool) {
	for {
		l.mu.Lock()
		now, wait := l.due()
		if now {
			b, l.pending = l.pending, spare
			b.sync = l.asked || l.closed
			l.since, l.asked = time.Time{}, false
			last = l.closed
			l.mu.Unlock()
			return b, last
		}
		l.mu.Unlock()
		var delay <-chan time.Time
		if wait > 0 {
			delay = time.After(wait)
		}
		select {
		case <-l.wake:
		case <-delay:
		}
	}
}

// due says whether run has something to do now, and if not, when it will have
// unless something happens before; 0 is never. requires mu.
func (l *Log) due() (now bool, wait time.Duration) {
	switch {
	case l.closed || l.asked:
		return true, 0
	case len(l.pending.frames) == 0:
		return false, 0
	case l.since.IsZero(): // nobody waits, so there is no company to wait for
		return true, 0
	}
	wait = l.o.Delay - time.Since(l.since)
	return wait <= 0, wait
}

// commit writes a batch, syncs it where somebody waits, and calls the dones. It
// takes off b what it is done with.
func (l *Log) commit(b *batch) error {
	for len(b.frames) > 0 {
		n, size, waiting := l.fill(b)
		if n == 0 {
			if err := l.rotate(); err != nil {
				return err
			}
			continue
		}
		if err := l.tail.write(b.buf[:size]); err != nil {
			return err
		}
		if waiting {
			if err := l.tail.sync(); err != nil {
				return err
			}
		}
		for _, f := range b.frames[:n] {
			if f.done != nil {
				f.done(nil)
			}
		}
		b.buf, b.frames = b.buf[size:], b.frames[n:]
	}
	if b.sync {
		return l.tail.sync()
	}
	return nil
}

// fill completes the first n frames of b, those that fit into the segment, size
// bytes together, and says whether somebody waits for one of them.
func (l *Log) fill(b *batch) (n, size int, waiting bool) {
	for _, f := range b.frames {
		end := l.tail.size + int64(size)
		if end > headerSize && end+int64(f.size) > l.o.SegmentSize {
			break
		}
		seal(b.buf[size:size+f.size], l.tail.seed)
		n, size = n+1, size+f.size
		waiting = waiting || f.done != nil
	}
	return n, size, waiting
}

// rotate begins the next segment, once the current one is whole on disk.
func (l *Log) rotate() error {
	if err := l.tail.sync(); err != nil {
		return err
	}
	old := l.tail.f
	if err := l.begin(l.tail.seq + 1); err != nil {
		return err
	}
	_ = old.Close() // it is synced
	return nil
}

// fail ends the log. The kernel may have dropped what a failed sync was to
// write, so that a second one would succeed without it: what is not known to be
// on disk is cut off, nothing is tried again, and everybody is told.
func (l *Log) fail(left []frame, err error) {
	l.tail.cut()
	l.mu.Lock()
	l.err = err
	left = append(left, l.pending.frames...)
	l.pending = batch{}
	l.mu.Unlock()
	for _, f := range left {
		if f.done != nil {
			f.done(err)
		}
	}
}

// gone finds out whether the segment was removed while it was written: then
// nothing of it is there any more.
func (l *Log) gone() error {
	f, err := l.o.FS.OpenFile(l.tail.name, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("log was removed while it was written: %w", err)
	}
	return f.Close()
}
