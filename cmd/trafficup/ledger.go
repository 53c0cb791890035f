package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trafficup/internal/config"
	"trafficup/internal/journal"
	"trafficup/internal/uploader"
)

// openLedger begins a run in the ledger of the state directory.
func openLedger(st *state, c Config, runID, command string, now time.Time, warn func(string)) (*journal.Journal, journal.State, error) {
	var urls []string
	for _, u := range []string{c.API.Primary, c.API.Fallback} {
		if u != "" {
			urls = append(urls, config.Shown(u))
		}
	}
	j, found, err := journal.Open(st.ledger(), journal.Options{FS: st.fs, KeyTTL: c.Upload.KeyTTL},
		journal.Run{ID: runID, Command: command, Version: versionString(), URLs: urls, Started: now})
	if err != nil {
		return nil, found, &failure{exitFailed, localHint(err), fmt.Errorf("%w; nothing was sent", err)}
	}
	if earlier, _ := st.fs.ReadDir(st.runs()); found.Segments == 0 && len(earlier) > 0 {
		warn(fmt.Sprintf("the ledger is gone, though %d runs are on record: what they delivered is sent again, under the same keys", len(earlier)))
	}
	for _, d := range found.Torn {
		if d.Bytes > 0 {
			warn(fmt.Sprintf("ledger: a crash cut the last entry short; %d bytes of %s taken off", d.Bytes, filepath.Base(d.File)))
		} else {
			warn(fmt.Sprintf("ledger: %s was empty, as a crash leaves it, and is made anew", filepath.Base(d.File)))
		}
	}
	for _, d := range found.Damaged {
		warn(fmt.Sprintf("ledger: %s is damaged at byte %d, %d bytes skipped (%s): what they said was acked is sent again under the same keys", d.File, d.Offset, d.Bytes, d.Reason))
	}
	if found.Bad > 0 {
		warn(fmt.Sprintf("ledger: %d entries make no sense and were skipped", found.Bad))
	}
	if found.Leap > 0 {
		warn(fmt.Sprintf("the clock is %d days ahead of all that the ledger holds: see that it is right; nothing is forgotten for it", int(found.Leap.Hours()/24)))
	}
	if found.Err != nil {
		warn("ledger: old segments stay: " + found.Err.Error())
	}
	if other := found.Last.URLs; len(other) > 0 && !slices.ContainsFunc(urls, func(u string) bool { return slices.Contains(other, u) }) && found.Acked > 0 {
		warn(fmt.Sprintf("the ledger's acks were given by %s; they count for %s, too. Another API needs another --state-dir", strings.Join(other, " and "), strings.Join(urls, " and ")))
	}
	return j, found, nil
}

// ledger gives a journal the uploader's shape.
type ledger struct{ j *journal.Journal }

func intentOf(r *uploader.Record) journal.Intent {
	return journal.Intent{
		Key: r.Key, SpotID: r.SpotID, Market: r.Market, Station: r.Station, AirDate: r.AirDate,
		File: r.Place.File, FileSHA256: r.Place.SHA256, Line: r.Place.Line, Offset: r.Place.Offset, Body: r.BodySum,
	}
}

var sights = map[journal.Verdict]uploader.Sight{
	journal.New: uploader.SightNew, journal.Duplicate: uploader.SightDuplicate,
	journal.SameKey: uploader.SightSameKey, journal.SameSpot: uploader.SightSameSpot,
}

func (l ledger) Look(r *uploader.Record) uploader.Sighting {
	i := intentOf(r)
	s := l.j.Look(&i)
	return uploader.Sighting{Sight: sights[s.Verdict], Place: uploader.Place{File: s.File, Line: s.Line}, Run: s.Run, Again: s.Again, Refused: s.Refused}
}

func (l ledger) Intend(records []*uploader.Record) error {
	now := time.Now()
	intents := make([]journal.Intent, len(records))
	for n, r := range records {
		intents[n] = intentOf(r)
		intents[n].At = now
	}
	return l.j.Intend(intents)
}

var answerClasses = map[uploader.Class]journal.Class{
	uploader.ClassAcked: journal.Acked, uploader.ClassRetry: journal.Retry, uploader.ClassRejected: journal.Rejected,
	uploader.ClassAuth: journal.Refused, uploader.ClassConfig: journal.Refused,
}

func (l ledger) Answer(r *uploader.Record, a uploader.Attempted, done func(error)) {
	problem := a.Outcome.Problem
	if a.Outcome.Err != nil {
		problem = a.Outcome.Err.Error()
	}
	l.j.Answer(journal.Answer{
		Key: r.Key, Attempt: a.Number, SentAt: a.SentAt, AnsweredAt: a.EndedAt, Path: a.Path,
		Status: a.Outcome.Status, Class: answerClasses[a.Outcome.Class], Wrote: a.Outcome.Wrote,
		Receipt: printable(a.Outcome.Receipt), Problem: printable(problem),
	}, done)
}

func (l ledger) End(r *uploader.Record, e uploader.Ended, done func(error)) {
	l.j.End(journal.End{Key: r.Key, At: time.Now(), Outcome: string(e.Bucket), Reason: printable(e.Reason), Wrote: e.Wrote}, done)
}
