// Package breaker is a circuit breaker whose state outlives the process and may
// be shared between processes.
//
// The state is a value; [Config.Allow] and [Config.Record] are pure functions
// from one value to the next, and a [Store] changes it only by applying such a
// function to what it holds, as one step. So one state machine serves memory, a
// file and a shared server. [Breaker] joins the two and keeps a short-lived
// copy, because nearly all calls change nothing.
//
// The breaker judges a path, not a record, and knows three verdicts. A neutral
// one (the caller gave up, the record was refused) says nothing about the path:
// it neither closes nor opens anything.
package breaker

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"time"
)

// Verdict is what the end of a request says about the path.
type Verdict int

// The verdicts.
const (
	OK Verdict = iota
	Fail
	Neutral
)

// Phase is where a breaker stands. The numbers are those of the metric
// trafficup_breaker_state.
type Phase int

// The phases.
const (
	Closed   Phase = 0 // requests pass
	HalfOpen Phase = 1 // one request at a time passes, as a probe
	Open     Phase = 2 // none passes until a time
)

// String returns "closed", "half-open" or "open".
func (p Phase) String() string {
	switch p {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half-open"
	case Open:
		return "open"
	}
	return fmt.Sprintf("phase %d", int(p))
}

// State is all a breaker knows. It is comparable, survives JSON unchanged
// (times are UTC without a monotonic reading), and its zero value is a closed
// breaker that never failed.
type State struct {
	Phase        Phase       `json:"phase"`
	Failures     int         `json:"failures,omitzero"`      // consecutive, while closed
	FirstFailure time.Time   `json:"first_failure,omitzero"` // of those counted
	OpenUntil    time.Time   `json:"open_until,omitzero"`    // zero when an operator opened it
	ProbeUntil   time.Time   `json:"probe_until,omitzero"`   // end of the lease of the probe under way
	Opens        int         `json:"opens,omitzero"`         // in a row, without a success between
	Generation   uint64      `json:"generation,omitzero"`    // changes with each phase and each probe
	Since        time.Time   `json:"since,omitzero"`         // of the last change of phase
	Transitions  Transitions `json:"transitions,omitzero"`
	Changes      Changes     `json:"changes,omitzero"` // of late, to open and to closed
	Force        Force       `json:"force,omitzero"`   // zero: nobody forces it
}

// Transitions counts changes of phase by where they led.
type Transitions struct {
	Closed   uint64 `json:"closed,omitzero"`
	HalfOpen uint64 `json:"half_open,omitzero"`
	Open     uint64 `json:"open,omitzero"`
}

// UnmarshalJSONFrom reads a state whose times may be written in any zone. One
// that could not be written again, for its year, is as good as none.
func (s *State) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type bare State
	var b bare
	if err := json.UnmarshalDecode(dec, &b); err != nil {
		return err
	}
	for _, t := range []*time.Time{&b.FirstFailure, &b.OpenUntil, &b.ProbeUntil, &b.Since, &b.Force.At, &b.Force.Until} {
		*t = readable(*t)
	}
	*s = State(b)
	return nil
}

// readable returns t in its plain form, or zero.
func readable(t time.Time) time.Time {
	if t = plain(t); t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// enter returns s in phase p, as a new generation.
func (s State) enter(p Phase, now time.Time) State {
	s.Phase, s.Since = p, now
	s.Failures, s.FirstFailure = 0, time.Time{}
	s.OpenUntil, s.ProbeUntil = time.Time{}, time.Time{}
	s.Generation++
	switch p {
	case Closed:
		s.Opens = 0
		s.Transitions.Closed++
	case HalfOpen:
		s.Transitions.HalfOpen++
	case Open:
		s.Transitions.Open++
	}
	return s
}
