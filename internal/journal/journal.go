// Package journal is the ledger: which records were sent, what came of it, and
// who was acked, over all runs of a state directory.
//
// An Intent is on disk before a record's first request leaves; an Answer follows
// each attempt and an End closes what was not acked. After a crash, an intent
// without either is a record whose fate is unknown: it is sent again, with the
// same key. What the ledger knows is kept in an index in memory; the evidence
// stays on disk, in a log of its own format (docs/formats.md).
package journal

import (
	"fmt"
	"io"
	"sync"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/wal"
)

// commitDelay is how long an answer may wait for others before it is synced.
// Nobody is held up by it: only the record's place in the window is.
const commitDelay = 5 * time.Millisecond

// Options of Open.
type Options struct {
	FS     disk.FS       // nil: the machine's
	KeyTTL time.Duration // how long an ack counts, and how long evidence is kept
	Rand   io.Reader     // for salts; nil: crypto/rand
}

// State is what Open found.
type State struct {
	wal.Report
	Bad     int // good frames that hold no entry
	Acked   int // records acked by earlier runs and not yet forgotten
	Unknown int // records with an intent and no answer
	Last    Run // the last run before this one; zero: none
	Expired int // segments removed because all in them was older than KeyTTL
	// Leap is by how much the clock is ahead of the newest entry, if by more than a
	// year, for which nothing was forgotten; else 0.
	Leap time.Duration
	Err  error // why expired segments could not be removed
}

// Journal is an open ledger. It is safe for concurrent use.
type Journal struct {
	run Run
	log *wal.Log // nil: in memory only

	mu      sync.Mutex
	index   *index // guarded by mu
	unknown int    // guarded by mu; entries of earlier runs, not met in this one

	intents sync.Mutex
	file    file   // guarded by intents; the last one written
	buf     []byte // guarded by intents
}

// Memory returns a ledger that forgets with the process: for what sends nothing
// and for what is sent to a stand-in.
func Memory() *Journal { return &Journal{index: newIndex()} }

// Open reads the ledger in dir, making it if need be, and begins run. When it
// returns, the beginning is on disk: a directory that cannot be written is found
// out here, before anything was sent. One process at a time may have it open;
// the caller holds a lock.
func Open(dir string, o Options, run Run) (*Journal, State, error) {
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	l, log, report, err := load(dir, o, run.Started, run.Started.Add(-o.KeyTTL))
	if err != nil {
		return nil, State{}, err
	}
	newest := l.latest
	l.see(run.Started)
	if since := l.before(run.Started, o.KeyTTL); l.forgetful && since.Before(l.since) {
		if err := log.Close(); err != nil {
			return nil, State{}, fmt.Errorf("ledger: %w", err)
		}
		if l, log, _, err = load(dir, o, run.Started, since); err != nil {
			return nil, State{}, err
		}
	}
	j := &Journal{run: run, index: l.index, log: log, unknown: l.count(unknown)}
	s := State{Report: report, Bad: l.bad, Acked: l.count(acked), Unknown: j.unknown, Last: l.run}
	if ahead := run.Started.Sub(newest); !newest.IsZero() && ahead > leap {
		s.Leap = ahead
	}
	s.Expired, s.Err = log.Expire(l.since)
	if err := j.durably(run.encode(nil)); err != nil {
		return nil, s, fmt.Errorf("ledger: %w", joinClose(err, log))
	}
	return j, s, nil
}

// likely is about how many records the ledger in dir holds: one
// takes about 200 bytes. A wrong guess costs a little time or room.
func likely(fsys disk.FS, dir string) (n int) {
	entries, _ := fsys.ReadDir(dir) // what is wrong with it will show
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += int(info.Size() / 200)
		}
	}
	return n
}

func joinClose(err error, log *wal.Log) error {
	_ = log.Close() // it failed already
	return err
}

// Close writes and syncs what is left.
func (j *Journal) Close() error {
	if j.log == nil {
		return nil
	}
	return j.log.Close()
}

// durably appends and waits.
func (j *Journal) durably(frame []byte) error {
	synced := make(chan error, 1)
	if err := j.log.Append(frame, func(err error) { synced <- err }); err != nil {
		return err
	}
	j.log.Sync()
	return <-synced
}

// Intend puts the intents on disk, with one sync for all of them.
func (j *Journal) Intend(intents []Intent) error {
	if j.log == nil || len(intents) == 0 {
		return nil
	}
	synced := make(chan error, 1)
	err := j.append(intents, func(err error) { synced <- err })
	if err == nil {
		j.log.Sync()
		err = <-synced
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// append enters intents, the last of them with done.
func (j *Journal) append(intents []Intent, done func(error)) error {
	j.intents.Lock()
	defer j.intents.Unlock()
	for n := range intents {
		i := &intents[n]
		if f := (file{j.file.number, i.File, i.FileSHA256}); f != j.file {
			f.number++
			if err := j.log.Append(f.encode(nil), nil); err != nil {
				return err
			}
			j.file = f
		}
		i.fileNumber = j.file.number
		j.buf = i.encode(j.buf[:0])
		report := done
		if n < len(intents)-1 {
			report = nil
		}
		if err := j.log.Append(j.buf, report); err != nil {
			return err
		}
	}
	return nil
}

// Answer enters the end of an attempt. done, which may be nil, is called once
// it is on disk, or with the error that kept it from there.
func (j *Journal) Answer(a Answer, done func(error)) { j.enter(a.encode(nil), done) }

// End enters how a record ended without an ack. done is as for Answer.
func (j *Journal) End(e End, done func(error)) { j.enter(e.encode(nil), done) }

func (j *Journal) enter(frame []byte, done func(error)) {
	if j.log == nil {
		if done != nil {
			done(nil)
		}
		return
	}
	report := done
	if done != nil {
		report = func(err error) {
			if err != nil {
				err = fmt.Errorf("ledger: %w", err)
			}
			done(err)
		}
	}
	if err := j.log.Append(frame, report); err != nil && report != nil {
		report(err)
	}
}
