package netpath

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 7, 17, 0, 0, 0, 0, time.UTC) // a Friday

func two(ws Windows) *Chooser {
	return NewChooser(Config{Names: []string{"primary", "fallback"}, Windows: ws, Canary: 0.01})
}

func wantOrder(t *testing.T, c *Chooser, now time.Time, u float64, want ...int) {
	t.Helper()
	if got, _ := c.Order(now, u); !slices.Equal(got, want) {
		t.Fatalf("after %s, u %.3f: order %v, want %v", now.Sub(t0), u, got, want)
	}
}

func TestRefusedPathIsTriedAtItsTimeAndByTheCanary(t *testing.T) {
	c, retry := two(nil), t0.Add(30*time.Second)
	wantOrder(t, c, t0, 0, 0, 1)
	c.Refused(0, retry, t0)
	wantOrder(t, c, t0, 0.5, 1, 0)
	wantOrder(t, c, t0, 0.009, 0, 1)
	wantOrder(t, c, retry.Add(-1), 0.01, 1, 0)
	wantOrder(t, c, retry, 0.5, 0, 1) // the probe, once
	wantOrder(t, c, retry, 0.5, 1, 0)
	wantOrder(t, c, retry.Add(6*time.Second), 0.5, 0, 1) // and again after a fifth of the failback
	wantOrder(t, c, retry.Add(6*time.Second), 0.5, 1, 0)
}

func TestReturnTakesAnswersAndTime(t *testing.T) {
	s := time.Second
	type result struct {
		at time.Duration
		v  Verdict
	}
	for _, c := range []struct {
		name    string
		results []result
		trusted bool
	}{
		{"five and 30 s", []result{{0, OK}, {s, OK}, {2 * s, OK}, {3 * s, OK}, {30 * s, OK}}, true},
		{"four", []result{{0, OK}, {s, OK}, {2 * s, OK}, {30 * s, OK}}, false},
		{"too early", []result{{0, OK}, {s, OK}, {2 * s, OK}, {3 * s, OK}, {30*s - 1, OK}}, false},
		{"neutral does not count", []result{{0, OK}, {s, OK}, {2 * s, OK}, {3 * s, Neutral}, {30 * s, OK}}, false},
		{"a failure starts anew", []result{{0, OK}, {s, OK}, {2 * s, Fail}, {3 * s, OK}, {30 * s, OK}, {31 * s, OK}}, false},
		{"and doubles", []result{{0, OK}, {1, Fail}, {s, OK}, {2 * s, OK}, {3 * s, OK}, {4 * s, OK}, {61*s - 1, OK}}, false},
		{"to twice as long", []result{{0, OK}, {1, Fail}, {s, OK}, {2 * s, OK}, {3 * s, OK}, {4 * s, OK}, {61 * s, OK}}, true},
		{"many at once double once", []result{{0, OK}, {1, Fail}, {1, Fail}, {1, Fail}, {s, OK}, {2 * s, OK}, {3 * s, OK}, {4 * s, OK}, {61 * s, OK}}, true},
		{"down is no return", []result{{0, Fail}, {1, Fail}, {s, OK}, {2 * s, OK}, {3 * s, OK}, {4 * s, OK}, {31 * s, OK}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ch := two(nil)
			ch.Refused(0, t0, t0)
			for _, r := range c.results {
				ch.Done(0, r.v, 100, t0.Add(r.at))
			}
			if got := ch.Status(t0.Add(time.Hour))[0].Trusted; got != c.trusted {
				t.Errorf("trusted: %v", got)
			}
		})
	}
}

// comeBack lets a path be well until it is trusted and returns how long that took.
func comeBack(t *testing.T, c *Chooser, now time.Time) (time.Time, time.Duration) {
	t.Helper()
	for from := now; now.Sub(from) < time.Hour; now = now.Add(time.Second) {
		c.Done(0, OK, 1, now)
		if c.Status(now)[0].Trusted {
			return now, now.Sub(from)
		}
	}
	t.Fatal("never trusted again")
	return now, 0
}

