package breaker

import (
	"encoding/json/v2"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// force returns s forced to p for d by somebody.
func force(s State, p Phase, d time.Duration, now time.Time) State {
	return testCfg.Force(s, Force{Phase: p, Until: now.Add(d), Reason: "api moves", By: "ops@host"}, now)
}

// Held open for ten hours: neither OpenMax nor a deadline shortens that, nobody
// waits long for the end of it, and then there is a probe.
func TestForcedOpen(t *testing.T) {
	cfg := testCfg
	cfg.Deadline = t0.Add(time.Minute)
	until := t0.Add(10 * time.Hour)
	late := State{Failures: testCfg.Threshold - 1, FirstFailure: t0}
	s := force(late, Open, 10*time.Hour, t0)
	if want := (Force{Open, until, "api moves", "ops@host", t0}); s.Force != want || s.Phase != Open || s.Generation < manyGenerations || s.Since != t0 {
		t.Fatalf("%+v", s)
	}
	if got := cfg.Record(s, late.Generation, Fail, t0, 0); got != s {
		t.Errorf("a late failure counts: %+v", got)
	}
	for _, at := range []time.Duration{0, 31 * time.Second, testCfg.OpenMax, 10*time.Hour - 1} {
		next, ok, retryAt := cfg.Allow(s, t0.Add(at), 0.5)
		if ok || next != s || !retryAt.After(t0.Add(at)) || retryAt.After(t0.Add(at+2*forcePoll)) || retryAt.After(until) {
			t.Errorf("after %s: %v, ask at %s, %+v", at, ok, retryAt, next)
		}
	}
	probe, ok, _ := cfg.Allow(s, until, 0)
	if !ok || probe.Phase != HalfOpen || probe.Force != (Force{}) || probe.Opens != 0 {
		t.Fatalf("no probe: %v %+v", ok, probe)
	}
	if _, ok, _ := cfg.Allow(probe, until, 0); ok {
		t.Error("a second probe")
	}
	if again := testCfg.Record(probe, probe.Generation, Fail, until, 0); again.OpenUntil != until.Add(testCfg.Open) {
		t.Errorf("after a failed probe: %+v", again)
	}
	closed := cfg.Record(probe, probe.Generation, OK, until, 0)
	if _, ok, _ := cfg.Allow(closed, until, 0); !ok || closed.Phase != Closed {
		t.Errorf("after a good probe: %+v", closed)
	}
}

// Held closed although everything fails; what was sent meanwhile never counts.
func TestForcedClosed(t *testing.T) {
	s := force(opened(t), Closed, time.Hour, t0)
	held := s
	for range 100 {
		var ok bool
		if s, ok, _ = testCfg.Allow(s, t0, 0); !ok {
			t.Fatalf("refused: %+v", s)
		}
		if s = testCfg.Record(s, s.Generation, Fail, t0, 0); s != held {
			t.Fatalf("a failure changed %+v to %+v", held, s)
		}
	}
	end := t0.Add(time.Hour)
	if got := testCfg.Record(s, s.Generation, Fail, end, 0); got != held {
		t.Errorf("a failure after the end changed it to %+v", got)
	}
	s, ok, _ := testCfg.Allow(s, end, 0)
	if !ok || s.Force != (Force{}) || s.Failures != 0 || s.Phase != Closed || s.Generation == held.Generation {
		t.Fatalf("after the end: %v %+v", ok, s)
	}
	if got := testCfg.Record(s, held.Generation, Fail, end, 0); got != s {
		t.Errorf("a late failure counts: %+v", got)
	}
	for range testCfg.Threshold {
		s = testCfg.Record(s, s.Generation, Fail, end, 0)
	}
	if s.Phase != Open {
		t.Errorf("does not open any more: %+v", s)
	}
}

func TestForceIsBounded(t *testing.T) {
	long := Force{Phase: Open, Until: t0.Add(1000 * time.Hour), Reason: "\xff" + strings.Repeat("é", 150), By: strings.Repeat("b", 201)}
	s := testCfg.Force(State{}, long, t0)
	if f := s.Force; !f.Until.Equal(t0.Add(MaxForce)) || f.Reason != strings.Repeat("é", 99) || !utf8.ValidString(f.Reason) || len(f.By) != MaxText {
		t.Errorf("%+v", f)
	}
	for _, p := range []Phase{HalfOpen, 7, -1} {
		if got := testCfg.Force(opened(t), Force{Phase: p, Until: t0.Add(1)}, t0); got != opened(t) {
			t.Errorf("forced to %s: %+v", p, got)
		}
	}
	far := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		s     State
		ready time.Duration
	}{
		"open until 2099":         {State{Phase: Open, Force: Force{Phase: Open, Until: far, At: far}}, MaxForce},
		"open, phase closed":      {State{Force: Force{Phase: Open, Until: t0.Add(time.Hour)}}, time.Hour},
		"open, no such phase":     {State{Phase: 9, Force: Force{Phase: Open, Until: t0.Add(time.Hour)}}, time.Hour},
		"open until 1970":         {State{Phase: Open, Force: Force{Phase: Open, Until: time.Unix(0, 0).UTC()}}, 0},
		"closed, phase open":      {State{Phase: Open, OpenUntil: far, Force: Force{Phase: Closed, Until: far}}, 0},
		"half-open":               {State{Force: Force{Phase: HalfOpen, Until: far}}, 0},
		"no such phase of force":  {State{Force: Force{Phase: 7, Until: far}}, 0},
		"lapsed, open until 2099": {State{Phase: Open, OpenUntil: far, Force: Force{Phase: Open, Until: t0}}, testCfg.OpenMax},
	} {
		t.Run(name, func(t *testing.T) {
			s, ok, _ := testCfg.Allow(c.s, t0, 0)
			if ok != (c.ready == 0) || s.Force.At.After(t0) {
				t.Fatalf("allowed at once: %v, %+v", ok, s)
			}
			if c.ready > 0 {
				if _, ok, _ := testCfg.Allow(s, t0.Add(c.ready-1), 0); ok {
					t.Error("allowed too early")
				}
				if s, ok, _ = testCfg.Allow(s, t0.Add(c.ready), 0); !ok {
					t.Errorf("still shut: %+v", s)
				}
			}
		})
	}
}

