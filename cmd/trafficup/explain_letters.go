package main

import (
	"cmp"
	"encoding/json/v2"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"trafficup/internal/deadletter"
	"trafficup/internal/journal"
	"trafficup/internal/uploader"
)

func (s *state) archive() string { return filepath.Join(s.letters(), "archive") }

// readLetters adds what the dead letters say, pending and archived ones, in the
// order of their runs.
func (t *teller) readLetters(st *state) error {
	pending, err := deadletter.Pending(st.fs, st.letters())
	if err != nil {
		return err
	}
	archived, err := deadletter.Pending(st.fs, st.archive())
	if err != nil {
		return err
	}
	files := append(pending, archived...)
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) })
	for _, file := range files {
		if err := t.readFile(st, file); err != nil {
			return err
		}
	}
	return nil
}

func (t *teller) readFile(st *state, file string) error {
	r, err := deadletter.OpenReader(st.fs, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a replay has just settled it
	}
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		l, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, deadletter.ErrTorn) && filepath.Dir(file) == st.archive(): // told while it was pending
		case errors.Is(err, deadletter.ErrTorn), errors.Is(err, deadletter.ErrFormat):
			t.warnings = append(t.warnings, err.Error())
		case err != nil:
			return err
		case t.matches(l.Key, l.SpotID, l.Source.File, l.Source.Line):
			t.letter(filed{l, deadletter.Ref{File: file, Line: r.Line()}, filepath.Dir(file) == st.archive()})
		}
	}
}

func (t *teller) letter(f filed) {
	l := t.ofLetter(f)
	i := slices.IndexFunc(l.stages, func(s *stage) bool { return s.run.ID == f.Run })
	if i < 0 {
		i = len(l.stages)
		run, known := t.runs[f.Run]
		if !known {
			run = journal.Run{ID: f.Run, Version: f.Version}
		}
		l.stages = append(l.stages, &stage{run: run, intent: intentOfLetter(f)})
	}
	s := l.stages[i]
	// A crash while letters were moved leaves one in both places.
	if slices.ContainsFunc(s.letters, func(o filed) bool { return o.Source == f.Source && o.Reason == f.Reason }) {
		return
	}
	for _, a := range f.Attempts {
		if !l.knows(a) {
			s.answers = append(s.answers, journal.Answer{
				Key: l.key, Attempt: len(s.answers) + 1, SentAt: a.At.UTC(), Status: a.Status, Path: a.Path, Problem: a.Error,
			})
		}
	}
	f.Envelope, f.Raw, f.Attempts = nil, nil, nil
	s.letters = append(s.letters, f)
}

// ofLetter finds the record that a letter is about: that of its key, unless the
// key may be another record's.
func (t *teller) ofLetter(f filed) *life {
	for _, l := range t.byKey[f.Key] {
		same := slices.ContainsFunc(l.stages, func(s *stage) bool {
			return s.intent.File == f.Source.File && s.intent.Line == f.Source.Line
		})
		if same || f.Key != "" && l.takes(f) {
			return l
		}
	}
	return t.another(f.Key)
}

// takes reports whether a letter of the same key, from another line, is about
// the same record. That of a conflict is not. An invalid record is when it was
// mended, and sent in another run; else what they share is a bad key.
func (l *life) takes(f filed) bool {
	switch uploader.Bucket(f.Reason) {
	case uploader.Conflict:
		return false
	case uploader.Invalids:
		sent := slices.ContainsFunc(l.stages, func(s *stage) bool { return !s.intent.At.IsZero() })
		return sent && !slices.ContainsFunc(l.stages, func(s *stage) bool { return s.run.ID == f.Run })
	}
	return true
}

// knows reports whether an attempt was told already, by the ledger or by an
// earlier letter: a letter repeats what was tried before it.
func (l *life) knows(a deadletter.Attempt) bool {
	return slices.ContainsFunc(l.stages, func(s *stage) bool {
		return slices.ContainsFunc(s.answers, func(o journal.Answer) bool { return o.SentAt.UnixMicro() == a.At.UnixMicro() })
	})
}

// intentOfLetter is what a letter says of its record.
func intentOfLetter(f filed) journal.Intent {
	i := journal.Intent{
		Key: f.Key, SpotID: f.SpotID,
		File: f.Source.File, FileSHA256: f.Source.SHA256, Line: f.Source.Line, Offset: f.Source.Offset,
	}
	var names struct {
		Market  string `json:"market"`
		Station string `json:"station"`
		AirDate string `json:"air_date"`
	}
	if json.Unmarshal(f.Record(), &names) == nil { // an invalid record may have none of them
		i.Market, i.Station, i.AirDate = names.Market, names.Station, names.AirDate
	}
	return i
}