func TestFailbackDoublesAndHalves(t *testing.T) {
	c, now := two(nil), t0
	lose := func(after, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		c.Refused(0, now, now)
		var took time.Duration
		if now, took = comeBack(t, c, now); took != want {
			t.Fatalf("came back after %s, want %s", took, want)
		}
	}
	lose(time.Second, 30*time.Second) // what was trusted from the start has not returned yet
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		lose(time.Second, want*time.Minute) // a trust that did not last
	}
	lose(10*time.Minute, 5*time.Minute)
	lose(30*time.Minute, 37500*time.Millisecond+500*time.Millisecond) // 5 min halved three times, in whole seconds
	lose(24*time.Hour, 30*time.Second)
}

func TestWithoutAnotherPathItIsUsedAtOnce(t *testing.T) {
	c := two(nil)
	c.Refused(0, t0.Add(30*time.Second), t0)
	c.Refused(1, t0.Add(20*time.Second), t0)
	wantOrder(t, c, t0, 0.5, 0, 1)
	wantOrder(t, c, t0.Add(20*time.Second), 0.5, 1, 0) // its probe
	wantOrder(t, c, t0.Add(20*time.Second), 0.5, 1, 0) // and no longer known to be shut
	wantOrder(t, c, t0.Add(30*time.Second), 0.5, 0, 1) // likewise
	wantOrder(t, c, t0.Add(30*time.Second), 0.5, 1, 0) // a trial of the other
	wantOrder(t, c, t0.Add(30*time.Second), 0.5, 0, 1)
	one := NewChooser(Config{Names: []string{"primary"}})
	one.Refused(0, t0.Add(time.Hour), t0)
	wantOrder(t, one, t0, 0.5, 0)
}

func TestWindowPutsAPathBehind(t *testing.T) {
	begin, end := t0.Add(2*time.Hour), t0.Add(8*time.Hour)
	c := two(windows(t, "primary 02:00 08:00 fri"))
	wantOrder(t, c, begin.Add(-1), 0.5, 0, 1)
	wantOrder(t, c, begin, 0.001, 1, 0) // not even as a canary
	if s := c.Status(begin)[0]; !s.InWindow || s.Until != end || !s.Trusted {
		t.Fatalf("%+v", s)
	}
	c.Refused(1, end, begin) // the other one is down: still behind it, and asked
	wantOrder(t, c, begin, 0.5, 1, 0)
	wantOrder(t, c, end.Add(-1), 0.5, 1, 0)
	c.Done(1, OK, 1, end.Add(-1))
	for i := range 6 {
		c.Done(1, OK, 1, end.Add(-time.Minute).Add(time.Duration(i)*10*time.Second))
	}
	wantOrder(t, c, end, 0.5, 0, 1) // one request tries it
	wantOrder(t, c, end, 0.5, 1, 0) // and until it has shown itself
	if s := c.Status(end)[0]; s.InWindow || !s.Until.IsZero() || s.Trusted {
		t.Fatalf("%+v", s)
	}
}

func TestWindowThatNobodySawTakesTrustAway(t *testing.T) {
	c := two(windows(t, "primary 02:00 08:00"))
	wantOrder(t, c, t0, 0.5, 0, 1)
	wantOrder(t, c, t0.Add(9*time.Hour), 0.5, 0, 1) // the trial
	wantOrder(t, c, t0.Add(9*time.Hour), 0.5, 1, 0)
}

func TestWindowsOfAllPaths(t *testing.T) {
	c := two(windows(t, "primary 02:00 08:00", "fallback 03:00 04:00"))
	wantOrder(t, c, t0.Add(150*time.Minute), 0.5, 1, 0)
	wantOrder(t, c, t0.Add(200*time.Minute), 0.5, 0, 1)
	wantOrder(t, c, t0.Add(241*time.Minute), 0.5, 1, 0)
}

func TestAlwaysInAWindowNeverEnds(t *testing.T) {
	c := two(windows(t, "primary 00:00 24:00"))
	for d := range 60 {
		wantOrder(t, c, t0.Add(time.Duration(d)*7*time.Hour), 0.5, 1, 0)
	}
	if !c.Status(t0.Add(60 * 7 * time.Hour))[0].Trusted {
		t.Error("an end was seen")
	}
}

