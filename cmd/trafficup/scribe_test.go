package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trafficup/internal/deadletter"
	"trafficup/internal/disk"
	"trafficup/internal/journal"
)

// scribe writes a state directory as runs leave it, with times of its own.
type scribe struct {
	t   *testing.T
	st  *state
	now time.Time
	j   *journal.Journal
	w   *deadletter.Writer
	run string
}

func newScribe(t *testing.T) *scribe {
	s := &scribe{t: t, st: &state{fs: disk.OS{}, dir: filepath.Join(t.TempDir(), "state")}, now: time.Date(2026, 7, 16, 23, 58, 0, 0, time.UTC)}
	if err := os.MkdirAll(s.st.archive(), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// begin ends the run before and begins another, in a later minute.
func (s *scribe) begin(name string) {
	s.t.Helper()
	s.beginAt(s.now.Truncate(time.Minute).Add(time.Minute+58*time.Second), name)
}

func (s *scribe) beginAt(at time.Time, name string) {
	s.t.Helper()
	s.stop()
	s.now = at
	s.run = s.now.Format("20060102T150405Z") + "-" + name
	var err error
	s.j, _, err = journal.Open(s.st.ledger(), journal.Options{KeyTTL: 720 * time.Hour},
		journal.Run{ID: s.run, Command: "upload", Version: "1.0", URLs: []string{"https://api.test/"}, Started: s.now})
	if err != nil {
		s.t.Fatal(err)
	}
	s.w = deadletter.NewWriter(disk.OS{}, filepath.Join(s.st.letters(), s.run+".ndjson"))
}

func (s *scribe) stop() {
	if s.j != nil {
		if err := s.j.Close(); err != nil {
			s.t.Error(err)
		}
		s.w.Close()
		s.j = nil
	}
}

func (s *scribe) intent(key, spot string, line int64) {
	s.t.Helper()
	i := journal.Intent{
		At: s.now, Key: key, SpotID: spot, Market: "501", Station: "WXYZ-FM", AirDate: "2026-07-17",
		File: "in/night.ndjson", FileSHA256: strings.Repeat("3f2a", 16), Line: line, Body: sha256.Sum256([]byte(key)),
	}
	if err := s.j.Intend([]journal.Intent{i}); err != nil {
		s.t.Fatal(err)
	}
}

// answer takes 80 ms; the next comes 1.3 s later.
func (s *scribe) answer(a journal.Answer) {
	a.SentAt, a.AnsweredAt, a.Path = s.now, s.now.Add(80*time.Millisecond), "primary"
	s.j.Answer(a, nil)
	s.now = s.now.Add(1380 * time.Millisecond)
}

func (s *scribe) end(key, outcome, why string, wrote bool) {
	s.j.End(journal.End{Key: key, At: s.now, Outcome: outcome, Reason: why, Wrote: wrote}, nil)
}

func (s *scribe) letter(l deadletter.Letter, line int64) {
	s.t.Helper()
	l.Run, l.Version, l.Source = s.run, "1.0", deadletter.Source{File: "in/night.ndjson", Line: line}
	l.SetRecord(fmt.Appendf(nil, `{"spot_id":%q,"idempotency_key":%q,"station":"WXYZ-FM","market":"501"}`, l.SpotID, l.Key))
	if err := s.w.Write(l); err != nil {
		s.t.Fatal(err)
	}
}

// file writes a whole file, with the directories above it.
func (s *scribe) file(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.st.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// change rewrites a file; the pattern must name one.
func (s *scribe) change(pattern string, with func([]byte) []byte) {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.st.dir, pattern))
	if err != nil || len(names) != 1 {
		s.t.Fatalf("%s: %v, %v", pattern, names, err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(names[0], with(data), 0o600); err != nil {
		s.t.Fatal(err)
	}
}
