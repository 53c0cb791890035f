package redis_test

import (
	"testing"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/redis/redistest"
)

// verdict gives a breaker the end of a request.
func verdict(t *testing.T, b *breaker.Breaker, v breaker.Verdict) {
	t.Helper()
	p, _, ok, err := b.Allow(time.Now())
	if err == nil && ok {
		err = b.Record(p, v, time.Now())
	}
	if !ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
}

// What one machine alone has found opens the breaker for all only when none of the
// others gets through; the machine itself stops at once.
func TestFoundAlone(t *testing.T) {
	for name, c := range map[string]struct {
		others func(t *testing.T, b *breaker.Breaker) // what they do when it has stopped
		settle bool
		want   breaker.Phase
	}{
		"others get through": {func(t *testing.T, b *breaker.Breaker) { verdict(t, b, breaker.OK) }, false, breaker.Closed},
		"others fail, too":   {func(t *testing.T, b *breaker.Breaker) { verdict(t, b, breaker.Fail) }, false, breaker.Open},
		"others do nothing":  {func(*testing.T, *breaker.Breaker) {}, false, breaker.Open},
		"its run ends":       {func(*testing.T, *breaker.Breaker) {}, true, breaker.Open},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			cfg := breaker.Config{Threshold: 3, Open: time.Hour, OpenMax: time.Hour}
			mine, theirs := store(t, s), store(t, s)
			a, b := breaker.New(cfg, mine.Near(), "primary", nil), breaker.New(cfg, theirs.Near(), "primary", nil)
			shared := func() breaker.State {
				got, err := theirs.Load(t.Context(), "primary")
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			verdict(t, b, breaker.OK)
			client := s.Client()
			wait(t, "both to listen", func() bool {
				return client.PubSubNumSub(t.Context(), "trafficup:{test}:breakers").Val()["trafficup:{test}:breakers"] == 2
			})
			for range 3 {
				verdict(t, a, breaker.Fail)
			}
			if got := shared(); a.State().Phase != breaker.Open || got.Phase != breaker.Closed || got.Failures != 2 {
				t.Fatalf("here %+v, shared %+v", a.State(), got)
			}
			if c.settle {
				mine.Settle(t.Context())
				if got := shared(); got.Phase != breaker.Open {
					t.Fatalf("settled as %+v", got)
				}
				return
			}
			wait(t, "the others to know", func() bool {
				_, _, _, err := b.Allow(time.Now())
				return err == nil && b.State().Failures == 2
			})
			c.others(t, b)
			if c.want == breaker.Open {
				wait(t, "it to open for all", func() bool { return shared().Phase == breaker.Open })
				return
			}
			wait(t, "its word to be its own", func() bool { return mine.Alone("primary") })
			if got := shared(); got.Phase != breaker.Closed || a.State().Phase != breaker.Open {
				t.Errorf("here %+v, shared %+v", a.State(), got)
			}
		})
	}
}

// A machine that was alone with its trouble shares again once it gets through.
func TestAloneNoLonger(t *testing.T) {
	s := redistest.Start(t)
	cfg := breaker.Config{Threshold: 2, Open: time.Millisecond, OpenMax: time.Millisecond}
	mine, theirs := store(t, s), store(t, s)
	a, b := breaker.New(cfg, mine.Near(), "primary", nil), breaker.New(cfg, theirs.Near(), "primary", nil)
	verdict(t, b, breaker.OK)
	client := s.Client()
	wait(t, "both to listen", func() bool {
		return client.PubSubNumSub(t.Context(), "trafficup:{test}:breakers").Val()["trafficup:{test}:breakers"] == 2
	})
	verdict(t, a, breaker.Fail)
	verdict(t, a, breaker.Fail)
	wait(t, "the others to know", func() bool {
		_, _, _, err := b.Allow(time.Now())
		return err == nil && b.State().Failures == 1
	})
	verdict(t, b, breaker.OK)
	wait(t, "its word to be its own", func() bool { return mine.Alone("primary") })
	wait(t, "a probe", func() bool {
		p, _, ok, err := a.Allow(time.Now())
		return ok && err == nil && p.Probe && a.Record(p, breaker.OK, time.Now()) == nil
	})
	if a.State().Phase != breaker.Closed || mine.Alone("primary") {
		t.Errorf("%+v", a.State())
	}
	verdict(t, a, breaker.Fail)
	if got, err := theirs.Load(t.Context(), "primary"); err != nil || got.Failures != 1 || got.Transitions.Open != 0 {
		t.Errorf("shared %+v, %v", got, err)
	}
}
