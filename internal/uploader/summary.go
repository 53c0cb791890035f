package uploader

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"trafficup/internal/histogram"
)

// Counts is what became of the records that were read.
type Counts struct {
	Read      int64 `json:"read"`
	Acked     int64 `json:"acked"`
	Duplicate int64 `json:"duplicate"`
	Invalid   int64 `json:"invalid"`
	Rejected  int64 `json:"rejected"`
	Conflict  int64 `json:"conflict"`
	Exhausted int64 `json:"exhausted"`
	Deferred  int64 `json:"deferred"`
	Halted    int64 `json:"halted"`
	Unknown   int64 `json:"unknown"`
}

// Summary is the result of a run.
type Summary struct {
	Counts
	AckedBefore    int64 // of the duplicates, those that an earlier run delivered
	Calls          int64 // that the server may have seen
	TurnedAway     int64 // beside these, requests that it certainly did not process
	Retries        int64
	Throttled      int64
	CallsByPath    map[string]int64
	Latency        Latency
	Reasons        []Reason // most frequent first
	Faults         []error  // of whole files
	LettersLost    int64
	Duration       time.Duration
	DeadlineMargin time.Duration // left at the end; 0 without a deadline
	inputEnded     bool
}

// Reason groups records that ended the same way.
type Reason struct {
	Bucket Bucket
	Text   string
	Count  int64
	First  Place // of the first of them: file and line
}

// Latency is the time from the first byte written to the answer read.
type Latency struct{ P50, P95, P99, Max time.Duration }

// Balanced reports whether every record read ended in exactly one bucket.
func (s Summary) Balanced() bool {
	c := s.Counts
	return c.Read == c.Acked+c.Duplicate+c.Invalid+c.Rejected+c.Conflict+c.waiting()
}

// Amplification is calls per record that was sent at least once; 0 without any.
func (s Summary) Amplification() float64 {
	if first := s.Calls - s.Retries; first > 0 {
		return float64(s.Calls) / float64(first)
	}
	return 0
}

// InputEnded reports whether the whole input was read.
func (s Summary) InputEnded() bool { return s.inputEnded }

// waiting counts records that another run can deliver.
func (c Counts) waiting() int64 { return c.Exhausted + c.Deferred + c.Halted + c.Unknown }

// Waiting counts records that another run can deliver.
func (s Summary) Waiting() int64 { return s.waiting() }

// Refused counts records that need a person.
func (s Summary) Refused() int64 { return s.Invalid + s.Rejected + s.Conflict }

// tally collects a Summary. It is safe for concurrent use.
type tally struct {
	mu      sync.Mutex
	s       Summary // guarded by mu
	reasons map[reason]*Reason
	hist    histogram.Histogram
}

type reason struct {
	bucket Bucket
	text   string
}

// maxReasons bounds the table of reasons: a server that makes up a new text
// for each record must not fill the memory.
const maxReasons = 200

func (t *tally) read() {
	t.mu.Lock()
	t.s.Read++
	t.mu.Unlock()
}

func (t *tally) endOfInput() {
	t.mu.Lock()
	t.s.inputEnded = true
	t.mu.Unlock()
}

func (t *tally) fault(err error) {
	t.mu.Lock()
	t.s.Faults = append(t.s.Faults, err)
	t.mu.Unlock()
}

// ackedBefore counts a duplicate that an earlier run delivered.
func (t *tally) ackedBefore() {
	t.mu.Lock()
	t.s.AckedBefore++
	t.mu.Unlock()
}

func (t *tally) letterLost() {
	t.mu.Lock()
	t.s.LettersLost++
	t.mu.Unlock()
}

func (t *tally) call(p *Path, out Outcome, retry bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s.Calls++
	if retry {
		t.s.Retries++
	}
	if out.Throttled {
		t.s.Throttled++
	}
	if t.s.CallsByPath == nil {
		t.s.CallsByPath = map[string]int64{}
	}
	t.s.CallsByPath[p.Name]++
	if out.Status != 0 {
		t.hist.Add(out.Duration)
	}
}

func (t *tally) turnedAway() {
	t.mu.Lock()
	t.s.TurnedAway++
	t.mu.Unlock()
}

func (t *tally) end(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := e.Message
	switch e.Bucket {
	case Acked:
		t.s.Acked++
		return
	case Duplicate:
		t.s.Duplicate++
		return // said by the sums
	case Invalids:
		t.s.Invalid++
	case Rejected:
		t.s.Rejected++
	case Conflict:
		t.s.Conflict++
		text = "contradicts an earlier record"
	case Exhausted:
		t.s.Exhausted++
	case Deferred:
		t.s.Deferred++
	case Halted:
		t.s.Halted++
	case Unknown:
		t.s.Unknown++
	}
	if t.reasons == nil {
		t.reasons = map[reason]*Reason{}
	}
	key := reason{e.Bucket, text}
	if _, known := t.reasons[key]; !known && len(t.reasons) >= maxReasons {
		key.text = "other reasons"
	}
	r := t.reasons[key]
	if r == nil {
		r = &Reason{Bucket: key.bucket, Text: key.text, First: Place{File: e.File, Line: e.Line}}
		t.reasons[key] = r
	}
	r.Count++
}

func (t *tally) summary(d time.Duration, deadline time.Time) Summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.s
	for _, r := range t.reasons {
		s.Reasons = append(s.Reasons, *r)
	}
	slices.SortFunc(s.Reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Text, b.Text))
	})
	s.Latency = Latency{t.hist.Quantile(.5), t.hist.Quantile(.95), t.hist.Quantile(.99), t.hist.Max()}
	s.Duration = d
	if !deadline.IsZero() {
		s.DeadlineMargin = time.Until(deadline)
	}
	return s
}
