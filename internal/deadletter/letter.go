// Package deadletter keeps the records that could not be delivered: one letter
// a line, with the exact bytes of the record, why it was not delivered and
// what was tried. A letter is on disk before its record counts as handled.
package deadletter

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
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
	Source         Source     `json:"source"`
	Status         int        `json:"status"`
	Problem        string     `json:"problem"` // at most 1 KiB
	Attempts       []Attempt  `json:"attempts"`
	OutcomeUnknown bool       `json:"outcome_unknown"`
	NotBefore      *time.Time `json:"not_before"`
	Run            string     `json:"run"`
	Generation     int        `json:"generation"`
	Version        string     `json:"version"`
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

// encode returns the letter as one line. The envelope is spliced in as it is:
// an encoder may reformat what it is given.
func (l *Letter) encode() ([]byte, error) {
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