func TestReset(t *testing.T) {
	for name, s := range map[string]State{
		"open": opened(t), "forced open": force(State{}, Open, time.Hour, t0), "forced closed": force(State{}, Closed, time.Hour, t0),
		"failures": {Failures: 2, FirstFailure: t0}, "half-open": {Phase: HalfOpen, ProbeUntil: t0.Add(1), Opens: 3}, "thrashing": {Changes: Changes{t0}},
	} {
		got := testCfg.Reset(s, t0)
		if got.Generation < s.Generation+manyGenerations {
			t.Errorf("%s: generation %d after %d", name, got.Generation, s.Generation)
		}
		got.Since, got.Generation, got.Transitions = time.Time{}, 0, Transitions{}
		if got != (State{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	rest := State{Generation: 4, Since: t0, Transitions: Transitions{Open: 1}}
	if got := testCfg.Reset(rest, t0); got != rest {
		t.Errorf("at rest: %+v", got)
	}
}

// anyState draws states as a damaged store may hold them.
func anyState(t *rapid.T) State {
	at := func(name string) time.Time {
		return t0.Add(time.Duration(rapid.Int64Range(-int64(100*time.Hour), int64(100*time.Hour)).Draw(t, name)))
	}
	s := State{
		Phase: Phase(rapid.IntRange(-1, 4).Draw(t, "phase")), Failures: rapid.IntRange(-9, 9).Draw(t, "failures"), FirstFailure: at("first"),
		OpenUntil: at("open"), ProbeUntil: at("probe"), Opens: rapid.IntRange(-9, 99).Draw(t, "opens"),
		Generation: rapid.Uint64Range(0, math.MaxUint32).Draw(t, "generation"), Since: at("since"),
	}
	for i := range rapid.IntRange(0, len(s.Changes)).Draw(t, "changes") {
		s.Changes[i] = at("change")
	}
	if rapid.Bool().Draw(t, "forced") {
		s.Force = Force{Phase: Phase(rapid.IntRange(-1, 4).Draw(t, "forced to")), Until: at("until"), At: at("at"), Reason: "r", By: "b"}
	}
	return s
}

// Whatever the store held and wherever its clock stood: from then on a request
// passes within the bounds.
func TestNothingShutsForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := anyState(t), t0
		for range rapid.IntRange(0, 3).Draw(t, "jumps") { // of the clock, each seen
			s, _, _ = testCfg.Allow(s, now, 0)
			now = now.Add(time.Duration(rapid.Int64Range(-int64(50*time.Hour), int64(50*time.Hour)).Draw(t, "jump")))
		}
		end := now.Add(MaxForce + testCfg.OpenMax + testCfg.ProbeLease)
		s, ok, retryAt := testCfg.Allow(s, now, 0)
		for !ok {
			if !retryAt.After(now) || retryAt.After(now.Add(testCfg.OpenMax)) {
				t.Fatalf("ask again at %s, now %s", retryAt, now)
			}
			if now = now.Add(max(retryAt.Sub(now), 7*time.Minute)); now.After(end.Add(7 * time.Minute)) {
				t.Fatalf("still shut: %+v", s)
			}
			s, ok, retryAt = testCfg.Allow(s, now, 0)
		}
	})
}

