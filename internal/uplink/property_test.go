package uplink

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var steps = rapid.SampledFrom([]time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second, 3 * time.Second, 40 * time.Second})

// play gives a Watch without targets up to 300 attempts on two paths and calls
// check after each.
func play(t *rapid.T, draw func() Attempt, check func(w *Watch, now time.Time, a Attempt)) {
	w, now := New(Config{}), t0
	for range rapid.IntRange(1, 300).Draw(t, "attempts") {
		now = now.Add(steps.Draw(t, "step"))
		a := draw()
		a.Path = rapid.SampledFrom([]string{"primary", "fallback"}).Draw(t, "path")
		w.Saw(now, a)
		check(w, now, a)
	}
}

// A server may die, answer with whatever it likes, or come and go: as long as what
// it answers came by a link that loses less than a tenth, no machine doubts its own.
func TestNoServerMakesTheUplinkBad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Uint64Range(0, 1000)
		play(t, func() Attempt {
			a := Attempt{Answered: rapid.Bool().Draw(t, "answered"), Segments: count.Draw(t, "segments"), Lost: count.Draw(t, "lost")}
			if a.Answered {
				a.Lost %= a.Segments/lossy + 1
				a.Lost -= min(a.Lost, 1)
			}
			return a
		}, func(w *Watch, now time.Time, _ Attempt) {
			if why, bad := w.Bad(now); bad {
				t.Fatal(why)
			}
		})
	})
}

// A fault of the machine holds from the first attempt that meets it to the first
// answer by the same path, or until it is old.
func TestOwnFaultsByAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := make(map[string]time.Time)
		play(t, func() Attempt {
			kind := rapid.IntRange(0, 2).Draw(t, "kind")
			return Attempt{Answered: kind == 0, Own: kind == 1}
		}, func(w *Watch, now time.Time, a Attempt) {
			if a.Answered {
				delete(own, a.Path)
			} else if a.Own {
				own[a.Path] = now
			}
			some := false
			for _, path := range []string{"primary", "fallback"} {
				since, ok := own[path]
				want := ok && now.Sub(since) < 10*time.Minute
				some = some || want
				if s, why := w.Judge(now, path); (s == Bad) != want {
					t.Fatalf("%s: %v, %q, want bad: %v", path, s, why, want)
				}
			}
			if _, bad := w.Bad(now); bad != some {
				t.Fatalf("bad: %v", bad)
			}
		})
	})
}

// Loss is claimed only where the answered attempts of some time up to now hold the
// evidence: 200 segments, a tenth of them lost.
func TestLossNeedsEvidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l link
		var all []Attempt
		now := t0
		for range rapid.IntRange(1, 150).Draw(t, "attempts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "step")) * time.Millisecond)
			n := rapid.Uint64Range(0, 40).Draw(t, "segments")
			a := Attempt{Answered: rapid.IntRange(0, 3).Draw(t, "answered") > 0, Segments: n, Lost: n * rapid.Uint64Range(0, 30).Draw(t, "share") / 100}
			l, all = l.saw(now, a), append(all, a)
			if l.fault(now) == "" {
				continue
			}
			found := false
			var segments, lost uint64
			for i := len(all) - 1; i >= 0 && !found; i-- {
				if all[i].Answered {
					segments, lost = segments+all[i].Segments, lost+all[i].Lost
				}
				found = segments >= 200 && 10*lost >= segments
			}
			if !found {
				t.Fatalf("claimed after %d attempts: %+v", len(all), l.slices)
			}
		}
	})
}

// Steady loss is found whatever the pace, once there was enough of it.
func TestSteadyLossIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := time.Duration(rapid.IntRange(10, 1000).Draw(t, "step")) * time.Millisecond
		a := Attempt{Answered: true, Segments: 10, Lost: rapid.Uint64Range(1, 10).Draw(t, "lost")}
		before := rapid.IntRange(0, 2000).Draw(t, "clean before")
		l, now := seen(link{}, t0, before, step, Attempt{Answered: true, Segments: 10})
		l, now = seen(l, now, int(30*time.Second/step)+1, step, a)
		if l.fault(now) == "" {
			t.Fatalf("not found: %+v", l.slices)
		}
	})
}