func TestClockThatJumps(t *testing.T) {
	boot := time.Date(1970, 1, 1, 0, 0, 10, 0, time.UTC)
	for _, jump := range [][2]time.Time{{boot, t0.Add(3 * time.Hour)}, {t0.Add(3 * time.Hour), boot}} {
		c := two(windows(t, "primary 02:00 08:00 fri"))
		in := map[bool][]int{true: {1, 0}, false: {0, 1}}
		for _, now := range jump {
			inside := !now.Equal(boot)
			wantOrder(t, c, now, 0.5, in[inside]...)
			c.Done(1, OK, 1, now)
		}
		planned, unplanned := c.FallbackFor(jump[1])
		if planned < 0 || unplanned < 0 {
			t.Errorf("negative times %s, %s", planned, unplanned)
		}
	}
	// A return that is under way when the clock is set back goes on.
	c := two(nil)
	c.Refused(0, t0, t0)
	c.Done(0, OK, 1, t0)
	if _, took := comeBack(t, c, boot); took != 30*time.Second {
		t.Errorf("came back after %s", took)
	}
}

func TestQuotas(t *testing.T) {
	c := NewChooser(Config{Names: []string{"primary", "cell", "sat"}, Quota: map[int]Quota{1: {Bytes: 1000}, 2: {Share: 0.1}}})
	wantOrder(t, c, t0, 0.5, 0, 1, 2)
	c.Done(1, Neutral, 0, t0) // never sent
	c.Done(1, OK, 999, t0)
	wantOrder(t, c, t0, 0.5, 0, 1, 2)
	c.Done(1, Neutral, 1, t0) // sent, though it told nothing
	wantOrder(t, c, t0, 0.5, 0, 2)
	c.Done(2, Fail, 10, t0)
	wantOrder(t, c, t0, 0.5, 0) // 1 of 3
	for range 7 {
		c.Done(0, OK, 1, t0)
	}
	wantOrder(t, c, t0, 0.5, 0, 2) // 1 of 10
	if s := c.Status(t0); s[1].Sent != 2 || s[1].Bytes != 1000 || s[2].Sent != 1 || s[0].Bytes != 7 {
		t.Errorf("%+v", s)
	}
	spent := NewChooser(Config{Names: []string{"cell"}, Quota: map[int]Quota{0: {Bytes: 1}}})
	spent.Done(0, OK, 1, t0)
	wantOrder(t, spent, t0, 0.5)
}

// A window that closes a path leaves it out, also as a trial and as the last one;
// windows that only put it behind do not.
func TestClosedPathIsLeftOut(t *testing.T) {
	ws := windows(t, "primary 01:00 05:00 fri", "primary 02:00 03:00 fri", "primary 03:00 04:00 fri", "fallback 03:30 03:45")
	for i := range ws[1:] {
		ws[i+1].closed = true
	}
	c, h := two(ws), func(hours float64) time.Time { return t0.Add(time.Duration(hours * float64(time.Hour))) }
	closed := func(path int, now time.Time, want ...float64) {
		t.Helper()
		from, to, ok := c.Closed(path, now)
		if ok != (len(want) == 2) || ok && (from != h(want[0]) || to != h(want[1])) {
			t.Fatalf("path %d after %s: closed %v, from %s to %s", path, now.Sub(t0), ok, from, to)
		}
	}
	wantOrder(t, c, h(1), 0.5, 1, 0)
	closed(0, h(2).Add(-1))
	wantOrder(t, c, h(2), 0.001, 1)
	closed(0, h(2), 2, 4) // they meet: one window
	closed(1, h(2))
	wantOrder(t, c, h(3.5), 0.5)
	closed(0, h(3.5), 2, 4)
	closed(1, h(3.5), 3.5, 3.75)
	wantOrder(t, c, h(3.75), 0.001, 1)
	wantOrder(t, c, h(4), 0.5, 1, 0) // open, and still inside the wider window
	closed(0, h(4))
	wantOrder(t, c, h(2), 0.5, 1) // the clock was set back
	closed(0, h(2), 2, 4)
	one := NewChooser(Config{Names: []string{"primary"}, Windows: ws})
	one.Refused(0, h(2), h(1.9))
	wantOrder(t, one, h(2), 0.001) // no probe either
}