// A random life with an operator in it.
func TestForceModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := anyState(t), t0
		s.Force = Force{}
		var held Force
		var out []uint64 // generations that permits were given under
		cfg := testCfg
		if rapid.Bool().Draw(t, "deadline") {
			cfg.Deadline = t0.Add(time.Hour)
		}
		u := func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "u") }
		newGeneration := func(was State) {
			if s.Generation <= was.Generation {
				t.Fatalf("generation %d after %d", s.Generation, was.Generation)
			}
			for _, gen := range out {
				if got := cfg.Record(s, gen, Fail, now, 0); got != s {
					t.Fatalf("an answer from before changed %+v to %+v", s, got)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"allow": func(t *rapid.T) {
				was := s
				next, ok, at := cfg.Allow(s, now, u())
				switch {
				case held.Holds(now) && held.Phase == Open && (ok || !at.After(now) || at.After(held.Until)):
					t.Fatalf("forced open until %s: %v, ask at %s, now %s", held.Until, ok, at, now)
				case held.Holds(now) && held.Phase == Closed && !ok:
					t.Fatalf("forced closed until %s and refused at %s: %+v", held.Until, now, next)
				case held.Holds(now) && next.Force != held:
					t.Fatalf("force %+v became %+v", held, next.Force)
				case held != Force{} && !held.Holds(now) && (!ok || next.Phase != map[Phase]Phase{Open: HalfOpen, Closed: Closed}[held.Phase] || next.Force != Force{}):
					t.Fatalf("force %+v ended in %v %+v", held, ok, next)
				}
				s = next
				if held != (Force{}) && !held.Holds(now) {
					held = Force{}
					newGeneration(was)
				}
				if ok {
					out = append(out, s.Generation)
				}
			},
			"record": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing under way")
				}
				v := rapid.SampledFrom([]Verdict{OK, Fail, Fail, Neutral}).Draw(t, "verdict")
				next := cfg.Record(s, rapid.SampledFrom(out).Draw(t, "permit"), v, now, u())
				if held != (Force{}) && next != s {
					t.Fatalf("verdict %d under force %+v changed %+v to %+v", v, held, s, next)
				}
				s = next
			},
			"force": func(t *rapid.T) {
				was := s
				p := rapid.SampledFrom([]Phase{Open, Closed}).Draw(t, "to")
				s = force(s, p, time.Duration(rapid.Int64Range(1, int64(30*time.Hour)).Draw(t, "for")), now)
				held = s.Force
				if s.Phase != p || held.Phase != p || held.Until.After(now.Add(MaxForce)) || s.Changes != was.Changes && was.Phase >= Closed && was.Phase <= Open {
					t.Fatalf("forced to %s: %+v", p, s)
				}
				newGeneration(was)
			},
			"reset": func(t *rapid.T) {
				was := cfg.sane(s, now) // mending makes no generation
				s, held = cfg.Reset(s, now), Force{}
				if s.Phase != Closed || s.Failures != 0 || s.Force != (Force{}) {
					t.Fatalf("reset to %+v", s)
				}
				if s != was {
					newGeneration(was)
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(9*time.Hour)).Draw(t, "d")))
			},
			"": func(t *rapid.T) {
				data, err := json.Marshal(s)
				var back State
				if err == nil {
					err = json.Unmarshal(data, &back)
				}
				if err != nil || back != s {
					t.Fatalf("%s reads back as %+v, %v", data, back, err)
				}
			},
		})
	})
}
