package uploader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/envelope"
)

// feed yields n records, then EOF, and remembers how far it was read.
type feed struct {
	items []Item
	mu    sync.Mutex
	next  int
}

func (f *feed) Next(context.Context) (Item, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == len(f.items) {
		return Item{}, io.EOF
	}
	f.next++
	return f.items[f.next-1], nil
}

func (f *feed) taken() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next
}

func record(n int) Item {
	key := fmt.Sprintf("key-%06d", n)
	return Item{Record: Record{
		Record: envelope.Record{SpotID: fmt.Sprintf("S%d", n), Key: key, Body: []byte(`{"n":"` + key + `"}`)},
		Place:  Place{File: "night.ndjson", Line: int64(n + 1)},
	}}
}

func records(n int) *feed {
	f := &feed{}
	for i := range n {
		f.items = append(f.items, record(i))
	}
	return f
}

// server answers by a script and counts.
type server struct {
	answer  func(key string, call int) Outcome
	latency time.Duration

	mu       sync.Mutex
	calls    map[string]int
	times    []time.Time
	bodies   map[string]string
	inFlight int
	most     int
}

func (s *server) Send(ctx context.Context, a Attempt) Outcome {
	s.mu.Lock()
	if s.calls == nil {
		s.calls, s.bodies = map[string]int{}, map[string]string{}
	}
	s.calls[a.Key]++
	call := s.calls[a.Key]
	s.times = append(s.times, time.Now())
	if old, ok := s.bodies[a.Key]; ok && old != string(a.Body) {
		panic("the bytes of " + a.Key + " changed between attempts")
	}
	s.bodies[a.Key] = string(a.Body)
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.inFlight--
		s.mu.Unlock()
	}()
	select {
	case <-time.After(s.latency):
	case <-ctx.Done():
		return Outcome{Class: ClassRetry, Verdict: VerdictNeutral, Wrote: true, Err: ctx.Err()}
	}
	return s.answer(a.Key, call)
}

func (s *server) total() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.times) }

var (
	ok       = Outcome{Class: ClassAcked, Status: 201}
	busy     = Outcome{Class: ClassRetry, Verdict: VerdictFail, Status: 503}
	refused  = Outcome{Class: ClassRejected, Status: 422, Problem: "bad house number"}
	lost     = Outcome{Class: ClassRetry, Verdict: VerdictFail, Wrote: true, Err: io.ErrUnexpectedEOF}
	throttle = Outcome{Class: ClassRetry, Verdict: VerdictFail, Status: 429, Throttled: true}
)

// shelf keeps letters in memory, or refuses them.
type shelf struct {
	mu      sync.Mutex
	letters []Letter
	err     error
}

func (s *shelf) Write(l Letter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.letters = append(s.letters, l)
	return nil
}

// gate and budget as simple as their contracts.
type gate struct {
	mu    sync.Mutex
	until time.Time
}

func (g *gate) Close(until, _ time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		g.until = until
	}
}

func (g *gate) Delay(now time.Time, _ float64) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until.Sub(now)
}

type budget struct {
	mu    sync.Mutex
	ratio float64
	have  float64
}

func (b *budget) Spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.have < 1 {
		return false
	}
	b.have--
	return true
}
func (b *budget) Earn()              { b.mu.Lock(); b.have += b.ratio; b.mu.Unlock() }
func (b *budget) Remaining() float64 { b.mu.Lock(); defer b.mu.Unlock(); return b.have }

// countingBreaker opens for openFor after threshold failures in a row.
type countingBreaker struct {
	mu        sync.Mutex
	threshold int
	openFor   time.Duration
	failures  int
	openUntil time.Time
	opened    int
}

func (b *countingBreaker) Allow(now time.Time) (func(Verdict, time.Time), time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.openUntil) {
		return nil, b.openUntil, false
	}
	return func(v Verdict, now time.Time) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch v {
		case VerdictOK:
			b.failures = 0
		case VerdictFail:
			if b.failures++; b.failures >= b.threshold && !now.Before(b.openUntil) {
				b.openUntil = now.Add(b.openFor)
				b.opened++
			}
		}
	}, time.Time{}, true
}

type doubling struct{ base, cap time.Duration }

func (d doubling) Wait(n int, u float64) time.Duration {
	w := d.base << min(n-1, 20)
	return max(time.Millisecond, time.Duration(u*float64(min(w, d.cap))))
}

