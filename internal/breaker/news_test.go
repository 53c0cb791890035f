package breaker_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/breaker"
)

// diary writes down what a breaker tells.
func diary(told *[]string) func(breaker.News) {
	return func(n breaker.News) {
		line := fmt.Sprint(n.Was.Phase, ">", n.Is.Phase)
		if n.Was.Force != n.Is.Force {
			line += " " + n.Is.Force.Reason + "."
		}
		if n.Thrashes {
			line += " thrashes"
		}
		*told = append(*told, line)
	}
}

// An operator beside two processes on one file: each tells once what he did, and
// what became of it by itself, and minds it within the refresh.
func TestBreakersMindAnOperator(t *testing.T) {
	path := filepath.Join(t.TempDir(), "breaker.json")
	synctest.Test(t, func(t *testing.T) {
		var told [2][]string
		var both [2]*breaker.Breaker
		for i := range both {
			both[i] = breaker.New(cfg, breaker.NewFile(path), "primary", diary(&told[i]))
			call(t, both[i], breaker.OK)
		}
		operator := breaker.NewFile(path)
		do := func(fn func(s breaker.State, now time.Time) breaker.State) {
			t.Helper()
			if _, err := operator.Update(t.Context(), "primary", fn); err != nil {
				t.Fatal(err)
			}
			time.Sleep(250 * time.Millisecond)
		}
		hold := func(p breaker.Phase, d time.Duration, why string) {
			t.Helper()
			do(func(s breaker.State, now time.Time) breaker.State {
				return cfg.Force(s, breaker.Force{Phase: p, Until: now.Add(d), Reason: why}, now)
			})
		}
		refused := func() {
			t.Helper()
			for range 20 {
				for _, b := range both {
					if _, at, ok, err := b.Allow(time.Now()); ok || err != nil || time.Until(at) > time.Second {
						t.Fatalf("%v, %v, ask at %s", ok, err, at)
					}
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		hold(breaker.Open, time.Hour, "moves")
		refused()
		hold(breaker.Open, 2*time.Hour, "moves slowly")
		refused()
		do(cfg.Reset)
		for _, b := range both {
			call(t, b, breaker.Fail)
		}
		hold(breaker.Closed, time.Minute, "is well")
		for range 20 {
			for _, b := range both {
				call(t, b, breaker.Fail)
			}
		}
		time.Sleep(time.Minute)
		call(t, both[0], breaker.OK)
		time.Sleep(250 * time.Millisecond)
		call(t, both[1], breaker.OK)
		hold(breaker.Open, time.Minute, "again")
		refused()
		time.Sleep(time.Minute)
		call(t, both[0], breaker.OK)
		time.Sleep(250 * time.Millisecond)
		call(t, both[1], breaker.OK)
		want := []string{"closed>open moves.", "open>open moves slowly.", "open>closed .", "closed>closed is well.", "closed>closed .", "closed>open again.", "open>half-open .", "half-open>closed"}
		if !slices.Equal(told[0], want) {
			t.Errorf("the first told  %q\nwant %q", told[0], want)
		}
		want = append(want[:6:6], "open>closed .") // the probe was the other's
		if !slices.Equal(told[1], want) {
			t.Errorf("the second told %q\nwant %q", told[1], want)
		}
	})
}

// What was there before is news to a process that starts.
func TestBreakerFindsAForceAtTheStart(t *testing.T) {
	store := breaker.NewMemory()
	if _, err := store.Update(t.Context(), "primary", func(s breaker.State, now time.Time) breaker.State {
		return cfg.Force(s, breaker.Force{Phase: breaker.Closed, Until: now.Add(time.Hour), Reason: "is well"}, now)
	}); err != nil {
		t.Fatal(err)
	}
	var told []string
	b := breaker.New(cfg, store, "primary", diary(&told))
	for range 10 {
		call(t, b, breaker.Fail)
	}
	if want := []string{"closed>closed is well."}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestBreakerTellsOfThrashingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		b := breaker.New(cfg, breaker.NewMemory(), "primary", diary(&told))
		flap := func() {
			for range 3 {
				call(t, b, breaker.Fail)
			}
			time.Sleep(time.Until(b.State().OpenUntil))
			call(t, b, breaker.OK)
		}
		const round = 3 // changes of phase
		for range 6 {
			flap()
		}
		time.Sleep(2 * time.Hour)
		for range 4 {
			flap()
		}
		var at []int
		for i, line := range told {
			if line == "closed>open thrashes" {
				at = append(at, i)
			}
		}
		if want := []int{3 * round, 9 * round}; !slices.Equal(at, want) || len(told) != 10*round {
			t.Errorf("told at %v, want %v, of\n%q", at, want, told)
		}
	})
}
