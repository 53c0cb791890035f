package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"

	"trafficup/internal/journal"
	"trafficup/internal/uploader"
)

// verdict says what is known of a record now: its bucket, or "unfinished" when
// its last answer was no success and its run did not get to its end. The stage is
// that in which it came about.
func (l *life) verdict() (s *stage, outcome, text string) {
	for _, s := range l.stages {
		for _, a := range s.answers {
			if a.Class == journal.Acked {
				return s, string(uploader.Acked), "acked" + by(a.Path) + receipt(a)
			}
		}
	}
	s = l.newest()
	outcome, text = s.verdict()
	return s, outcome, text
}

// verdict is that of a record which was not acked.
func (s *stage) verdict() (outcome, text string) {
	if n := len(s.letters); n > 0 {
		f := s.letters[n-1]
		return f.verdict()
	}
	again := fmt.Sprintf("; upload %s again: it keeps its key", orDash(s.intent.File))
	if e := s.end; e != nil {
		switch {
		case e.Outcome != string(uploader.Halted):
			return e.Outcome, e.Outcome + reason(e.Reason) + " (its dead letter is gone)"
		case !e.Wrote:
			return e.Outcome, "withdrawn, not sent" + again
		}
		return e.Outcome, "not acked when the run was stopped" + again
	}
	if len(s.answers) == 0 {
		return string(uploader.Unknown), "unknown: about to be sent, or in flight now" + again
	}
	switch a := s.answers[len(s.answers)-1]; {
	case a.Class == journal.Rejected:
		return string(uploader.Rejected), "rejected" + reason(a.Problem)
	case a.Status == 0 && a.Wrote:
		return string(uploader.Unknown), "unknown: sent, and no answer is known" + again
	}
	return "unfinished", "not acked, and its run did not get to its end" + again
}

func (f filed) verdict() (outcome, text string) {
	place := fmt.Sprintf(" (dead letter %s:%d)", f.ref.File, f.ref.Line)
	if f.Dropped != nil {
		return "dropped", fmt.Sprintf("given up on %s: %s%s", stamp(f.Dropped.At), f.Dropped.Why, place)
	}
	text = f.Reason + reason(f.Problem)
	if f.NotBefore != nil {
		text += ", not before " + stamp(*f.NotBefore)
	}
	return f.Reason, text + place
}

func by(path string) string {
	if path == "" {
		return ""
	}
	return " by " + path
}

func receipt(a journal.Answer) string {
	if a.Receipt == "" {
		return ""
	}
	return ", receipt " + a.Receipt
}

func reason(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// meaning is what an answer said, in words.
func meaning(a journal.Answer) string {
	switch a.Class {
	case journal.Acked:
		return "acked" + receipt(a)
	case journal.Rejected:
		return "rejected" + reason(a.Problem)
	case journal.Refused:
		return "login or configuration refused" + reason(a.Problem)
	}
	return orDash(a.Problem)
}

// printLives writes the lives for people.
func printLives(w io.Writer, lives []*life) error {
	var p lifePrinter
	for n, l := range lives {
		if n > 0 {
			p.line("")
		}
		p.life(l)
	}
	_, err := w.Write(p.b.Bytes())
	return err
}

type lifePrinter struct {
	b   bytes.Buffer
	day string // of the event before
}

func (p *lifePrinter) line(format string, a ...any) {
	p.b.WriteString(printable(fmt.Sprintf(format, a...)))
	p.b.WriteByte('\n')
}

func (p *lifePrinter) life(l *life) {
	told, _, text := l.verdict()
	i := told.intent
	if i.SpotID == "" { // lost with a damaged part of the ledger, or never there
		i = l.stages[0].intent
	}
	head := fmt.Sprintf("%s  key %s", orDash(i.SpotID), orDash(l.key))
	for _, s := range []string{i.Station, i.AirDate} {
		if s != "" {
			head += "  " + s
		}
	}
	if i.Market != "" {
		head += "  market " + i.Market
	}
	p.line("%s", head)
	source := ""
	for _, s := range l.stages {
		if here := s.source(); here != source && here != "" {
			source = here
			p.line("  %s", here)
		}
		p.stage(s)
	}
	p.line("  → %s", text)
}

// source names where a record was read and what was sent of it.
func (s *stage) source() string {
	i := s.intent
	if i.File == "" {
		return ""
	}
	text := fmt.Sprintf("%s:%d", i.File, i.Line)
	if i.FileSHA256 != "" {
		text += fmt.Sprintf(" (sha256 %s)", beginning(i.FileSHA256))
	}
	if sum := s.body(); sum != "" {
		text += ", body sha256 " + beginning(sum)
	}
	return text
}

// beginning is what a person compares of a checksum; the rest is in the JSON.
func beginning(sum string) string {
	const enough = 12
	if len(sum) <= enough {
		return sum
	}
	return sum[:enough] + "…"
}

// body is the checksum of what was posted; a letter does not tell it.
func (s *stage) body() string {
	if s.intent.At.IsZero() {
		return ""
	}
	return hex.EncodeToString(s.intent.Body[:])
}

func (p *lifePrinter) stage(s *stage) {
	command := "trafficup " + s.run.Version
	if s.run.Command != "" {
		command = s.run.Command + ", " + command
	}
	p.line("  run %s (%s)", orDash(s.run.ID), command)
	p.day = ""
	if !s.run.Started.IsZero() {
		p.day = s.run.Started.UTC().Format(time.DateOnly)
	}
	if !s.intent.At.IsZero() {
		p.event(s.intent.At, "intent")
	}
	for n, a := range s.answers {
		status := "-"
		if a.Status != 0 {
			status = strconv.Itoa(a.Status)
		}
		took, waited := "", ""
		if !a.AnsweredAt.IsZero() {
			took = short(a.AnsweredAt.Sub(a.SentAt))
			if n+1 < len(s.answers) {
				waited = "  then waited " + short(s.answers[n+1].SentAt.Sub(a.AnsweredAt))
			}
		}
		p.event(a.SentAt, "attempt %d  %-8s  %3s  %6s  %s%s", a.Attempt, a.Path, status, took, meaning(a), waited)
	}
	if e := s.end; e != nil {
		p.event(e.At, "%s%s", e.Outcome, reason(e.Reason))
	}
	for _, f := range s.letters {
		outcome, _ := f.verdict()
		p.line("                   dead letter %s:%d: %s", f.ref.File, f.ref.Line, outcome)
	}
}

// event writes a line with its time of day; the day comes before it when it
// changes.
func (p *lifePrinter) event(at time.Time, format string, a ...any) {
	at = at.UTC()
	if day := at.Format(time.DateOnly); day != p.day {
		p.day = day
		p.line("    %s", day)
	}
	p.line("    %s  %s", at.Format("15:04:05.000Z"), fmt.Sprintf(format, a...))
}

// short writes a duration with as many digits as a person needs.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
