package uploader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Rejections alike in a row are a fault of the run, not of the records; one ack
// in between, or another status, and they are not.
func TestPoisonStop(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(n int) Outcome
		stops  bool
	}{
		"all alike":    {func(int) Outcome { return refused }, true},
		"an ack":       {func(n int) Outcome { return []Outcome{refused, ok}[n%20/19] }, false},
		"two statuses": {func(n int) Outcome { return Outcome{Class: ClassRejected, Status: 400 + n%20/10} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(records(200), nil)
				b.server.answer = func(key string, _ int) Outcome {
					var n int
					if _, err := fmt.Sscanf(key, "key-%d", &n); err != nil {
						panic(err)
					}
					return c.answer(n)
				}
				b.cfg.PoisonStop, b.cfg.Concurrency = 30, 1
				s, err := b.run(context.Background())
				if errors.Is(err, ErrPoison) != c.stops || !s.Balanced() {
					t.Fatalf("%+v, %v", s.Counts, err)
				}
				if c.stops && (s.Rejected != 30 || s.Calls != 30) {
					t.Errorf("%d rejected in %d calls", s.Rejected, s.Calls)
				}
			})
		})
	}
}

// What an earlier run had and the server refuses again is no news.
func TestKnownRecordsAreNoPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(100), func(string, int) Outcome { return refused })
		b.cfg.PoisonStop = 10
		s, err := b.runWith(context.Background(), &familiar{b.journal})
		if err != nil || s.Rejected != 100 {
			t.Fatalf("%+v, %v", s.Counts, err)
		}
	})
}

// familiar has had every record.
type familiar struct{ *notebook }

func (f *familiar) Look(r *Record) Sighting {
	s := f.notebook.Look(r)
	s.Refused = true
	return s
}

// At the start the number of requests in flight doubles step by step.
func TestRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(100), func(string, int) Outcome { return ok })
		b.server.latency, b.cfg.Concurrency, b.cfg.Ramp = time.Hour, 8, time.Second
		soft, stop := context.WithCancel(context.Background())
		hard, abandon := context.WithCancel(context.Background())
		var most []int
		for n := range 5 {
			time.AfterFunc(time.Duration(n)*time.Second+time.Second/2, func() {
				b.server.mu.Lock()
				most = append(most, b.server.most)
				b.server.mu.Unlock()
			})
		}
		time.AfterFunc(time.Minute, func() { stop(); abandon() })
		if _, err := Run(hard, soft, b.cfg, b.parts(b.journal)); !errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
		if !slices.Equal(most, []int{1, 2, 4, 8, 8}) {
			t.Errorf("%v in flight", most)
		}
		// A short run does not wait for it.
		b = newBench(records(1), func(string, int) Outcome { return ok })
		b.cfg.Concurrency, b.cfg.Ramp = 64, time.Minute
		start := time.Now()
		if s, err := b.run(context.Background()); err != nil || s.Acked != 1 || time.Since(start) > time.Second {
			t.Errorf("%+v after %s, %v", s, time.Since(start), err)
		}
	})
}

// A record that was turned away before it was processed is sent again at once,
// at no cost; not for ever.
func TestTurnedAwayIsFree(t *testing.T) {
	away := Outcome{Class: ClassRetry, Verdict: VerdictNeutral, Err: errors.New("server is closing the connection")}
	for turns, acked := range map[int]bool{1: true, 100: false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(records(1), func(_ string, call int) Outcome {
				if call <= turns {
					return away
				}
				return ok
			})
			b.budget.have, b.cfg.MaxAttempts = 0, 1
			s, err := b.run(context.Background())
			if err != nil || (s.Acked == 1) != acked || s.Calls > 2 {
				t.Fatalf("%d turns: %+v, %v", turns, s, err)
			}
		})
	}
}