type bench struct {
	feed    *feed
	journal *notebook
	server  *server
	shelf   *shelf
	cfg     Config
	br      *countingBreaker
	budget  *budget
	gate    *gate
}

func newBench(f *feed, answer func(string, int) Outcome) *bench {
	return &bench{
		feed: f, journal: newNotebook(), server: &server{answer: answer, latency: 10 * time.Millisecond}, shelf: &shelf{},
		br: &countingBreaker{threshold: 1 << 30, openFor: 30 * time.Second}, budget: &budget{have: 1e9}, gate: &gate{},
		cfg: Config{
			Concurrency: 4, QueueSize: 20, MaxAttempts: 5, MaxThrottles: 30, RequestTimeout: 10 * time.Second,
			RetryAfterCap: time.Minute, HaltAfter: 5 * time.Minute, IntakeGap: 100 * time.Millisecond,
			Waits: doubling{500 * time.Millisecond, 20 * time.Second},
		},
	}
}

func (b *bench) run(soft context.Context) (Summary, error) {
	s, err := b.runWith(soft, b.journal)
	if err == nil && len(b.journal.wrong) > 0 {
		err = errors.New(strings.Join(b.journal.wrong, ", "))
	}
	return s, err
}

func (b *bench) runWith(soft context.Context, j Journal) (Summary, error) {
	return Run(context.Background(), soft, b.cfg, b.parts(j))
}

func (b *bench) parts(j Journal) Parts {
	return Parts{
		Feed: b.feed, Journal: j, DeadLetters: b.shelf, Rand: func() float64 { return 0.5 },
		Paths: []Path{{Name: "primary", Sender: b.server, Breaker: b.br, Gate: b.gate, Budget: b.budget}},
	}
}

func TestOneRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1), func(_ string, call int) Outcome {
			if call == 1 {
				return busy
			}
			return ok
		})
		s, err := b.run(context.Background())
		if err != nil || s.Acked != 1 || s.Retries != 1 || s.Calls != 2 {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}

func TestRejectedIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(3), func(key string, _ int) Outcome {
			if key == "key-000001" {
				return refused
			}
			return ok
		})
		s, err := b.run(context.Background())
		if err != nil || s.Acked != 2 || s.Rejected != 1 || s.Calls != 3 || len(b.shelf.letters) != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
		if l := b.shelf.letters[0]; l.Reason != Rejected || l.Status != 422 || l.Record.Key != "key-000001" || len(l.History) != 1 {
			t.Fatalf("letter %+v", l)
		}
	})
}

func TestInFlightNeverExceedsConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(200), func(_ string, call int) Outcome {
			if call == 1 {
				return busy
			}
			return ok
		})
		if s, err := b.run(context.Background()); err != nil || s.Acked != 200 {
			t.Fatalf("%+v, %v", s, err)
		}
		if b.server.most != 4 {
			t.Fatalf("%d requests in flight, want 4", b.server.most)
		}
	})
}

func TestSmallQueueMakesTheReaderWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(100), func(string, int) Outcome { return ok })
		b.cfg.QueueSize, b.cfg.Concurrency = 1, 1
		b.server.latency = time.Second
		done := make(chan struct{})
		go func() { b.run(context.Background()); close(done) }()
		time.Sleep(10*time.Second + 500*time.Millisecond)
		// 10 done, 1 in flight, 1 in the window, 1 in the reader's hand.
		if n := b.feed.taken(); n > 13 {
			t.Errorf("%d records read after 10 were delivered", n)
		}
		<-done
	})
}

// A waiting record holds no permit: 2000 records, a fifth of them told to wait
// 30 s, take far less than they would if 16 workers slept.
func TestPermitIsReleasedDuringBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(2000), nil)
		b.cfg.Concurrency, b.cfg.QueueSize = 16, 200
		b.cfg.Waits = fixed(30 * time.Second)
		b.server.latency = 600 * time.Millisecond
		n := 0
		for i := range b.feed.items {
			if i%5 == 0 {
				n++
			}
		}
		slow := map[string]bool{}
		for i := 0; i < 2000; i += 5 {
			slow[fmt.Sprintf("key-%06d", i)] = true
		}
		b.server.answer = func(key string, call int) Outcome {
			if slow[key] && call == 1 {
				return busy
			}
			return ok
		}
		start := time.Now()
		if s, err := b.run(context.Background()); err != nil || s.Acked != 2000 {
			t.Fatalf("%+v, %v", s, err)
		}
		if d := time.Since(start); d > 4*time.Minute {
			t.Fatalf("took %s of virtual time", d)
		}
	})
}

