package redis_test

import (
	"errors"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"trafficup/internal/breaker"
	"trafficup/internal/breaker/breakertest"
	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
)

func suite(t *testing.T, cfg redis.Config) {
	breakertest.Run(t, func(t *testing.T) breaker.Store {
		cfg := cfg.Patient()
		cfg.API = flat(t)
		return open(t, cfg).Breakers(openMax, nil)
	})
}

// The suite of all stores, on a stand-in and on a server.
func TestSuiteOnMiniredis(t *testing.T) {
	suite(t, redis.Config{URL: "redis://" + miniredis.RunT(t).Addr()})
}

func TestSuiteOnServer(t *testing.T) { suite(t, config(redistest.Start(t))) }

func TestKeyAndItsTime(t *testing.T) {
	s := redistest.Start(t)
	b := store(t, s)
	if _, err := b.Update(t.Context(), "primary", same); err != nil {
		t.Fatal(err)
	}
	admin, key := s.Client(), "trafficup:{test}:breaker:primary"
	if n := admin.Exists(t.Context(), key).Val(); n != 0 {
		t.Error("written although nothing changed")
	}
	if _, err := b.Update(t.Context(), "primary", fail); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^{"v":1,"breaker":"primary","rev":1,"voter":"[A-Z2-7]{10}","state":{"phase":0,"failures":1}}$`)
	if got := admin.Get(t.Context(), key).Val(); !want.MatchString(got) {
		t.Errorf("%s, want %s", got, want)
	}
	if ttl := admin.PTTL(t.Context(), key).Val(); ttl <= openMax || ttl > time.Hour {
		t.Errorf("kept for %s", ttl)
	}
}

// The script is unknown again in the middle of things: nothing is counted twice
// or not at all.
func TestScriptFlushed(t *testing.T) {
	s := redistest.Start(t)
	b := store(t, s)
	admin := s.Client()
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
	s := redistest.Start(t)
	c := open(t, config(s).Patient())
	a, near := store(t, s), c.Breakers(openMax, nil).Near()
	if _, err := near.Load(t.Context(), "primary"); err != nil {
		t.Fatal(err)
	}
	admin := s.Client()
	wait(t, "the subscription", func() bool {
		return admin.PubSubNumSub(t.Context(), "trafficup:{test}:breakers").Val()["trafficup:{test}:breakers"] == 2
	})
	heard := 0
	for i := range 20 {
		before := c.Calls().OK
		if _, err := a.Update(t.Context(), "primary", fail); err != nil {
			t.Fatal(err)
		}
		wait(t, "the change", func() bool {
			got, err := near.Load(t.Context(), "primary")
			return err == nil && got.Failures == i+1
		})
		if c.Calls().OK == before {
			heard++
		}
	}
	t.Logf("%d of 20 changes seen without a question", heard)
	if heard < 5 { // of those that a busy machine leaves no time for, some are read
		t.Error("changes are not heard")
	}

	// A change that nobody tells of is read.
	s.Do("SET", "trafficup:{test}:breaker:primary", `{"v":1,"breaker":"primary","rev":99,"state":{"phase":0,"failures":7}}`)
	wait(t, "the change to be read", func() bool {
		got, err := near.Load(t.Context(), "primary")
		return err == nil && got.Failures == 7
	})
}

// Ten seconds of work, 10,000 results: what is in use is read every 250 ms, and
// nothing else is asked.
func TestNearCostsNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mini(t, miniredis.NewMiniRedis(), redis.Config{})
		br := breaker.New(breaker.Config{}, c.Breakers(openMax, nil).Near(), "primary", nil)
		for range 10_000 {
			time.Sleep(time.Millisecond)
			p, _, ok, err := br.Allow(time.Now())
			if !ok || err != nil {
				t.Fatalf("%v, %v", ok, err)
			}
			if err := br.Record(p, breaker.OK, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if n := c.Calls(); n.OK > 4*10+2 || n.OK < 4*10-2 {
			t.Errorf("%+v", n)
		}
	})
}

// Machines whose clocks are apart agree on when the breaker opens for a probe: by
// the clock of Redis.
func TestClocksApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		cfg := breaker.Config{Threshold: 2, Open: time.Second, OpenMax: time.Second, Fresh: time.Millisecond}
		skews := []time.Duration{-10 * time.Minute, 0, 10 * time.Minute, 24 * 365 * time.Hour}
		var machines []*breaker.Breaker
		for range skews {
			machines = append(machines, breaker.New(cfg, mini(t, m, redis.Config{}).Breakers(openMax, nil).Near(), "primary", nil))
		}
		time.Sleep(time.Second) // all listen
		for i, m := range machines[:2] {
			p, _, ok, err := m.Allow(time.Now().Add(skews[i]))
			if !ok || err != nil {
				t.Fatalf("%v, %v", ok, err)
			}
			if err := m.Record(p, breaker.Fail, time.Now().Add(skews[i])); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Millisecond) // all have heard of it
		opened := time.Now()
		for i, m := range machines {
			_, at, ok, err := m.Allow(time.Now().Add(skews[i]))
			in := at.Sub(time.Now().Add(skews[i]))
			if ok || err != nil || in <= 0 || in > cfg.Open {
				t.Errorf("skew %s: ok %v, again in %s, %v", skews[i], ok, in, err)
			}
		}
		probes := 0
		for probes == 0 && time.Since(opened) < 2*cfg.Open {
			time.Sleep(10 * time.Millisecond)
			for i, m := range machines {
				if _, _, ok, _ := m.Allow(time.Now().Add(skews[i])); ok {
					probes++
				}
			}
		}
		if d := time.Since(opened); probes != 1 || d < cfg.Open*8/10 {
			t.Errorf("%d probes after %s", probes, d)
		}
	})
}

// Eight machines against an API that is down: they open the breaker together,
// one probes at a time, and a machine that starts anew changes nothing.
func TestOneProberAtATime(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cfg := breaker.Config{Threshold: 8, Open: 200 * time.Millisecond, OpenMax: 400 * time.Millisecond, ProbeLease: time.Minute}
	var down atomic.Bool
	var calls, probing, most atomic.Int64
	down.Store(true)
	stop := make(chan struct{})
	machine := func() *breaker.Breaker {
		return breaker.New(cfg, store(t, s).Near(), "primary", nil)
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
	st, err := store(t, s).Load(t.Context(), "primary")
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
	for name, c := range map[string]struct {
		away time.Duration
		want int
	}{
		// It is tried again after one second, three and five.
		"short": {time.Second / 2, 3}, "just short": {2900 * time.Millisecond, 3}, "just long": {3100 * time.Millisecond, 1}, "long": {time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := miniredis.NewMiniRedis()
				b, other := mini(t, m, redis.Config{}).Breakers(openMax, nil), mini(t, m, redis.Config{}).Breakers(openMax, nil)
				if _, err := b.Update(t.Context(), "primary", fail); err != nil {
					t.Fatal(err)
				}
				answer(m, "LOADING Redis is loading the dataset in memory")
				for i := range 2 {
					got, err := b.Update(t.Context(), "primary", fail)
					if !errors.Is(err, redis.ErrAway) || got.Failures != i+2 {
						t.Errorf("away: %+v, %v", got, err)
					}
				}
				time.Sleep(c.away)
				answer(m, "")
				time.Sleep(3 * time.Second)
				for _, store := range []breaker.Store{b, other} {
					if got, err := store.Load(t.Context(), "primary"); err != nil || got.Failures != c.want {
						t.Errorf("back: %+v, %v", got, err)
					}
				}
			})
		})
	}
}

// While Redis is away its clock runs on, whatever becomes of ours.
func TestClockOfRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		c := mini(t, m, redis.Config{})
		if _, known := c.Clock(); known || !c.Now().Equal(time.Now()) {
			t.Errorf("known before it was asked: %s", c.Now())
		}
		theirs := time.Now().Add(3*time.Hour + 123*time.Microsecond)
		m.SetTime(theirs)
		if err := c.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := redis.Clock{Ahead: 3*time.Hour + 123*time.Microsecond, At: time.Now()}
		if got, known := c.Clock(); !known || got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		time.Sleep(time.Minute)
		if got := c.Now(); !got.Equal(theirs.Add(time.Minute)) {
			t.Errorf("a minute later %s", got)
		}
		slow := func(_ *server.Peer, cmd string, _ ...string) bool {
			if cmd == "EVALSHA" {
				time.Sleep(20 * time.Millisecond)
			}
			return false
		}
		// A less exact one counts when the exact one is old.
		m.SetTime(time.Now().Add(time.Hour))
		m.Server().SetPreHook(slow)
		if err := c.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		want = redis.Clock{Ahead: time.Hour - 10*time.Millisecond, Within: 10 * time.Millisecond, At: time.Now()}
		if got, _ := c.Clock(); got != want {
			t.Errorf("a minute later %+v, want %+v", got, want)
		}
		m.Server().SetPreHook(nil)
		m.SetTime(time.Now().Add(time.Hour))
		if err := c.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		want = redis.Clock{Ahead: time.Hour, At: time.Now()}
		m.Server().SetPreHook(slow)
		for range 9 {
			time.Sleep(time.Second)
			if err := c.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got, _ := c.Clock(); got != want {
			t.Errorf("an exact one is followed by %+v, want %+v", got, want)
		}
	})
}

// A machine with a bad uplink finds the API down: the others do not hear of it,
// and it forgets that itself when the uplink is good again.
func TestApart(t *testing.T) {
	s := redistest.Start(t)
	var bad atomic.Bool
	cfg := breaker.Config{Threshold: 2, Open: time.Minute}
	own := open(t, config(s).Patient()).Breakers(openMax, func(string) redis.Worth {
		if bad.Load() {
			return redis.Own
		}
		return redis.Shared
	})
	alone := breaker.New(cfg, own.Near(), "primary", nil)
	other := breaker.New(cfg, store(t, s).Near(), "primary", nil)
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
	if n := s.Client().Exists(t.Context(), "trafficup:{test}:breaker:primary").Val(); n != 0 {
		t.Error("it told the others")
	}
	if _, _, ok, err := other.Allow(time.Now()); !ok || err != nil {
		t.Errorf("the others: %v, %v", ok, err)
	}
	if got, err := own.Load(t.Context(), "primary"); err != nil || got.Phase != breaker.Open {
		t.Errorf("still apart: %+v, %v", got, err)
	}
	bad.Store(false)
	wait(t, "it to forget", func() bool {
		_, _, ok, err := alone.Allow(time.Now())
		return ok && err == nil
	})
}

// As long as a machine does not know whether its uplink is bad, what it finds is
// kept back; then the others hear of it, or it is forgotten.
func TestUnsure(t *testing.T) {
	for name, want := range map[string]struct {
		worth redis.Worth
		phase breaker.Phase
	}{
		"well after all": {redis.Shared, breaker.Open},
		"bad":            {redis.Own, breaker.Closed},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			var worth atomic.Int64
			worth.Store(int64(redis.Unsure))
			own := open(t, config(s).Patient()).Breakers(openMax, func(string) redis.Worth { return redis.Worth(worth.Load()) })
			br, others := breaker.New(breaker.Config{Threshold: 1, Open: time.Minute}, own.Near(), "primary", nil), store(t, s)
			p, _, _, _ := br.Allow(time.Now())
			if err := br.Record(p, breaker.Fail, time.Now()); err != nil {
				t.Fatal(err)
			}
			if got, err := others.Load(t.Context(), "primary"); err != nil || got.Phase != breaker.Closed || br.State().Phase != breaker.Open {
				t.Errorf("unsure: %+v, %v; here %+v", got, err, br.State())
			}
			worth.Store(int64(want.worth))
			if want.worth == redis.Own { // and then well again
				if _, err := own.Load(t.Context(), "primary"); err != nil {
					t.Fatal(err)
				}
				worth.Store(int64(redis.Shared))
			}
			wait(t, "what is decided", func() bool {
				mine, err := own.Load(t.Context(), "primary")
				theirs, oerr := others.Load(t.Context(), "primary")
				return err == nil && oerr == nil && mine.Phase == want.phase && theirs.Phase == want.phase
			})
		})
	}
}

// A Redis that restarts with nothing gets the states back from who knows them, and
// a force is kept for as long as it holds.
func TestGivenBack(t *testing.T) {
	s := redistest.Start(t)
	a, b := store(t, s), store(t, s)
	force := breaker.Force{Phase: breaker.Open, Reason: "moving", By: "ops"}
	want, err := a.Update(t.Context(), "primary", func(st breaker.State, now time.Time) breaker.State {
		force.Until = now.Add(10 * time.Hour)
		return breaker.Config{}.Force(st, force, now)
	})
	if err != nil {
		t.Fatal(err)
	}
	key := "trafficup:{test}:breaker:primary"
	if ttl := s.Client().PTTL(t.Context(), key).Val(); ttl < 10*time.Hour {
		t.Errorf("it expires in %s", ttl)
	}
	near := b.Near()
	if got, err := near.Load(t.Context(), "primary"); err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	s.Stop()
	s.Start()
	wait(t, "the state to be there again", func() bool {
		if got, _ := near.Load(t.Context(), "primary"); got != want {
			t.Fatalf("forgotten meanwhile: %+v", got)
		}
		return s.Client().Exists(t.Context(), key).Val() == 1
	})
	if got, err := store(t, s).Load(t.Context(), "primary"); err != nil || got != want {
		t.Errorf("a machine that knew nothing: %+v, %v", got, err)
	}
}
