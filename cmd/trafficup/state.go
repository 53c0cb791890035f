package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"trafficup/internal/atomicfile"
	"trafficup/internal/disk"
	"trafficup/internal/journal"
)

// state is a state directory, held by this run alone until it is closed. That
// of a dry run has no directory.
type state struct {
	fs      disk.FS
	dir     string
	journal *journal.Journal // in memory until openLedger
	unlock  func() error
}

func (s *state) ledger() string  { return filepath.Join(s.dir, "ledger") }
func (s *state) letters() string { return filepath.Join(s.dir, "deadletters") }
func (s *state) runs() string    { return filepath.Join(s.dir, "runs") }

// openState takes the state directory. It returns nothing at all when another
// run holds it and this one is to be skipped.
func openState(sys *system, c Config, command string) (*state, error) {
	st := &state{fs: sys.fs, journal: journal.Memory(), unlock: func() error { return nil }}
	dir, err := stateDir(c, sys.getenv)
	if err != nil && !c.Upload.DryRun {
		return nil, err
	}
	if c.Upload.Sandbox != "" && dir != "" {
		// What a stand-in took was not delivered, and what it refused is not to
		// be replayed to the real API.
		dir = (&state{dir: dir}).sandbox()
	}
	if st.dir = dir; c.Upload.DryRun {
		return st, nil // only to look: nothing is made and nothing held
	}
	if err := disk.MakeDir(st.fs, st.letters()); err != nil {
		return nil, &failure{exitFailed, localHint(err), fmt.Errorf("state directory: %w", err)}
	}
	st.unlock, err = st.hold(sys, c, command, c.Output.Quiet)
	if err != nil || st.unlock == nil {
		return nil, err
	}
	return st, nil
}

// hold takes the lock, as --on-locked says.
func (s *state) hold(sys *system, c Config, command string, quiet bool) (unlock func() error, err error) {
	path := filepath.Join(s.dir, "lock")
	once, done := context.WithCancel(context.Background())
	done()
	unlock, err = sys.lock(once, path, command)
	taken, ok := errors.AsType[*atomicfile.LockedError](err)
	if !ok {
		return unlock, err
	}
	say := func(format string) {
		if !quiet {
			fmt.Fprintf(sys.stderr, "trafficup: "+format+"\n", s.dir, printable(taken.Holder))
		}
	}
	switch c.Upload.OnLocked {
	case "skip":
		say("skipped: state directory %s is held by %s")
		return nil, nil
	case "wait":
		say("waiting: state directory %s is held by %s")
		wait := sys.soft
		if c.Upload.Deadline > 0 { // it is for the whole run
			var cancel context.CancelFunc
			wait, cancel = context.WithTimeout(wait, c.Upload.Deadline)
			defer cancel()
		}
		if unlock, err = sys.lock(wait, path, command); err == nil {
			return unlock, nil
		}
		if code := int(sys.signal.Load()); code != 0 {
			return nil, &failure{exitSignal + code, "", fmt.Errorf("stopped by a signal while waiting: %w", err)}
		}
	}
	if again, ok := errors.AsType[*atomicfile.LockedError](err); ok {
		taken = again // whoever has it by now
	}
	return nil, &failure{exitLocked, "run it again later, or with --on-locked=wait", fmt.Errorf("state directory %s is held by %s", s.dir, taken.Holder)}
}

// openLedger begins the run in the ledger and says what it found.
func (s *state) openLedger(c Config, runID, command string, now time.Time, u *ui) error {
	j, found, err := openLedger(s, c, runID, command, now, u.warn)
	if err != nil {
		return err
	}
	s.journal = j
	if found.Unknown > 0 {
		u.note(fmt.Sprintf("resuming: %s records of earlier runs have no answer; those found in the input go first", thousands(int64(found.Unknown))))
	}
	return nil
}

func (s *state) close() {
	_ = s.journal.Close() // closed already where it matters
	_ = s.unlock()
}