type fixed time.Duration

func (f fixed) Wait(int, float64) time.Duration { return time.Duration(f) }

func TestOpenBreakerSendsNothingThenHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1000), func(string, int) Outcome { return busy })
		b.br.threshold = 8
		b.br.openFor = time.Hour
		start := time.Now()
		s, err := b.run(context.Background())
		if !errors.Is(err, ErrHalted) {
			t.Fatalf("%+v, %v", s, err)
		}
		// The requests in flight when the eighth failure came may still end.
		if calls := b.server.total(); calls < 8 || calls > 8+b.cfg.Concurrency {
			t.Fatalf("%d calls, want about the threshold of 8", calls)
		}
		if len(b.shelf.letters) != 0 || s.Halted != s.Read {
			t.Fatalf("records were condemned: %+v", s)
		}
		if d := time.Since(start); d > b.cfg.HaltAfter+time.Minute {
			t.Fatalf("halted only after %s", d)
		}
	})
}

// Probes that fail do not start the clock of --halt-after anew.
func TestFailedProbesDoNotPutOffTheHalt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1000), func(string, int) Outcome { return busy })
		b.br.threshold, b.br.openFor = 8, time.Second
		b.cfg.HaltAfter = time.Minute
		start := time.Now()
		s, err := b.run(context.Background())
		if !errors.Is(err, ErrHalted) || !s.Balanced() {
			t.Fatalf("%+v, %v", s, err)
		}
		if d := time.Since(start); d > b.cfg.HaltAfter+30*time.Second {
			t.Fatalf("halted only after %s", d)
		}
	})
}

// A breaker that somebody else closes before its time is used at once.
func TestClosedBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(20), func(string, int) Outcome { return ok })
		start := time.Now()
		b.br.openUntil = start.Add(time.Hour)
		time.AfterFunc(30*time.Second, func() {
			b.br.mu.Lock()
			defer b.br.mu.Unlock()
			b.br.openUntil = time.Now()
		})
		s, err := b.run(context.Background())
		if err != nil || s.Acked != 20 {
			t.Fatalf("%+v, %v", s, err)
		}
		if d := time.Since(start); d > 35*time.Second {
			t.Fatalf("noticed only after %s", d)
		}
	})
}

// slowPace lets a call through after a while.
type slowPace time.Duration

func (d slowPace) Wait(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(d)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leave that was got before a wait does not outlast it.
func TestOpenedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(20), func(string, int) Outcome { return ok })
		time.AfterFunc(50*time.Millisecond, func() {
			b.br.mu.Lock()
			defer b.br.mu.Unlock()
			b.br.openUntil = time.Now().Add(time.Hour)
		})
		parts := b.parts(b.journal)
		parts.Limiter = slowPace(100 * time.Millisecond)
		if s, err := Run(context.Background(), context.Background(), b.cfg, parts); !errors.Is(err, ErrHalted) || b.server.total() != 0 {
			t.Fatalf("%d calls, %+v, %v", b.server.total(), s, err)
		}
	})
}

func TestUnauthorisedStopsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(100), func(string, int) Outcome {
			return Outcome{Class: ClassAuth, Verdict: VerdictNeutral, Status: 401}
		})
		s, err := b.run(context.Background())
		if !errors.Is(err, ErrAuth) || b.server.total() > b.cfg.Concurrency || len(b.shelf.letters) != 0 || s.Halted != s.Read {
			t.Fatalf("%d calls, %+v, %v", b.server.total(), s, err)
		}
	})
}

func TestBurstOfThrottlesCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(16), func(_ string, call int) Outcome {
			if call == 1 {
				return throttle
			}
			return ok
		})
		b.cfg.Concurrency = 16
		b.br.threshold = 2
		s, err := b.run(context.Background())
		if err != nil || s.Acked != 16 || s.Throttled != 16 {
			t.Fatalf("%+v, %v", s, err)
		}
		if b.br.opened != 0 {
			t.Fatal("one burst opened the breaker")
		}
	})
}

func TestNothingButThrottlesOpensTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(50), func(string, int) Outcome { return throttle })
		b.br.threshold = 8
		b.br.openFor = time.Hour
		if _, err := b.run(context.Background()); !errors.Is(err, ErrHalted) {
			t.Fatal(err)
		}
		if b.br.opened != 1 {
			t.Fatalf("breaker opened %d times", b.br.opened)
		}
	})
}

