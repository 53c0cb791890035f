package failover

import (
	"slices"
	"testing"
	"time"
)

// damped is a machine whose level of damping is so high that a backup is kept for half
// an hour, with an outage of the preferred uplink after that.
func damped(out, back time.Duration) *world {
	w := newWorld(func(i int, t time.Duration) bool { return i == 1 || !within(t, out, back) }).run(time.Minute)
	w.s.Level, w.s.LevelAt = 5, w.t
	return w
}

// What a person chose for a minute costs a minute, however often there was a failover: if
// what is preferred was up all the time. A dwell that began before goes on after it.
func TestDrillIsNotDamped(t *testing.T) {
	drill := func(w *world, uplink int) *world {
		w.s = w.c.Force(w.s, Forced{Uplink: uplink, Until: w.t + time.Minute, Why: "a drill"})
		return w
	}
	w := drill(damped(0, 0), 1).run(90 * time.Second)
	if o := w.c.Outlook(w.s, w.now())[0]; o.Earliest != Seconds(30*time.Second) {
		t.Errorf("%+v", o)
	}
	w.run(time.Hour).want(t, "2s leo", "1m1s lte", "2m0s leo")
	drill(damped(70*time.Second, 90*time.Second), 1).run(time.Hour).want(t, "2s leo", "1m1s lte", "31m1s leo")
	// It is left for an outage, and a drill of what carries then changes nothing.
	w = damped(70*time.Second, 90*time.Second).run(5 * time.Minute)
	drill(w, 1).run(time.Hour).want(t, "2s leo", "1m21s lte", "31m21s leo")
}

// A choice of what is active has nobody asked oftener than else, but for the minute before
// its end; and one of what does not answer only as long as it may yet.
func TestChoiceDoesNotSpend(t *testing.T) {
	for name, c := range map[string]struct {
		uplink    int
		backup    bool
		low, high int
	}{"of what is active": {0, true, 2850, 2950}, "of what is dead": {1, false, 2800, 2950}} {
		rounds := 0
		w := newWorld(func(i int, _ time.Duration) bool {
			rounds += i
			return i == 0 || c.backup
		})
		w.run(10 * time.Minute)
		rounds = 0
		w.s = w.c.Force(w.s, Forced{Uplink: c.uplink, Until: w.t + 23*time.Hour, Why: "the dish is moved"})
		w.run(24*time.Hour+10*time.Minute).want(t, "2s leo")
		if rounds < c.low || rounds > c.high {
			t.Errorf("%s: %d rounds of the metered uplink in a day, want one each 30 s", name, rounds)
		}
	}
}

// What was asked before a person's choice does not count for it, though there was doubt
// already.
func TestDoubtBeginsAnew(t *testing.T) {
	w := newWorld(func(i int, t time.Duration) bool { return i == 1 || t/time.Second%10 > 2 }).run(5 * time.Minute)
	if w.s.Active != 0 || w.s.Doubt == 0 || w.s.Doubt > 2*time.Minute {
		t.Fatalf("%d is active, in doubt since %v", w.s.Active, w.s.Doubt)
	}
	w.s = w.c.Force(w.s, Forced{Uplink: 1, Until: time.Hour, Why: "a drill"})
	if s, _ := w.c.Decide(w.s, w.now()); s.Doubt != w.t || s.Active != 0 {
		t.Errorf("%d is active, in doubt since %v, not %v", s.Active, s.Doubt, w.t)
	}
}

// One is gone to by what was asked for since it may be needed: but it is not waited for
// without end, where a target cannot be asked.
func TestOldAnswersAreNotGoneBy(t *testing.T) {
	for name, c := range map[string]struct {
		age  time.Duration
		want string
	}{"asked anew": {0, "1m11s lte"}, "cannot be": {time.Minute, "1m15s lte"}} {
		rules := leo
		rules.Suspect, rules.BadOf, rules.Of = 11, 60, 60 // or the wait is over before the verdict
		w := newWorldOf(Config{Uplinks: []Uplink{{Name: "leo"}, {Name: "lte"}}, Rules: rules}, nil)
		for ; w.t < 2*time.Minute; w.t += time.Second {
			w.s = w.c.Saw(w.s, 0, Round{At: w.t, OK: w.t < time.Minute})
			w.s = w.c.Saw(w.s, 1, Round{At: w.t, OK: true, Age: c.age})
			var d Decision
			w.s, d = w.c.Decide(w.s, w.now())
			for _, e := range d.Events {
				w.said = append(w.said, w.t.String()+" "+e.What+" "+e.Uplink)
			}
		}
		if got := w.switches(); !slices.Equal(got, []string{"2s leo", c.want}) {
			t.Errorf("%s: %q", name, w.said)
		}
	}
}
