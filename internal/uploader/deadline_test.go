package uploader

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// slow answers after latency, and calls what ends before that a timeout of the path.
type slow struct {
	latency time.Duration
	unsent  bool // what ends early was not written
}

func (s slow) Send(ctx context.Context, _ Attempt) Outcome {
	select {
	case <-time.After(s.latency):
		return ok
	case <-ctx.Done():
		return Outcome{Class: ClassRetry, Verdict: VerdictFail, Wrote: !s.unsent, Err: errors.New("timed out: no full answer within 10s")}
	}
}

// ear is an Observer and a Meter that remember.
type ear struct {
	mu       sync.Mutex
	attempts []Attempted
	faults   []string
	slow     time.Duration // that hearing of a fault takes
}

func (e *ear) meter(a Attempted) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attempts = append(e.attempts, a)
}

func (e *ear) Event(v Event) {
	if v.Level != Critical {
		return
	}
	time.Sleep(e.slow)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = append(e.faults, v.Message)
}

// An attempt that the deadline ends says nothing about the path, in whatever words
// the sender puts it; the record is unknown only if it may have arrived.
func TestCutIsNoNews(t *testing.T) {
	for name, c := range map[string]struct {
		unsent bool
		want   Counts
	}{
		"written":     {false, Counts{Read: 8, Acked: 6, Unknown: 2}},
		"not written": {true, Counts{Read: 8, Acked: 6, Deferred: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(records(8), nil)
				// The first intents take 1 ms of it, or 2.
				b.cfg.Concurrency, b.cfg.Deadline, b.br.threshold = 2, time.Now().Add(5*time.Second), 1
				e, before := new(ear), b.budget.have
				p := &counted{slots: make(chan struct{}, 2)}
				parts := b.parts(b.journal)
				parts.Meter, parts.Paths[0].Sender, parts.Paths[0].Permits = e.meter, slow{1500 * time.Millisecond, c.unsent}, p
				s, err := Run(context.Background(), context.Background(), b.cfg, parts)
				if s.Counts != c.want || len(b.journal.wrong) > 0 {
					t.Fatalf("%+v, %v, %v", s.Counts, err, b.journal.wrong)
				}
				if b.br.failures != 0 || b.br.opened != 0 || b.budget.have != before || p.gated != 2 || len(p.slots) != 0 {
					t.Errorf("%d failures, opened %d times, budget %v of %v, %d permits without a word", b.br.failures, b.br.opened, b.budget.have, before, p.gated)
				}
				for n, a := range e.attempts {
					if a.Cut != (n >= 6) || a.Cut && (!errors.Is(a.Outcome.Err, ErrCut) || !nearlyHalf(a.Outcome.Err.Error()) || a.Outcome.Verdict != VerdictNeutral) {
						t.Errorf("attempt %d: cut %v, %+v", n, a.Cut, a.Outcome)
					}
				}
				for _, l := range b.shelf.letters {
					if l.Problem != ErrCut.Error() || l.OutcomeUnknown == c.unsent || len(l.History) != 1 || !nearlyHalf(l.History[0].Error) {
						t.Errorf("%+v", l)
					}
				}
			})
		})
	}
}

func nearlyHalf(text string) bool {
	return text == "cut off by the deadline after 499ms" || text == "cut off by the deadline after 498ms"
}

// One that takes all the time a path is given anywhere is the path's fault, also
// near the deadline.
func TestTimeoutIsNoCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1), nil)
		b.cfg.RequestTimeout, b.cfg.Deadline, b.cfg.MaxAttempts = 2*time.Second, time.Now().Add(3*time.Second), 1
		e := new(ear)
		parts := b.parts(b.journal)
		parts.Meter, parts.Paths[0].Sender = e.meter, slow{latency: time.Minute}
		if s, err := Run(context.Background(), context.Background(), b.cfg, parts); b.br.failures != 1 || len(e.attempts) != 1 || e.attempts[0].Cut {
			t.Errorf("%+v, %v: %d failures, %+v", s.Counts, err, b.br.failures, e.attempts)
		}
	})
}