// A server that asks again and again for more patience than there is does not
// keep a night crawling: another path takes over, and without one the run ends.
func TestImpatience(t *testing.T) {
	patience := Outcome{Class: ClassRetry, Verdict: VerdictFail, Status: 429, Throttled: true, HasRetryAfter: true, RetryAfter: time.Hour}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(200), func(string, int) Outcome { return patience })
		s, err := b.run(context.Background())
		if !errors.Is(err, ErrHalted) || s.Deferred == 0 || s.Deferred > 20 || s.Deferred+s.Halted != s.Read {
			t.Fatalf("alone: %+v, %v", s.Counts, err)
		}
		b = newBench(records(200), func(string, int) Outcome { return patience })
		second := &server{answer: func(string, int) Outcome { return ok }}
		parts := b.parts(b.journal)
		parts.Paths = append(parts.Paths, Path{Name: "second", Sender: second, Breaker: &countingBreaker{threshold: 1 << 30}, Gate: &gate{}, Budget: b.budget})
		s, err = Run(context.Background(), context.Background(), b.cfg, parts)
		if err != nil || s.Acked != 200 || s.CallsByPath["primary"] > 10 {
			t.Fatalf("with another: %+v, %v", s, err)
		}
	})
}

// A configuration fault of one path is not the end while there is another.
func TestOneFaultyPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(50), func(string, int) Outcome {
			return Outcome{Class: ClassConfig, Verdict: VerdictNeutral, Status: 302, Problem: "redirect"}
		})
		b.br.threshold = 4
		second := &server{answer: func(string, int) Outcome { return ok }}
		parts := b.parts(b.journal)
		parts.Paths = append(parts.Paths, Path{Name: "second", Sender: second, Breaker: &countingBreaker{threshold: 1 << 30}, Gate: &gate{}, Budget: b.budget})
		s, err := Run(context.Background(), context.Background(), b.cfg, parts)
		if err != nil || s.Acked != 50 {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}

// When every path is set up wrong, that is the end, and nothing is condemned.
func TestAllPathsFaulty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := func(string, int) Outcome {
			return Outcome{Class: ClassConfig, Verdict: VerdictNeutral, Status: 302, Problem: "redirect"}
		}
		b := newBench(records(50), wrong)
		b.br.threshold = 4
		second := &server{answer: wrong}
		parts := b.parts(b.journal)
		parts.Paths = append(parts.Paths, Path{Name: "second", Sender: second, Breaker: &countingBreaker{threshold: 1 << 30}, Gate: &gate{}, Budget: b.budget})
		s, err := Run(context.Background(), context.Background(), b.cfg, parts)
		if !errors.Is(err, ErrConfig) || s.Halted != s.Read || len(b.shelf.letters) != 0 {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}

// An attempt ends before the deadline by the reserve, and the record it was for
// is deferred.
func TestReserveIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1), func(string, int) Outcome { return ok })
		b.server.latency = time.Minute
		b.cfg.RequestTimeout, b.cfg.Reserve = 10*time.Minute, 2*time.Second
		b.cfg.Deadline = time.Now().Add(30 * time.Second)
		start := time.Now()
		s, err := b.run(context.Background())
		if s.Deferred+s.Unknown != 1 || time.Since(start) > 29*time.Second {
			t.Errorf("%+v after %s, %v", s.Counts, time.Since(start), err)
		}
	})
}

// Shortly before the deadline new records go before those that failed often.
func TestNearTheEndNewRecordsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(40), func(key string, _ int) Outcome {
			if key < "key-000020" {
				return busy
			}
			return ok
		})
		b.server.latency = time.Second
		b.cfg.Concurrency, b.cfg.MaxAttempts, b.cfg.QueueSize = 2, 100, 100
		b.cfg.Waits = doubling{time.Millisecond, time.Millisecond}
		b.cfg.Deadline, b.cfg.NearEnd = time.Now().Add(60*time.Second), time.Minute
		s, err := b.run(context.Background())
		if s.Acked != 20 || s.Deferred+s.Unknown != 20 {
			t.Errorf("%+v, %v", s.Counts, err)
		}
	})
}

// Nor does the scheduler spin when the new records have to wait themselves: in a
// bubble time would stand still.
func TestNearTheEndWithoutBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(40), func(string, int) Outcome { return busy })
		b.server.latency, b.budget.have = time.Second, 3
		b.cfg.Concurrency, b.cfg.MaxAttempts = 2, 100
		b.cfg.Deadline, b.cfg.NearEnd = time.Now().Add(60*time.Second), time.Minute
		if s, err := b.run(context.Background()); !s.Balanced() || s.Acked != 0 {
			t.Errorf("%+v, %v", s.Counts, err)
		}
	})
}

