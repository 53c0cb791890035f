package main

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"io"
	"time"

	"trafficup/internal/journal"
)

// fact is one thing that is known of a record, as evidence: each carries all
// that names the record, so that it can stand alone.
type fact struct {
	Type       string    `json:"message_type"`
	Event      string    `json:"event"` // intent, attempt, end, letter; verdict comes last
	Run        string    `json:"run"`
	Command    string    `json:"command"`
	Version    string    `json:"version"`
	Market     string    `json:"market"`
	Station    string    `json:"station"`
	AirDate    string    `json:"air_date"`
	SpotID     string    `json:"spot_id"`
	Key        string    `json:"idempotency_key"`
	File       string    `json:"file"`
	FileSHA256 string    `json:"file_sha256"`
	Line       int64     `json:"line"`
	Offset     int64     `json:"offset"`
	BodySHA256 string    `json:"body_sha256"`
	At         time.Time `json:"at,omitzero"` // of an intent or an end
	Attempt    int       `json:"attempt,omitzero"`
	SentAt     time.Time `json:"sent_at,omitzero"`
	AnsweredAt time.Time `json:"answered_at,omitzero"`
	Path       string    `json:"path,omitzero"`
	Status     int       `json:"status,omitzero"`
	Receipt    string    `json:"receipt,omitzero"`
	Outcome    string    `json:"outcome,omitzero"`
	Reason     string    `json:"reason,omitzero"`
	MayBeThere *bool     `json:"may_have_been_applied,omitzero"`
	Letter     string    `json:"dead_letter,omitzero"`
	Archived   bool      `json:"archived,omitzero"`
	Generation int       `json:"generation,omitzero"`
	NotBefore  time.Time `json:"not_before,omitzero"`
}

var classNames = map[journal.Class]string{
	journal.Acked: "acked", journal.Retry: "retry", journal.Rejected: "rejected", journal.Refused: "refused",
}

// printFacts writes the lives for programs.
func printFacts(w io.Writer, lives []*life) error {
	var b bytes.Buffer
	for _, l := range lives {
		for _, f := range l.facts() {
			line, err := json.Marshal(f)
			if err != nil {
				return err
			}
			b.Write(append(line, '\n'))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (l *life) facts() (facts []fact) {
	for _, s := range l.stages {
		if at := s.intent.At; !at.IsZero() {
			f := s.fact("intent")
			f.At = at
			facts = append(facts, f)
		}
		for _, a := range s.answers {
			f := s.fact("attempt")
			f.Attempt, f.SentAt, f.AnsweredAt, f.Path, f.Status = a.Attempt, a.SentAt, a.AnsweredAt, printable(a.Path), a.Status
			f.Receipt, f.Outcome, f.Reason = printable(a.Receipt), classNames[a.Class], printable(a.Problem)
			if a.Class != 0 {
				f.MayBeThere = &a.Wrote
			}
			facts = append(facts, f)
		}
		if e := s.end; e != nil {
			f := s.fact("end")
			f.At, f.Outcome, f.Reason, f.MayBeThere = e.At, printable(e.Outcome), printable(e.Reason), &e.Wrote
			facts = append(facts, f)
		}
		for _, x := range s.letters {
			f := s.fact("letter")
			f.Status, f.Outcome, f.Reason, f.MayBeThere = x.Status, printable(x.Reason), printable(x.Problem), &x.OutcomeUnknown
			f.SpotID, f.File, f.FileSHA256 = printable(x.SpotID), printable(x.Source.File), printable(x.Source.SHA256)
			f.Line, f.Offset = x.Source.Line, x.Source.Offset
			f.Letter, f.Archived, f.Generation = printable(fmt.Sprintf("%s:%d", x.ref.File, x.ref.Line)), x.archived, x.Generation
			if x.NotBefore != nil {
				f.NotBefore = *x.NotBefore
			}
			if x.Dropped != nil {
				f.Outcome, f.At, f.Reason = "dropped", x.Dropped.At, printable(x.Dropped.Why)
			}
			facts = append(facts, f)
		}
	}
	s, outcome, text := l.verdict()
	last := s.fact("verdict")
	last.Outcome, last.Reason = printable(outcome), printable(text)
	return append(facts, last)
}

// fact is one without its event's own members.
func (s *stage) fact(event string) fact {
	i := s.intent
	return fact{
		Type: "explain", Event: event, Run: printable(s.run.ID), Command: printable(s.run.Command), Version: printable(s.run.Version),
		Market: printable(i.Market), Station: printable(i.Station), AirDate: printable(i.AirDate),
		SpotID: printable(i.SpotID), Key: printable(i.Key),
		File: printable(i.File), FileSHA256: printable(i.FileSHA256), Line: i.Line, Offset: i.Offset, BodySHA256: s.body(),
	}
}
