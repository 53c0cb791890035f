package breaker

import (
	"encoding/json/v2"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 7, 17, 0, 0, 0, 0, time.UTC)

var testCfg = Config{Threshold: 3, Window: time.Minute, Open: 30 * time.Second, OpenMax: 5 * time.Minute, ProbeLease: 15 * time.Second, Jitter: 0.2}

func TestThresholdCountsConsecutiveFailuresInWindow(t *testing.T) {
	type result struct {
		at time.Duration
		v  Verdict
	}
	for _, c := range []struct {
		name    string
		results []result
		want    Phase
	}{
		{"in a row", []result{{0, Fail}, {1, Fail}, {2, Fail}}, Open},
		{"at the end of the window", []result{{0, Fail}, {1, Fail}, {time.Minute, Fail}}, Open},
		{"past the window", []result{{0, Fail}, {1, Fail}, {time.Minute + 1, Fail}}, Closed},
		{"a new count after the window", []result{{0, Fail}, {time.Minute + 1, Fail}, {time.Minute + 2, Fail}, {time.Minute + 3, Fail}}, Open},
		{"success between", []result{{0, Fail}, {1, Fail}, {2, OK}, {3, Fail}, {4, Fail}}, Closed},
		{"neutral between", []result{{0, Fail}, {1, Fail}, {2, Neutral}, {3, Fail}}, Open},
		{"neutral alone", []result{{0, Neutral}, {1, Neutral}, {2, Neutral}, {3, Neutral}}, Closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s State
			for _, r := range c.results {
				s = testCfg.Record(s, s.Generation, r.v, t0.Add(r.at), 0)
			}
			if s.Phase != c.want {
				t.Errorf("%s, want %s: %+v", s.Phase, c.want, s)
			}
		})
	}
}

func TestLifeOfABreaker(t *testing.T) {
	s, now := opened(t), t0
	if want := now.Add(30 * time.Second); s.OpenUntil != want {
		t.Fatalf("open until %s, want %s", s.OpenUntil, want)
	}
	_, ok, at := testCfg.Allow(s, s.OpenUntil.Add(-1), 0)
	if ok || at != s.OpenUntil {
		t.Fatalf("before the time: %v, ask at %s", ok, at)
	}
	// Each failed probe doubles the open time, up to the cap.
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		now = s.OpenUntil
		s, ok, _ = testCfg.Allow(s, now, 0)
		if !ok || s.Phase != HalfOpen {
			t.Fatalf("no probe: %+v", s)
		}
		s = testCfg.Record(s, s.Generation, Fail, now, 0)
		if got := s.OpenUntil.Sub(now); s.Phase != Open || got != want {
			t.Fatalf("%s for %s, want %s", s.Phase, got, want)
		}
	}
	now = s.OpenUntil
	probe, _, _ := testCfg.Allow(s, now, 0)
	_, ok, at = testCfg.Allow(probe, now, 0)
	if ok || at != now.Add(probePoll) {
		t.Fatalf("second probe: %v, ask at %s", ok, at)
	}
	// Given back: the next one is let through at once.
	given := testCfg.Record(probe, probe.Generation, Neutral, now, 0)
	next, ok, _ := testCfg.Allow(given, now, 0)
	if given.Phase != HalfOpen || !ok || next.Generation == probe.Generation {
		t.Fatalf("given back %+v, then %v %+v", given, ok, next)
	}
	if twice := testCfg.Record(given, probe.Generation, OK, now, 0); twice != given {
		t.Fatalf("a permit used twice closed the breaker: %+v", twice)
	}
	if late := testCfg.Record(next, probe.Generation, OK, now, 0); late != next {
		t.Fatalf("a permit given back closed the breaker: %+v", late)
	}
	// Lost: the lease ends.
	again, ok, _ := testCfg.Allow(next, next.ProbeUntil, 0)
	if !ok || testCfg.Record(again, next.Generation, OK, now, 0) != again {
		t.Fatalf("after the lease: %v %+v", ok, again)
	}
	closed := testCfg.Record(again, again.Generation, OK, now, 0)
	want := State{
		Generation: closed.Generation, Since: now, Transitions: Transitions{Closed: 1, HalfOpen: 6, Open: 6},
		Changes: Changes{now, t0}, // probes that fail are none
	}
	if closed != want {
		t.Fatalf("closed as %+v\nwant %+v", closed, want)
	}
}