// scripted is a Chooser that prefers what it is told and remembers what it hears.
type scripted struct {
	mu     sync.Mutex
	order  []int
	trial  bool // the first of order
	events []string
}

func (s *scripted) Order(time.Time, float64) ([]int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order), s.trial
}
func (s *scripted) Closed(int, time.Time) (from, to time.Time, ok bool) { return }
func (s *scripted) Refused(path int, _, _ time.Time)                    { s.note("refused %d", path) }
func (s *scripted) Done(path int, v Verdict, bytes int, _ time.Time) {
	s.note("done %d %d %d", path, v, bytes)
}
func (s *scripted) note(format string, a ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, a...))
}

func TestChooserIsAskedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1), func(string, int) Outcome { return ok })
		shut := &countingBreaker{threshold: 1, openUntil: time.Now().Add(time.Hour)}
		second := &server{answer: func(string, int) Outcome { return ok }}
		c := &scripted{order: []int{1, 0}}
		parts := b.parts(b.journal)
		parts.Chooser = c
		parts.Paths = []Path{parts.Paths[0], {Name: "second", Sender: second, Breaker: shut, Gate: &gate{}, Budget: b.budget}}
		s, err := Run(context.Background(), context.Background(), b.cfg, parts)
		if err != nil || s.Acked != 1 || s.CallsByPath["primary"] != 1 || second.total() != 0 {
			t.Fatalf("%+v, %v", s, err)
		}
		if want := []string{"refused 1", fmt.Sprintf("done 0 %d %d", VerdictOK, len(record(0).Record.Body))}; !slices.Equal(c.events, want) {
			t.Errorf("heard %q, want %q", c.events, want)
		}
	})
}

// counted is a Permits with a fixed number.
type counted struct {
	slots    chan struct{}
	mu       sync.Mutex
	released int
	gated    int
}

func (c *counted) Acquire(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *counted) Release(_ Attempted, gated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released++
	if gated {
		c.gated++
	}
	<-c.slots
}

// A path's permits bound what is in flight on it, each comes back, and a stop
// ends the waiting for them.
func TestPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(30), func(key string, call int) Outcome {
			if key == "key-000003" && call == 1 {
				return throttle
			}
			return ok
		})
		b.cfg.Concurrency = 8
		p := &counted{slots: make(chan struct{}, 2)}
		parts := b.parts(b.journal)
		parts.Paths[0].Permits = p
		s, err := Run(context.Background(), context.Background(), b.cfg, parts)
		if err != nil || s.Acked != 30 || b.server.most != 2 || len(p.slots) != 0 || p.released != 31 || p.gated != 1 {
			t.Fatalf("%+v, %v: %d in flight, %d released, %d gated", s, err, b.server.most, p.released, p.gated)
		}
		b = newBench(records(30), func(string, int) Outcome { return ok })
		b.server.latency = time.Hour
		parts = b.parts(b.journal)
		parts.Paths[0].Permits = &counted{slots: make(chan struct{}, 1)}
		soft, stop := context.WithCancel(context.Background())
		hard, abandon := context.WithCancel(context.Background())
		time.AfterFunc(time.Minute, stop)
		time.AfterFunc(2*time.Minute, abandon)
		if s, err := Run(hard, soft, b.cfg, parts); !errors.Is(err, ErrStopped) || !s.Balanced() {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}

// The meter hears of every attempt, and what held it back.
func TestMeterHearsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(5), func(key string, call int) Outcome {
			if key == "key-000002" && call == 1 {
				o := throttle
				o.RetryAfter, o.HasRetryAfter = 3*time.Second, true
				return o
			}
			return ok
		})
		b.cfg.Concurrency = 1
		var heard []Attempted
		parts := b.parts(b.journal)
		parts.Meter = func(a Attempted) { heard = append(heard, a) }
		if s, err := Run(context.Background(), context.Background(), b.cfg, parts); err != nil || int(s.Calls) != len(heard) {
			t.Fatalf("%+v, %v, heard %d", s, err, len(heard))
		}
		gated := time.Duration(0)
		for _, a := range heard {
			gated += a.GateWait
		}
		if gated < 3*time.Second {
			t.Errorf("held back by the gate for %s", gated)
		}
	})
}
