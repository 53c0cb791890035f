package redis_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"trafficup/internal/breaker"
	"trafficup/internal/breaker/breakertest"
	"trafficup/internal/redis"
)

const openMax = 5 * time.Minute

func fail(s breaker.State, _ time.Time) breaker.State { s.Failures++; return s }
func same(s breaker.State, _ time.Time) breaker.State { return s }

func suite(t *testing.T, cfg redis.Config) {
	breakertest.Run(t, func(t *testing.T) breaker.Store {
		cfg := cfg.Patient()
		cfg.API = flat(t)
		return open(t, cfg).Breakers(openMax, nil)
	})
}

func TestSuiteOnMiniredis(t *testing.T) {
	suite(t, redis.Config{URL: "redis://" + miniredis.RunT(t).Addr()})
}

func TestSuiteOnServer(t *testing.T) { suite(t, start(t).config()) }

func TestKeyAndItsTime(t *testing.T) {
	s := start(t)
	b := open(t, s.config()).Breakers(openMax, nil)
	if _, err := b.Update(t.Context(), "primary", same); err != nil {
		t.Fatal(err)
	}
	admin, key := s.admin(t), "trafficup:{test}:breaker:primary"
	if n := admin.Exists(t.Context(), key).Val(); n != 0 {
		t.Error("written although nothing changed")
	}
	if _, err := b.Update(t.Context(), "primary", fail); err != nil {
		t.Fatal(err)
	}
	want := `{"v":1,"breaker":"primary","rev":1,"state":{"phase":0,"failures":1}}`
	if got := admin.Get(t.Context(), key).Val(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if ttl := admin.PTTL(t.Context(), key).Val(); ttl <= openMax || ttl > time.Hour {
		t.Errorf("kept for %s", ttl)
	}
	// A key that is gone is a closed breaker, in both views.
	s.do(t, "FLUSHALL")
	if got, err := b.Load(t.Context(), "primary"); err != nil || got != (breaker.State{}) {
		t.Errorf("after the loss: %+v, %v", got, err)
	}
}

// The script is unknown again in the middle of things: nothing is counted twice
// or not at all.
func TestScriptFlushed(t *testing.T) {
	s := start(t)
	b := open(t, s.config()).Breakers(openMax, nil)
	admin := s.admin(t)
	for i := range 200 {
		if i%7 == 0 {
			if err := admin.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := b.Update(t.Context(), "primary", fail); err != nil || got.Failures != i+1 {
			t.Fatalf("%d: %+v, %v", i, got, err)
		}
	}
}

// What one machine changes, the copy of another shows, without it asking.
func TestNearHears(t *testing.T) {
	s := start(t)
	a, b := open(t, s.config()).Breakers(openMax, nil), open(t, s.config()).Breakers(openMax, nil)
	near := b.Near()
	if _, err := near.Load(t.Context(), "primary"); err != nil {
		t.Fatal(err)
	}
	wait(t, "the subscription", func() bool {
		return s.admin(t).PubSubNumSub(t.Context(), "trafficup:{test}:breakers").Val()["trafficup:{test}:breakers"] == 2
	})
	var worst, sum time.Duration
	for i := range 20 {
		if _, err := a.Update(t.Context(), "primary", fail); err != nil {
			t.Fatal(err)
		}
		d := wait(t, "the change", func() bool {
			got, err := near.Load(t.Context(), "primary")
			return err == nil && got.Failures == i+1
		})
		worst, sum = max(worst, d), sum+d
	}
	if sum > time.Second { // reading alone takes half of 250 ms for each
		t.Errorf("20 changes seen after %s", sum)
	}
	t.Logf("changes seen after at most %s", worst)

	// Without messages and without its key: it is read again.
	s.do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	s.do(t, "FLUSHALL")
	t.Logf("a loss seen after %s", wait(t, "the loss", func() bool {
		got, err := near.Load(t.Context(), "primary")
		return err == nil && got == breaker.State{}
	}))
}

func TestNearCostsNoCalls(t *testing.T) {
	s := start(t)
	c := open(t, s.config())
	br := breaker.New(breaker.Config{}, c.Breakers(openMax, nil).Near(), "primary", nil)
	p, _, _, err := br.Allow(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	before := c.Calls()
	now := time.Now()
	for i := range 10_000 { // a second of the caller's clock
		at := now.Add(time.Duration(i) * 100 * time.Microsecond)
		if _, _, ok, err := br.Allow(at); !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		if err := br.Record(p, breaker.OK, at); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Calls().OK - before.OK; n > 50 {
		t.Errorf("%d calls for 10000 results", n)
	}
}

// Two machines whose clocks are apart agree on when the breaker opens for a
// probe: by the clock of Redis.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	s := start(t)
	cfg := breaker.Config{Threshold: 2, Open: time.Second, OpenMax: time.Second}
	var machines []*breaker.Breaker
	skews := []time.Duration{-10 * time.Minute, 0, 10 * time.Minute, 24 * 365 * time.Hour}
	for range skews {
		machines = append(machines, breaker.New(cfg, open(t, s.config()).Breakers(openMax, nil).Near(), "primary", nil))
	}
	for range 2 {
		p, _, ok, err := machines[0].Allow(time.Now().Add(skews[0]))
		if !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		if err := machines[0].Record(p, breaker.Fail, time.Now().Add(skews[0])); err != nil {
			t.Fatal(err)
		}
	}
	opened := time.Now()
	for i, m := range machines {
		_, at, ok, err := m.Allow(time.Now().Add(skews[i]))
		in := at.Sub(time.Now().Add(skews[i]))
		if ok || err != nil || in <= 0 || in > cfg.Open+time.Millisecond {
			t.Errorf("skew %s: ok %v, again in %s, %v", skews[i], ok, in, err)
		}
	}
	probes := 0
	wait(t, "a probe", func() bool {
		for i, m := range machines {
			if _, _, ok, _ := m.Allow(time.Now().Add(skews[i])); ok {
				probes++
			}
		}
		return probes > 0
	})
	if d := time.Since(opened); probes != 1 || d < cfg.Open*8/10 {
		t.Errorf("%d probes after %s", probes, d)
	}
}

// Eight machines against an API that is down: they open the breaker together,
// one probes at a time, and a machine that starts anew changes nothing.
func TestOneProberAtATime(t *testing.T) {
	t.Parallel()
	s := start(t)
	cfg := breaker.Config{Threshold: 8, Open: 200 * time.Millisecond, OpenMax: 400 * time.Millisecond, ProbeLease: 5 * time.Second}
	var down atomic.Bool
	var calls, probing, most atomic.Int64
	down.Store(true)
	stop := make(chan struct{})
	machine := func() *breaker.Breaker {
		return breaker.New(cfg, open(t, s.config()).Breakers(openMax, nil).Near(), "primary", nil)
	}
	var wg sync.WaitGroup
	machines := make([]atomic.Pointer[breaker.Breaker], 8)
	for i := range machines {
		machines[i].Store(machine())
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				b := machines[i].Load()
				p, _, ok, err := b.Allow(time.Now())
				if err != nil {
					t.Error(err)
				}
				if !ok {
					continue
				}
				v := breaker.OK
				if down.Load() {
					calls.Add(1)
					v = breaker.Fail
				}
				if p.Probe {
					most.Store(max(most.Load(), probing.Add(1)))
					time.Sleep(20 * time.Millisecond)
					probing.Add(-1)
				}
				if err := b.Record(p, v, time.Now()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 4 { // restarted in the middle of the outage
		time.Sleep(400 * time.Millisecond)
		machines[i].Store(machine())
	}
	st, err := open(t, s.config()).Breakers(openMax, nil).Load(t.Context(), "primary")
	if err != nil || st.Transitions.Closed != 0 {
		t.Errorf("in the outage: %+v, %v", st, err)
	}
	probes := int64(st.Transitions.HalfOpen)
	n := calls.Load()
	down.Store(false)
	took := wait(t, "all to close", func() bool {
		for i := range machines {
			if machines[i].Load().State().Phase != breaker.Closed {
				return false
			}
		}
		return true
	})
	close(stop)
	wg.Wait()
	t.Logf("%d calls in the outage, %d probes, all closed %s after its end", n, probes, took)
	// A result of each machine may be under way when the last failure opens it.
	if n > int64(cfg.Threshold)+probes+8 || most.Load() != 1 {
		t.Errorf("%d calls, %d probes, %d at a time", n, probes, most.Load())
	}
}

// A short absence's changes reach Redis; those of a long one are forgotten.
func TestAbsence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		away time.Duration
		want int
	}{"short": {0, 2}, "long": {6 * time.Second, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			b := open(t, s.config()).Breakers(openMax, nil)
			if _, err := b.Update(t.Context(), "primary", fail); err != nil {
				t.Fatal(err)
			}
			s.signal(t, syscall.SIGSTOP)
			got, err := b.Update(t.Context(), "primary", fail)
			if !errors.Is(err, redis.ErrAway) || got.Failures != 2 {
				t.Errorf("away: %+v, %v", got, err)
			}
			time.Sleep(c.away)
			s.signal(t, syscall.SIGCONT)
			other := open(t, s.config()).Breakers(openMax, nil)
			wait(t, "the return", func() bool {
				_, err := b.Load(t.Context(), "primary")
				return err == nil
			})
			wait(t, "both to agree", func() bool {
				own, err := b.Load(t.Context(), "primary")
				shared, err2 := other.Load(t.Context(), "primary")
				return errors.Join(err, err2) == nil && own == shared && own.Failures == c.want
			})
		})
	}
}

// A machine with a bad uplink finds the API down: the others do not hear of it,
// and it forgets that itself when the uplink is good again.
func TestApart(t *testing.T) {
	s := start(t)
	var bad atomic.Bool
	cfg := breaker.Config{Threshold: 2, Open: time.Minute}
	store := open(t, s.config()).Breakers(openMax, bad.Load)
	alone := breaker.New(cfg, store.Near(), "primary", nil)
	other := breaker.New(cfg, open(t, s.config()).Breakers(openMax, nil).Near(), "primary", nil)
	bad.Store(true)
	for range 2 {
		p, _, ok, err := alone.Allow(time.Now())
		if !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		if err := alone.Record(p, breaker.Fail, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if alone.State().Phase != breaker.Open {
		t.Errorf("its own breaker: %+v", alone.State())
	}
	if n := s.admin(t).Exists(t.Context(), "trafficup:{test}:breaker:primary").Val(); n != 0 {
		t.Error("it told the others")
	}
	if _, _, ok, err := other.Allow(time.Now()); !ok || err != nil {
		t.Errorf("the others: %v, %v", ok, err)
	}
	if got, err := store.Load(t.Context(), "primary"); err != nil || got.Phase != breaker.Open {
		t.Errorf("still apart: %+v, %v", got, err)
	}
	bad.Store(false)
	wait(t, "it to forget", func() bool {
		_, _, ok, err := alone.Allow(time.Now())
		return ok && err == nil
	})
}