func TestHostileStates(t *testing.T) {
	far, old := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		s     State
		ready time.Duration // until a request passes
	}{
		{"open until 2099", State{Phase: Open, OpenUntil: far}, testCfg.OpenMax},
		{"open until 1970", State{Phase: Open, OpenUntil: old}, 0},
		{"open without a time", State{Phase: Open}, 0},
		{"probe until 2099", State{Phase: HalfOpen, ProbeUntil: far}, testCfg.ProbeLease},
		{"probe until 1970", State{Phase: HalfOpen, ProbeUntil: old}, 0},
		{"no such phase", State{Phase: 7, OpenUntil: far}, 0},
		{"negative phase", State{Phase: -1}, 0},
		{"failures from 2099", State{Failures: math.MaxInt, FirstFailure: far}, 0},
		{"negative counts", State{Failures: math.MinInt, Opens: math.MinInt}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, ok, _ := testCfg.Allow(c.s, t0, 0)
			if ok != (c.ready == 0) {
				t.Fatalf("allowed at once: %v", ok)
			}
			if !ok {
				if _, ok, _ := testCfg.Allow(s, t0.Add(c.ready-1), 0); ok {
					t.Error("allowed too early")
				}
				if s, ok, _ = testCfg.Allow(s, t0.Add(c.ready), 0); !ok {
					t.Error("still shut")
				}
			}
			// Whatever it was, it works from here on.
			s = testCfg.Record(s, s.Generation, OK, t0.Add(c.ready), 0)
			if s.Phase != Closed || s.Failures != 0 {
				t.Errorf("after a success: %+v", s)
			}
		})
	}
	s := State{Phase: HalfOpen, Opens: math.MaxInt}
	if s = testCfg.Record(s, 0, Fail, t0, 0); s.OpenUntil != t0.Add(testCfg.OpenMax) {
		t.Errorf("many opens: %+v", s)
	}
}

func TestZeroConfigIsTheDefaultWithoutJitter(t *testing.T) {
	want := DefaultConfig()
	want.Jitter = 0
	if got := (Config{}).filled(); !reflect.DeepEqual(got, want) { // Eager, a function, is nil in both
		t.Errorf("%+v, want %+v", got, want)
	}
	c := Config{Open: time.Hour, OpenMax: time.Minute, Jitter: math.NaN()}.filled()
	if d := c.openTime(5, 0.5); d != time.Hour {
		t.Errorf("open for %s", d)
	}
}

func TestOpenTimeBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Open:    time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "open")),
			OpenMax: time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "max")),
			Jitter:  rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}.filled()
		u := rapid.Float64Range(0, 1).Draw(t, "u")
		full := c.Open
		for n := 1; n <= mostOpens; n++ {
			d := c.openTime(n, u)
			if d < 1 || d > full || float64(d) < float64(full)*(1-c.Jitter)*0.999-1 {
				t.Fatalf("open time %d is %d, full %d", n, d, full)
			}
			if full > c.OpenMax/2 {
				full = c.OpenMax
			} else {
				full *= 2
			}
		}
	})
}

// permit is a request under way in the model below.
type permit struct {
	gen   uint64
	probe bool
	at    time.Time
}