func TestWithoutACanaryOnlyTrialsComeBack(t *testing.T) {
	c := NewChooser(Config{Names: []string{"primary", "fallback"}})
	c.Refused(0, t0.Add(30*time.Second), t0)
	wantOrder(t, c, t0.Add(time.Second), 0, 1, 0)
	wantOrder(t, c, t0.Add(30*time.Second), 0.5, 0, 1)
}

func TestCanaryOfTheFallback(t *testing.T) {
	c := NewChooser(Config{Names: []string{"primary", "fallback"}, CanaryFallback: 0.02, Windows: windows(t, "fallback 02:00 08:00")})
	wantOrder(t, c, t0, 0.979, 0, 1)
	wantOrder(t, c, t0, 0.981, 1, 0)
	wantOrder(t, c, t0.Add(3*time.Hour), 0.999, 0, 1)
	if planned, unplanned := c.FallbackFor(t0.Add(3 * time.Hour)); planned != 0 || unplanned != 0 {
		t.Errorf("trials counted: %s, %s", planned, unplanned)
	}
}

func TestFallbackWatch(t *testing.T) {
	c := two(windows(t, "primary 02:00 08:00"))
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	c.Order(at(0), 0.5)
	c.Refused(0, at(2*time.Minute), at(time.Minute))
	if s := c.Status(at(90 * time.Second)); s[1].OnFallbackSince != at(time.Minute) || s[1].FallbackTotal != 30*time.Second || !s[0].OnFallbackSince.IsZero() {
		t.Fatalf("%+v", s)
	}
	c.Done(0, OK, 1, at(2*time.Minute)) // a trial
	now, _ := comeBack(t, c, at(2*time.Minute))
	back := now.Sub(t0)
	if s := c.Status(at(time.Hour)); !s[1].OnFallbackSince.IsZero() || s[1].FallbackTotal != back-time.Minute {
		t.Fatalf("%+v", s)
	}
	c.Order(at(2*time.Hour), 0.5)
	c.Order(at(7*time.Hour), 0.5)
	planned, unplanned := c.FallbackFor(at(7*time.Hour + time.Minute))
	if planned != 5*time.Hour+time.Minute || unplanned != back-time.Minute {
		t.Errorf("planned %s, unplanned %s", planned, unplanned)
	}
	// Both down: the one that is asked first is not on fallback.
	down := two(nil)
	down.Refused(0, at(time.Hour), at(0))
	down.Refused(1, at(time.Hour), at(0))
	if _, unplanned := down.FallbackFor(at(time.Minute)); unplanned != 0 {
		t.Errorf("%s on a path that was shut", unplanned)
	}
	// One of them not: requests go by it, trusted or not.
	down.Done(1, OK, 1, at(time.Minute))
	if _, unplanned := down.FallbackFor(at(2 * time.Minute)); unplanned != time.Minute {
		t.Errorf("%s on fallback", unplanned)
	}
}

func TestChooserServesMany(t *testing.T) {
	c := two(windows(t, "primary 02:00 08:00"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				now := t0.Add(time.Duration(i) * time.Second)
				order, _ := c.Order(now, rand.Float64())
				path := order[0]
				if i%50 == 0 {
					c.Refused(path, now.Add(time.Second), now)
				}
				c.Done(path, Verdict(i%3), 1, now)
				c.Status(now)
				c.FallbackFor(now)
			}
		})
	}
	wg.Wait()
	s := c.Status(t0)
	if n := s[0].Sent + s[1].Sent; n != 8*500 {
		t.Errorf("%d sent", n)
	}
}

func BenchmarkOrder(b *testing.B) {
	c := two(windows(b, "primary 02:00 08:00"))
	for b.Loop() {
		c.Order(t0, 0.5)
	}
}

func ExampleChooser() {
	c := NewChooser(Config{Names: []string{"primary", "fallback"}})
	now := time.Date(2026, 7, 17, 2, 0, 0, 0, time.UTC)
	fmt.Println(c.Order(now, 0.5))
	c.Refused(0, now.Add(30*time.Second), now)
	fmt.Println(c.Order(now, 0.5))
	fmt.Println(c.Order(now.Add(30*time.Second), 0.5)) // the probe
	// Output:
	// [0 1] false
	// [1 0] false
	// [0 1] true
}