// Once it is known how long an answer takes, nothing starts that would not have
// one, and the run ends instead of putting down all that is left of the input.
func TestNoStartWithoutTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1000), nil)
		b.cfg.Concurrency, b.cfg.Deadline, b.cfg.Reserve = 2, time.Now().Add(40*time.Second), 2*time.Second
		start, e := time.Now(), new(ear)
		parts := b.parts(b.journal)
		parts.Meter, parts.Paths[0].Sender = e.meter, slow{latency: 1500 * time.Millisecond}
		s, err := Run(context.Background(), context.Background(), b.cfg, parts)
		if !errors.Is(err, ErrDeadline) || !strings.HasSuffix(err.Error(), "; the rest of the input was not read") {
			t.Error(err)
		}
		// 38 s are 25 rounds of 1.5 s: the last ends at 37.5 s.
		if s.Acked != 50 || s.Calls != 50 || s.Acked+s.Deferred != s.Read || s.Read > 50+22 {
			t.Errorf("%+v in %d calls", s.Counts, s.Calls)
		}
		if d := time.Since(start); d > 38*time.Second {
			t.Errorf("over after %s", d)
		}
		for _, a := range e.attempts {
			if a.Cut {
				t.Errorf("%+v", a)
			}
		}
	})
}

// now and then tries the second path.
type now struct {
	scripted
	n int
}

func (c *now) Order(time.Time, float64) ([]int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n%50 == 0 {
		return []int{1, 0}, true
	}
	return []int{0, 1}, false
}

// A slow path that is tried now and then does not end the run for the quick one.
func TestSlowPathDoesNotEndTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(6000), nil)
		b.cfg.Concurrency, b.cfg.Deadline = 10, time.Now().Add(60*time.Second)
		e, end := new(ear), b.cfg.Deadline
		parts := b.parts(b.journal)
		parts.Meter, parts.Chooser = e.meter, new(now)
		parts.Paths[0].Sender = slow{latency: 100 * time.Millisecond}
		parts.Paths = append(parts.Paths, Path{Name: "second", Sender: slow{latency: 8 * time.Second}, Breaker: b.br, Gate: b.gate, Budget: b.budget})
		s, err := Run(context.Background(), context.Background(), b.cfg, parts)
		last := e.attempts[len(e.attempts)-1]
		if !s.Balanced() || s.Unknown != 0 || s.Deferred == 0 || end.Sub(last.EndedAt) > 200*time.Millisecond || s.CallsByPath["second"] < enoughAnswers {
			t.Errorf("%+v, %v, the last answer %s before the end", s.Counts, err, end.Sub(last.EndedAt))
		}
	})
}

// Whenever the deadline comes: what may have been written ends unknown unless it
// was acked, what was not ends deferred, and the breaker hears nothing of it.
func TestDeadlineNeverHidesWhatWasSent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		deadline := time.Duration(rapid.IntRange(1, 20_000).Draw(rt, "deadline")) * time.Millisecond
		latency := time.Duration(rapid.IntRange(1, 3_000).Draw(rt, "latency")) * time.Millisecond
		reserve := deadline / time.Duration(rapid.IntRange(2, 50).Draw(rt, "reserve"))
		workers := rapid.IntRange(1, 8).Draw(rt, "workers")
		// 50 ms are for what is put down, which takes 1 ms a batch.
		synctest.Test(t, func(t *testing.T) {
			b := newBench(records(100), nil)
			b.cfg.Concurrency, b.cfg.Reserve, b.cfg.Deadline = workers, reserve, time.Now().Add(deadline)
			parts := b.parts(b.journal)
			parts.Paths[0].Sender = slow{latency: latency}
			start := time.Now()
			s, err := Run(context.Background(), context.Background(), b.cfg, parts)
			if !s.Balanced() || s.Calls != s.Acked+s.Unknown || s.Halted+s.Exhausted != 0 || b.br.failures != 0 || time.Since(start) > deadline+50*time.Millisecond {
				t.Errorf("%+v in %d calls, %d failures, %s of %s, %v", s.Counts, s.Calls, b.br.failures, time.Since(start), deadline, err)
			}
		})
	})
}

// A fault that all who are in flight meet is told once.
func TestFaultIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(100), func(string, int) Outcome { return Outcome{Class: ClassAuth, Status: 401} })
		b.cfg.Concurrency = 8
		e := &ear{slow: time.Second} // while it is told, the others meet it
		parts := b.parts(b.journal)
		parts.Observer = e
		if s, err := Run(context.Background(), context.Background(), b.cfg, parts); !errors.Is(err, ErrAuth) || s.Calls < 8 || len(e.faults) != 1 {
			t.Errorf("%+v, %v: %q", s, err, e.faults)
		}
	})
}
