// Package deadletter keeps the records that could not be delivered: one letter
// a line, with the exact bytes of the record, why it was not delivered and
// what was tried. A letter is on disk before its record counts as handled.
//
// Every run writes a file of its own (Writer). Files are read one by one
// (Reader) or together (Scanner), which also tells which of several letters of
// one record counts. A letter that is done with moves to archive/ (Settle); at
// every moment it is in at least one of the two places.
package deadletter

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Letter is one record that was not delivered.
type Letter struct {
	V        int            `json:"v"`
	Reason   string         `json:"reason"`
	Envelope jsontext.Value `json:"envelope"` // exact bytes, or null
	Details
}

// Details is what a letter holds beside the record.
type Details struct {
	Raw            []byte     `json:"raw_base64,omitzero"` // exact bytes where a line of JSON cannot carry them
	SpotID         string     `json:"spot_id"`
	Key            string     `json:"idempotency_key"`
	Body           string     `json:"body,omitzero"` // what was posted: "envelope", or else the payload
	Source         Source     `json:"source"`
	Status         int        `json:"status"`
	Problem        string     `json:"problem"` // at most 1 KiB
	Attempts       []Attempt  `json:"attempts"`
	OutcomeUnknown bool       `json:"outcome_unknown"`
	NotBefore      *time.Time `json:"not_before"`
	Run            string     `json:"run"`
	Generation     int        `json:"generation"`
	Version        string     `json:"version"`
	Dropped        *Note      `json:"dropped,omitzero"` // in the archive only
}

// Note says when and why a person gave a letter up.
type Note struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"`
}

// Source says where the record was read first.
type Source struct {
	File   string `json:"file"`
	Line   int64  `json:"line"`
	Offset int64  `json:"offset"`
	SHA256 string `json:"sha256"`
}

// Attempt is one call made for the record.
type Attempt struct {
	At     time.Time `json:"at"`
	Path   string    `json:"path"`
	Status int       `json:"status"`
	Error  string    `json:"error,omitzero"`
	WaitMS int64     `json:"wait_ms"`
}

// version is the format written; a reader refuses any other.
const version = 1

// maxProblem bounds what is kept of an answer, in bytes.
const maxProblem = 1 << 10

// ErrFormat is wrapped by every error about a line that is not a letter.
var ErrFormat = errors.New("not a dead letter")

// ErrTorn is wrapped by the error about a last line that is no letter and has
// no end: what a crash left of one. Its record never counted as handled.
var ErrTorn = errors.New("cut off by a crash: its record is not handled yet, and comes again with its input")

// SetRecord stores the exact bytes of a record: as the envelope when they are
// one line of JSON, in base64 otherwise.
func (l *Letter) SetRecord(raw []byte) {
	v := jsontext.Value(raw)
	oneLine := utf8.Valid(raw) && v.IsValid()
	for _, b := range raw {
		if b == '\n' || b == '\r' {
			oneLine = false
		}
	}
	if oneLine && v.Kind() == '{' {
		l.Envelope, l.Raw = v, nil
		return
	}
	l.Envelope, l.Raw = nil, raw
}

// Record returns the exact bytes of the record, nil when the letter has none.
func (l *Letter) Record() []byte {
	if l.Raw != nil {
		return l.Raw
	}
	if l.Envelope.Kind() == 'n' {
		return nil
	}
	return l.Envelope
}

// Station is the station of the record; empty when it names none, or cannot be
// read.
func (l *Letter) Station() string {
	var r struct {
		Station string `json:"station"`
	}
	if json.Unmarshal(l.Record(), &r) != nil {
		return ""
	}
	return r.Station
}

// Time is when the record was given up: at its last attempt, else in the second
// its run began. It is zero when the letter says neither.
func (l *Letter) Time() time.Time {
	if n := len(l.Attempts); n > 0 {
		return l.Attempts[n-1].At
	}
	return l.runTime()
}

// FirstSent is when the record was sent first; ok is false for one that never
// was.
func (l *Letter) FirstSent() (at time.Time, ok bool) {
	if len(l.Attempts) == 0 {
		return time.Time{}, false
	}
	// A clock may have been set back in between.
	at = slices.MinFunc(l.Attempts, func(a, b Attempt) int { return a.At.Compare(b.At) }).At
	if at.IsZero() {
		at = l.runTime()
	}
	return at, true
}

// runLayout is how the name of a run begins.
const runLayout = "20060102T150405Z"

func (l *Letter) runTime() time.Time {
	t, err := time.Parse(runLayout, l.Run[:min(len(l.Run), len(runLayout))])
	if err != nil {
		return time.Time{}
	}
	return t
}

// Encode returns the letter as one line, with its end. The envelope is spliced
// in as it is: an encoder may reformat what it is given.
func (l *Letter) Encode() ([]byte, error) {
	type head struct {
		V      int    `json:"v"`
		Reason string `json:"reason"`
	}
	// What a server or a broken file said may be any bytes.
	lax := jsontext.AllowInvalidUTF8(true)
	h, err := json.Marshal(head{version, l.Reason}, lax)
	if err != nil {
		return nil, err
	}
	d := l.Details
	d.Problem = clip(d.Problem, maxProblem)
	t, err := json.Marshal(d, lax)
	if err != nil {
		return nil, err
	}
	env := []byte(l.Envelope)
	if env == nil {
		env = []byte("null")
	}
	line := append(h[:len(h)-1], `,"envelope":`...)
	line = append(append(line, env...), ',')
	return append(append(line, t[1:]...), '\n'), nil
}

// decode reads one line.
func decode(line []byte) (Letter, error) {
	var l Letter
	if err := json.Unmarshal(line, &l, json.RejectUnknownMembers(false)); err != nil {
		return l, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if l.V != version {
		return l, fmt.Errorf("%w: version %d, this program reads version %d", ErrFormat, l.V, version)
	}
	if l.Record() == nil {
		return l, fmt.Errorf("%w: it holds no record", ErrFormat)
	}
	return l, nil
}

// clip cuts s to at most n bytes at a character's border.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
