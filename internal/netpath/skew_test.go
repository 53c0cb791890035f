package netpath

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// closing closes the primary from 02:00 to 08:00. It returns what is told, too.
func closing(t *testing.T, skew *time.Duration) (*Chooser, *[]string) {
	t.Helper()
	var told []string
	w := mustParse(t, Spec{Path: "primary", From: "02:00", To: "08:00", Closed: true})
	return NewChooser(Config{
		Names: []string{"primary", "fallback"}, Windows: Windows{w},
		Skew: func() time.Duration { return *skew },
		Notify: func(path int, n News, until time.Time) {
			told = append(told, fmt.Sprint(path, n, until.Format(" 02 15:04")))
		},
	}), &told
}

func wantClosed(t *testing.T, c *Chooser, now time.Time, want ...time.Time) {
	t.Helper()
	from, to, ok := c.Closed(0, now)
	if ok != (len(want) == 2) || ok && (!from.Equal(want[0]) || !to.Equal(want[1])) {
		t.Fatalf("at %s: closed %v, from %s to %s", now, ok, from, to)
	}
	if c.InWindow(0, now) != ok {
		t.Fatalf("at %s: in a window, and closed %v", now, ok)
	}
}

func TestClockBehind(t *testing.T) {
	skew := 3 * time.Hour
	c, told := closing(t, &skew)
	from, to := utc("2026-07-16 23:00"), utc("2026-07-17 05:00") // as our clock shows them
	wantOrder(t, c, from.Add(-1), 0.5, 0, 1)
	wantClosed(t, c, from.Add(-1))
	wantOrder(t, c, from, 0.5, 1)
	wantClosed(t, c, from, from, to)
	if got := c.Status(from)[0]; !got.InWindow || !got.Until.Equal(utc("2026-07-17 08:00")) {
		t.Errorf("%+v", got)
	}
	wantOrder(t, c, to.Add(-1), 0.5, 1)
	wantOrder(t, c, to, 0.5, 0, 1) // a trial: its trust is gone
	wantClosed(t, c, to)
	if want := []string{"0 0 17 08:00", "0 1 01 00:00"}; !slices.Equal(*told, want) {
		t.Errorf("told %q, want %q", *told, want)
	}
	if planned, unplanned := c.FallbackFor(to); planned != 6*time.Hour || unplanned != 0 {
		t.Errorf("on fallback for %s and %s", planned, unplanned)
	}
}

// The skew is found and lost while the run is on.
func TestSkewThatAppears(t *testing.T) {
	const h = time.Hour
	var skew time.Duration
	c, told := closing(t, &skew)
	now := utc("2026-07-17 01:00")
	wantOrder(t, c, now, 0.5, 0, 1)
	wantClosed(t, c, now)

	skew = 3 * h // it is 04:00
	wantClosed(t, c, now, now.Add(-2*h), now.Add(4*h))
	wantOrder(t, c, now, 0.5, 1)

	skew = 4 * h // 05:00
	wantClosed(t, c, now, now.Add(-3*h), now.Add(3*h))
	wantOrder(t, c, now, 0.5, 1)

	skew = 0 // the window is yet to come, and did not end
	wantClosed(t, c, now)
	wantOrder(t, c, now, 0.5, 0, 1)
	if !c.Status(now)[0].Trusted {
		t.Error("a window that is yet to come took the trust")
	}

	skew = 9 * h // it is 10:00, and the window has passed
	wantOrder(t, c, now, 0.5, 0, 1)
	if c.Status(now)[0].Trusted {
		t.Error("a window that passed left the trust")
	}
	if want := []string{"0 0 17 08:00", "0 1 01 00:00"}; !slices.Equal(*told, want) {
		t.Errorf("told %q, want %q", *told, want)
	}
}

func TestStoodInAWindowOfTheRightTime(t *testing.T) {
	w := mustParse(t, Spec{Path: "primary", From: "00:10", To: "00:20", Closed: true})
	const m = time.Minute
	c := NewChooser(Config{Names: []string{"primary"}, Windows: Windows{w}, Skew: func() time.Duration { return -90 * m }})
	for _, at := range []time.Duration{90 * m, 105 * m, 120 * m} { // 00:00, 00:15, 00:30
		c.Order(t0.Add(at), 0.5)
	}
	if got, want := c.Stood(t0.Add(3*time.Hour)), []Still{{5 * m, []Cause{InMaintenance}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A wrong clock that is corrected leads the same life as one that is right, also
// where clocks are set for the summer: of all that is returned only the end and
// the beginning of a closed window are times of its own.
func TestCorrectedClockProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		skew := time.Duration(rapid.Int64Range(-int64(72*time.Hour), int64(72*time.Hour)).Draw(t, "skew"))
		_, w := drawWindow(t, "a")
		w.closed = rapid.Bool().Draw(t, "closed")
		cfg := Config{Names: []string{"a", "b"}, Windows: Windows{w}, Quota: map[int]Quota{1: {Share: 0.8}}}
		right := NewChooser(cfg)
		cfg.Skew = func() time.Duration { return skew }
		wrong := NewChooser(cfg)
		each := func(call func(*Chooser, time.Time) any, now time.Time) {
			t.Helper()
			if r, w := call(right, now), call(wrong, now.Add(-skew)); !reflect.DeepEqual(r, w) {
				t.Fatalf("at %s, by a right clock: %+v\nby one off by %s: %+v", now, r, skew, w)
			}
		}
		for now, n := drawTime(t), 0; n < 30; n++ {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "after")))
			u, path := rapid.Float64Range(0, 0.999).Draw(t, "u"), rapid.IntRange(0, 1).Draw(t, "path")
			do := rapid.IntRange(0, 3).Draw(t, "do")
			each(func(c *Chooser, now time.Time) any {
				switch do {
				case 0:
					c.Refused(path, now.Add(time.Minute), now)
				case 1:
					c.Asked(path, now.Add(time.Minute), now)
				case 2:
					c.Done(path, OK, 1, now)
				}
				order, trial := c.Order(now, u)
				return fmt.Sprint(order, trial, c.InWindow(0, now))
			}, now)
			each(func(c *Chooser, now time.Time) any {
				from, to, ok := c.Closed(0, now)
				if !ok {
					return nil
				}
				return []time.Duration{now.Sub(from), to.Sub(now)}
			}, now)
			each(func(c *Chooser, now time.Time) any {
				all := c.Status(now)
				for i := range all {
					if s := &all[i].OnFallbackSince; !s.IsZero() {
						*s = time.Time{}.Add(now.Sub(*s))
					}
				}
				planned, unplanned := c.FallbackFor(now)
				return []any{all, planned, unplanned, c.Stood(now)}
			}, now)
		}
	})
}
