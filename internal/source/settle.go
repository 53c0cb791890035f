package source

import (
	"os"
	"time"
)

const (
	lookEvery   = 100 * time.Millisecond
	maxPatience = 10 // times Options.Settle, for a writer that never stops
)

// look is what one look at a file shows.
type look struct {
	size  int64
	mtime time.Time
	open  bool // it ends in the middle of a line
}

// settle waits while a file may be in its writer's hands: until it ends with a
// line, has been left alone for quiet, ten times that have passed, or stop is
// closed. see looks at the file.
func settle(see func() look, quiet time.Duration, stop <-chan struct{}) {
	start := time.Now()
	seen := see()
	// From here on the file's time is only compared with itself and the clock
	// of the process is the one that counts: a step of the other does no harm.
	changed := start.Add(-age(seen.mtime, start, quiet))
	for seen.open {
		now := time.Now()
		rest := min(quiet-now.Sub(changed), maxPatience*quiet-now.Sub(start))
		if rest <= 0 {
			return
		}
		select {
		case <-stop:
			return
		case <-time.After(min(rest, lookEvery)):
		}
		next := see()
		if next.size != seen.size || !next.mtime.Equal(seen.mtime) {
			changed = time.Now()
		}
		seen = next
	}
}

// age returns for how long a file has been left alone at now, at most limit. A
// file from the future, of before a clock was set, has just been written.
func age(mtime, now time.Time, limit time.Duration) time.Duration {
	return min(max(now.Sub(mtime), 0), limit)
}

// lookAt looks at the file that has the name now, which after a rename is not
// the one of the look before. What is not worth waiting for is not open: pipes,
// empty and compressed files (they tell their end themselves), and whatever
// Open will have to say something about.
func lookAt(name string) look {
	info, err := os.Stat(name) // first: opening a pipe would wait for its writer
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return look{}
	}
	f, err := os.Open(name)
	if err != nil {
		return look{}
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	head, last := make([]byte, 8), make([]byte, 1)
	n, _ := f.ReadAt(head, 0)
	_, err = f.ReadAt(last, info.Size()-1) // an error: it just became shorter
	return look{info.Size(), info.ModTime(), kindOf(head[:n]) < 0 && (err != nil || last[0] != '\n')}
}