// A random life: requests allowed, answered late, twice or never, while time
// goes on, and what must hold after every step.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			s      State
			now    = t0
			out    []permit
			streak []time.Time // failures in a row of the current closed generation
			probed time.Time   // when the probe holding the lease was let through
		)
		u := func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "u") }
		t.Repeat(map[string]func(*rapid.T){
			"allow": func(t *rapid.T) {
				next, ok, at := testCfg.Allow(s, now, u())
				if !ok && (!at.After(now) || at.After(now.Add(testCfg.OpenMax))) {
					t.Fatalf("ask again at %s, now %s", at, now)
				}
				switch {
				case s.Phase == Closed && (!ok || next != s):
					t.Fatalf("closed: %v, %+v", ok, next)
				case s.Phase == Open && ok != !now.Before(s.OpenUntil):
					t.Fatalf("open until %s: %v at %s", s.OpenUntil, ok, now)
				}
				if ok {
					out = append(out, permit{next.Generation, next.Phase == HalfOpen, now})
				}
				if ok && next.Phase == HalfOpen {
					if !probed.IsZero() && now.Before(probed.Add(testCfg.ProbeLease)) {
						t.Fatalf("a probe at %s and another at %s", probed, now)
					}
					probed = now
				}
				s = next
			},
			"record": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing under way")
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "permit")
				v := rapid.SampledFrom([]Verdict{OK, Fail, Fail, Fail, Neutral}).Draw(t, "verdict")
				p := out[i]
				if rapid.Bool().Draw(t, "once") {
					out = append(out[:i], out[i+1:]...)
				}
				next := testCfg.Record(s, p.gen, v, now, u())
				if p.gen != s.Generation {
					if next != s {
						t.Fatalf("a result of generation %d changed %+v to %+v", p.gen, s, next)
					}
					return
				}
				if v == Neutral && next.Phase != s.Phase {
					t.Fatalf("neutral led from %s to %s", s.Phase, next.Phase)
				}
				switch {
				case s.Phase == HalfOpen:
					want := map[Verdict]Phase{OK: Closed, Fail: Open, Neutral: HalfOpen}[v]
					if next.Phase != want {
						t.Fatalf("probe ended with %d: %s, want %s", v, next.Phase, want)
					}
					probed, streak = time.Time{}, nil
				case s.Phase == Closed && v == OK:
					streak = nil
				case s.Phase == Closed && v == Fail:
					if len(streak) > 0 && now.Sub(streak[0]) > testCfg.Window {
						streak = nil
					}
					streak = append(streak, now)
					if trips := len(streak) >= testCfg.Threshold; trips != (next.Phase == Open) {
						t.Fatalf("%d failures in a row: %s", len(streak), next.Phase)
					}
				}
				if next.Phase == Open && s.Phase != Open {
					full := min(testCfg.Open<<min(s.Opens+max(0, next.Changes.LastHour(now)-6), 10), testCfg.OpenMax)
					d := next.OpenUntil.Sub(now)
					if d > full || d < full*8/10 {
						t.Fatalf("open for %s after %d opens, full %s", d, s.Opens, full)
					}
					streak = nil
				}
				s = next
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(40*time.Second)).Draw(t, "d")))
			},
			"": func(t *rapid.T) {
				if s.Phase == Closed && (s.Failures >= testCfg.Threshold || s.Opens != 0) {
					t.Fatalf("closed with %+v", s)
				}
				data, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				var back State
				if err := json.Unmarshal(data, &back); err != nil || back != s {
					t.Fatalf("%s reads back as %+v, %v", data, back, err)
				}
			},
		})
	})
}

// opened returns a breaker opened at t0 by three failures.
func opened(t *testing.T) State {
	t.Helper()
	var s State
	for range testCfg.Threshold {
		s = testCfg.Record(s, s.Generation, Fail, t0, 0)
	}
	if s.Phase != Open {
		t.Fatalf("not open: %+v", s)
	}
	return s
}

// A probe that a deadline hurries does not lengthen the time that is open for
// those who have no deadline.
func TestHurriedProbesDoubleNothing(t *testing.T) {
	start := time.Date(2026, 7, 17, 0, 0, 0, 0, time.UTC)
	c := Config{Threshold: 1, Open: 30 * time.Second, OpenMax: 5 * time.Minute}
	s := c.Record(State{}, 0, Fail, start, 0)
	until := s.OpenUntil
	hurried := c
	hurried.Deadline = start.Add(10 * time.Second)
	probes := 0
	for now := start; now.Before(hurried.Deadline); now = now.Add(time.Second) {
		next, ok, _ := hurried.Allow(s, now, 0)
		if s = next; ok {
			probes++
			s = hurried.Record(s, s.Generation, Fail, now, 0)
		}
	}
	if probes < 2 || s.Phase != Open || s.Opens != 1 || !s.OpenUntil.Equal(until) {
		t.Fatalf("%d probes, %+v", probes, s)
	}
	s, ok, _ := c.Allow(s, until, 0)
	if !ok {
		t.Fatalf("no probe at its time: %+v", s)
	}
	if s = c.Record(s, s.Generation, Fail, until, 0); s.Opens != 2 || !s.OpenUntil.Equal(until.Add(time.Minute)) {
		t.Errorf("after one that was not hurried: %+v", s)
	}
}
