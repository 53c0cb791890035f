package main

import (
	"path/filepath"
	"slices"
	"strings"

	"trafficup/internal/journal"
)

// sandbox is where runs against the stand-in keep their state.
func (s *state) sandbox() string { return filepath.Join(s.dir, "sandbox") }

// ofSandbox reports that the directory is that of runs against the stand-in, which
// have no ledger.
func (s *state) ofSandbox() bool {
	return filepath.Base(s.dir) == "sandbox" && !held(s.fs, s.ledger())
}

// replayFlags adds to flags, which find the state directory, what a replay needs
// besides: where to send to. The configuration says so, or the last run's command
// line did; then urls are its URLs, the first path's first.
func replayFlags(flags string, c Config, st *state, urls []string) string {
	switch {
	case st.ofSandbox():
		return strings.Replace(flags, " --state-dir="+quoted(c.Upload.StateDir), "", 1) + " --sandbox --state-dir=" + quoted(filepath.Dir(st.dir))
	case c.API.Primary != "" || len(urls) == 0:
		return flags
	}
	flags += " --url=" + quoted(urls[0])
	if len(urls) > 1 && c.API.Fallback == "" {
		flags += " --fallback-url=" + quoted(urls[1])
	}
	return flags
}

// lastURLs are those of the last run that had any.
func lastURLs(runs []journal.Run) []string {
	for _, r := range slices.Backward(runs) {
		if len(r.URLs) > 0 {
			return r.URLs
		}
	}
	return nil
}

// replay repeats the arguments of a list for a replay of the same letters. The
// ledger is read only where the configuration does not say where to send to.
func (b *box) replay(again string) string {
	c, st := b.sys.config, &state{fs: b.sys.fs, dir: b.dir}
	var runs []journal.Run
	if c.API.Primary == "" {
		// What cannot be read of it is for state check to say.
		_, _, _ = journal.Read(st.fs, st.ledger(), func(entry any) error {
			if r, ok := entry.(journal.Run); ok {
				runs = append(runs, r)
			}
			return nil
		})
	}
	return replayFlags(again, c, st, lastURLs(runs))
}