func TestRetryAfterClosesThePathForEveryone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed time.Time
		b := newBench(records(200), nil)
		b.cfg.Concurrency = 16
		var mu sync.Mutex
		n := 0
		b.server.answer = func(string, int) Outcome {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == 21 {
				closed = time.Now()
				o := throttle
				o.RetryAfter, o.HasRetryAfter = 3*time.Second, true
				return o
			}
			return ok
		}
		if s, err := b.run(context.Background()); err != nil || s.Acked != 200 {
			t.Fatalf("%+v, %v", s, err)
		}
		during := 0
		for _, at := range b.server.times {
			if at.After(closed) && at.Before(closed.Add(3*time.Second)) {
				during++
			}
		}
		if during != 0 {
			t.Fatalf("%d requests started while the gate was closed", during)
		}
	})
}

func TestRetryAfterBeyondTheCapDefers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1), func(string, int) Outcome {
			o := throttle
			o.RetryAfter, o.HasRetryAfter = 1<<63-1, true
			return o
		})
		start := time.Now()
		s, err := b.run(context.Background())
		if err != nil || s.Deferred != 1 || s.Calls != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
		if nb := b.shelf.letters[0].NotBefore; !nb.After(start.Add(24 * time.Hour)) {
			t.Fatalf("not_before is %s", nb)
		}
	})
}

func TestEmptyBudgetBoundsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		var mu sync.Mutex
		b := newBench(records(1000), func(string, int) Outcome {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%2 == 0 {
				return busy
			}
			return ok
		})
		b.budget = &budget{ratio: 0.1, have: 10}
		s, err := b.run(context.Background())
		if err != nil || !s.Balanced() {
			t.Fatalf("%+v, %v", s, err)
		}
		if limit := int64(1000*1.1 + 10); s.Calls > limit {
			t.Fatalf("%d calls, the budget allows %d", s.Calls, limit)
		}
		if s.Deferred == 0 || s.Exhausted != 0 {
			t.Fatalf("records were burnt, not deferred: %+v", s)
		}
	})
}

func TestLostAnswerEndsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1), func(_ string, call int) Outcome {
			if call == 1 {
				return lost
			}
			return busy
		})
		s, err := b.run(context.Background())
		if err != nil || s.Unknown != 1 || s.Calls != 5 {
			t.Fatalf("%+v, %v", s, err)
		}
		if l := b.shelf.letters[0]; !l.OutcomeUnknown || len(l.History) != 5 {
			t.Fatalf("letter %+v", l)
		}
	})
}

func TestFirstSignalFinishesWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(100), func(string, int) Outcome { return ok })
		b.server.latency = time.Second
		soft, cancel := context.WithCancel(context.Background())
		time.AfterFunc(2500*time.Millisecond, cancel)
		start := time.Now()
		s, err := b.run(soft)
		if !errors.Is(err, ErrStopped) || s.Acked != 12 || !s.Balanced() {
			t.Fatalf("%+v, %v", s, err)
		}
		if d := time.Since(start); d < 3*time.Second || d > 3*time.Second+10*time.Millisecond {
			t.Fatalf("stopped after %s", d)
		}
	})
}

// A signal that comes while the last record is in flight takes nothing from a
// full success.
func TestSignalDuringTheLastRecordIsNoStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1), func(string, int) Outcome { return ok })
		b.server.latency = time.Second
		soft, cancel := context.WithCancel(context.Background())
		time.AfterFunc(500*time.Millisecond, cancel)
		if s, err := b.run(soft); err != nil || s.Acked != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}

// hanging yields one record and then blocks for ever, as a terminal does.
type hanging struct {
	feed
	release chan struct{}
}

func (h *hanging) Next(ctx context.Context) (Item, error) {
	if h.taken() == len(h.items) {
		<-h.release
	}
	return h.feed.Next(ctx)
}

func TestStopDoesNotWaitForAHangingInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{feed: feed{items: []Item{record(1)}}, release: make(chan struct{})}
		defer close(h.release)
		b := newBench(nil, func(string, int) Outcome { return ok })
		soft, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		s, err := Run(context.Background(), soft, b.cfg, Parts{
			Journal: b.journal,
			Feed:    h, DeadLetters: b.shelf, Rand: func() float64 { return 0.5 },
			Paths: []Path{{Name: "primary", Sender: b.server, Breaker: b.br, Gate: b.gate, Budget: b.budget}},
		})
		if !errors.Is(err, ErrStopped) || s.Acked != 1 || !s.Balanced() {
			t.Fatalf("%+v, %v", s, err)
		}
		if d := time.Since(start); d != time.Minute {
			t.Fatalf("stopped after %s", d)
		}
	})
}

func TestDeadlineDefersAndIsNotSleptPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(8), func(string, int) Outcome { return busy })
		b.cfg.Waits = fixed(time.Minute)
		b.cfg.Deadline = time.Now().Add(10 * time.Second)
		start := time.Now()
		s, err := b.run(context.Background())
		if err != nil || s.Deferred != 8 {
			t.Fatalf("%+v, %v", s, err)
		}
		if d := time.Since(start); d > time.Second {
			t.Fatalf("slept %s towards a deadline that could not be met", d)
		}
	})
}

func TestFullDiskStopsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1000), func(string, int) Outcome { return refused })
		b.shelf.err = errors.New("no space left on device")
		s, err := b.run(context.Background())
		if !errors.Is(err, ErrLocal) || b.server.total() > 2*b.cfg.Concurrency {
			t.Fatalf("%d calls, %+v, %v", b.server.total(), s, err)
		}
	})
}

func TestDuplicatesAndConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spot := func(id, key, body string) Item {
			return Item{Record: Record{Record: envelope.Record{SpotID: id, Key: key, Station: "WXYZ", AirDate: "2026-07-17", Body: []byte(body)}}}
		}
		f := &feed{items: []Item{
			spot("S1", "key-a", "1"), spot("S1", "key-a", "1"), spot("S2", "key-a", "2"), spot("S1", "key-b", "1"), spot("S3", "key-c", "1"),
		}}
		b := newBench(f, func(string, int) Outcome { return ok })
		s, err := b.run(context.Background())
		if err != nil || s.Acked != 2 || s.Duplicate != 1 || s.Conflict != 2 || s.Calls != 2 {
			t.Fatalf("%+v, %v", s, err)
		}
		b.feed.next, b.journal = 0, newNotebook()
		b.cfg.AcceptCorrections = true
		if s, _ := b.run(context.Background()); s.Acked != 3 || s.Conflict != 1 {
			t.Fatalf("with corrections: %+v", s)
		}
	})
}

// Whatever a server answers and whenever a run is stopped: the sums balance,
// nothing is sent after an end, calls keep within the budget.
func TestAnyNightBalances(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(rt, "records")
		seed := rapid.Uint64().Draw(rt, "seed")
		stopAt := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 3 * time.Second, 40 * time.Second}).Draw(rt, "stop")
		conc := rapid.IntRange(1, 6).Draw(rt, "concurrency")
		queue := rapid.IntRange(1, 6).Draw(rt, "queue")
		deadline := rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(rt, "deadline")
		outcomes := []Outcome{ok, ok, ok, busy, lost, refused, throttle}
		synctest.Test(t, func(t *testing.T) {
			b := newBench(records(n), func(key string, call int) Outcome {
				h := seed
				for _, c := range key {
					h = (h ^ uint64(c)) * 1099511628211
				}
				h = (h ^ uint64(call)) * 1099511628211
				return outcomes[(h>>33)%uint64(len(outcomes))]
			})
			b.cfg.Concurrency, b.cfg.QueueSize = conc, queue
			b.budget = &budget{ratio: 0.1, have: 10}
			b.br.threshold = 8
			if deadline > 0 {
				b.cfg.Deadline = time.Now().Add(deadline)
			}
			soft, cancel := context.WithCancel(context.Background())
			defer cancel()
			if stopAt > 0 {
				time.AfterFunc(stopAt, cancel)
			}
			s, err := b.run(soft)
			if !s.Balanced() || errors.Is(err, ErrLocal) {
				t.Fatalf("%+v, %v", s, err)
			}
			if s.InputEnded() && s.Read != int64(n) {
				t.Fatalf("read %d of %d", s.Read, n)
			}
			if float64(s.Calls) > float64(s.Read)*1.1+10 {
				t.Fatalf("%d calls for %d records", s.Calls, s.Read)
			}
			if b.server.most > conc {
				t.Fatalf("%d in flight, want at most %d", b.server.most, conc)
			}
			letters := s.Invalid + s.Rejected + s.Conflict + s.Exhausted + s.Deferred + s.Unknown
			if int64(len(b.shelf.letters)) != letters {
				t.Fatalf("%d letters for %d records", len(b.shelf.letters), letters)
			}
		})
	})
}
