package sandbox

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Scenario is a parsed script of faults. The zero value is a server on which
// nothing goes wrong. A Scenario is never changed by a [Server] and may be
// shared.
//
// The script has one statement a line; `#` starts a comment. Commas and case
// do not matter.
//
//	seed 7                                      which calls are struck; default 1
//	forget keys                                 a server that ignores Idempotency-Key
//	answer 503 [for SHARE] [retry after 5s] [as busy]
//	answer 503 for 2 calls, then 200            of each record
//	each record: 503, reset, lose, 200          one step a call; the last goes on
//	reject 422 for 1% of records [as WORD]      a 4xx, for good
//	lose 1% of answers                          applied, then the connection closes
//	hold 1% of answers for 12s                  applied, answered late
//	reset 1% of calls                           connection reset, nothing applied
//	portal [for SHARE]                          200 text/html, nothing applied
//	limit 200 per second, burst 50, published, retry after 1s
//	delay 230ms [jitter 20ms] [for SHARE]
//
// SHARE is `2% of calls` (each call decided anew), `1% of records` (decided by
// the key alone, so for good) or `all calls`. Each statement may be given a
// window, in front with a colon or at the end without:
//
//	from 10s to 25s: …    from 10s: …    until 5s: …     since the first call
//	after 100 calls: …    for the first 100 calls: …
//
// A limit that is published tells of itself in RateLimit and RateLimit-Policy.
//
// Statements are tried from top to bottom and the first that has something to
// say decides the call; a limit has something to say only when it is used up.
// Delays are added up and come before what was decided. A status of 200 in a
// list of steps means that nothing goes wrong at that step.
type Scenario struct {
	Name string // as given to [Builtin]; not part of the script

	seed       uint64
	forgetKeys bool
	rules      []rule
}

type verb uint8

const (
	verbAnswer verb = iota
	verbReject
	verbSteps
	verbLose
	verbHold
	verbReset
	verbPortal
	verbLimit
	verbDelay
)

// rule is one statement. Which fields count depends on verb.
type rule struct {
	verb       verb
	when       window
	share      share
	status     int
	problem    string        // last part of the problem type; "" is made from the status
	retryAfter time.Duration // whole seconds; noRetryAfter sends no header
	steps      []step
	delay      time.Duration
	jitter     time.Duration
	rate       int
	per        string // second, minute, hour
	burst      int
	published  bool // with verbLimit: every answer tells what is left
}

const noRetryAfter time.Duration = -1

// step is one entry of `each record:`.
type step struct {
	verb   verb // verbAnswer, verbLose, verbReset or verbPortal
	status int  // with verbAnswer; 200 lets the call through
}

// share says which calls a rule strikes. The zero value strikes all.
type share struct {
	percent  float64 // 0 and 100 both mean all
	byRecord bool
}

// window bounds a rule; zero fields do not bound.
type window struct {
	from, to   time.Duration // since the first call, half open: from <= t < to
	afterCalls uint64        // only calls with a higher number
	firstCalls uint64        // only calls up to this number
}

// covers reports whether the call with this number (from 1), at this time
// since the first call, lies inside.
func (w window) covers(elapsed time.Duration, number uint64) bool {
	return elapsed >= w.from && (w.to == 0 || elapsed < w.to) &&
		number > w.afterCalls && (w.firstCalls == 0 || number <= w.firstCalls)
}

// String returns the script in a canonical form that parses to the same
// scenario.
func (s Scenario) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", s.seed)
	if s.forgetKeys {
		b.WriteString("forget keys\n")
	}
	for _, r := range s.rules {
		b.WriteString(r.when.String())
		b.WriteString(r.String())
		b.WriteByte('\n')
	}
	return b.String()
}

func (w window) String() string {
	switch {
	case w.afterCalls > 0:
		return fmt.Sprintf("after %d calls: ", w.afterCalls)
	case w.firstCalls > 0:
		return fmt.Sprintf("for the first %d calls: ", w.firstCalls)
	case w.to > 0:
		return fmt.Sprintf("from %v to %v: ", w.from, w.to)
	case w.from > 0:
		return fmt.Sprintf("from %v: ", w.from)
	}
	return ""
}

func (s share) String() string {
	unit := "calls"
	if s.byRecord {
		unit = "records"
	}
	if s.percent == 0 {
		return "all " + unit
	}
	return strconv.FormatFloat(s.percent, 'f', -1, 64) + "% of " + unit
}

func (r rule) String() string {
	var b strings.Builder
	switch r.verb {
	case verbAnswer, verbReject:
		verb := "answer"
		if r.verb == verbReject {
			verb = "reject"
		}
		fmt.Fprintf(&b, "%s %d for %v", verb, r.status, r.share)
	case verbSteps:
		b.WriteString("each record:")
		for i, s := range r.steps {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(" " + s.String())
		}
	case verbLose:
		fmt.Fprintf(&b, "lose %v", r.share)
	case verbHold:
		fmt.Fprintf(&b, "hold %v for %v", r.share, r.delay)
	case verbReset:
		fmt.Fprintf(&b, "reset %v", r.share)
	case verbPortal:
		fmt.Fprintf(&b, "portal for %v", r.share)
	case verbLimit:
		fmt.Fprintf(&b, "limit %d per %s, burst %d", r.rate, r.per, r.burst)
		if r.published {
			b.WriteString(", published")
		}
	case verbDelay:
		fmt.Fprintf(&b, "delay %v jitter %v for %v", r.delay, r.jitter, r.share)
	}
	if r.retryAfter != noRetryAfter {
		fmt.Fprintf(&b, " retry after %v", r.retryAfter)
	}
	if r.problem != "" {
		fmt.Fprintf(&b, " as %s", r.problem)
	}
	return b.String()
}

func (s step) String() string {
	switch s.verb {
	case verbLose:
		return "lose"
	case verbReset:
		return "reset"
	case verbPortal:
		return "portal"
	default:
		return strconv.Itoa(s.status)
	}
}
