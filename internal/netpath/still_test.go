package netpath

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestStoodStill(t *testing.T) {
	const s, m = time.Second, time.Minute
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	closed := Windows{mustParse(t, Spec{Path: "primary", From: "00:10", To: "00:20", Closed: true})}
	for name, c := range map[string]struct {
		names []string
		cfg   Config
		does  func(*Chooser)
		want  []Still
	}{
		"never": {does: func(c *Chooser) { c.Order(at(0), 0.5); c.Done(0, OK, 1, at(m)) }},
		"a breaker, to its end and no longer": {
			does: func(c *Chooser) { c.Refused(0, at(30*s), at(0)); c.Order(at(50*s), 0.5) },
			want: []Still{{30 * s, []Cause{BreakerOpen}}},
		},
		"a breaker again and again": {
			does: func(c *Chooser) {
				for i := range time.Duration(3) {
					c.Refused(0, at(i*m+30*s), at(i*m))
					c.Order(at(i*m+10*s), 0.5)
					c.Order(at(i*m+30*s), 0.5)
				}
			},
			want: []Still{{90 * s, []Cause{BreakerOpen}}},
		},
		"held open, before it by failures and after": {
			does: func(c *Chooser) {
				c.Refused(0, at(m), at(0))
				c.Held(0, true, at(10*s))
				c.Refused(0, at(30*s), at(12*s))
				c.Held(0, false, at(25*s))
				c.Order(at(m), 0.5)
			},
			want: []Still{{15 * s, []Cause{BreakerOpen}}, {15 * s, []Cause{HeldOpen}}},
		},
		"held open, the other path fit for a time": {
			names: []string{"primary", "fallback"},
			does: func(c *Chooser) {
				c.Held(0, true, at(0))
				c.Refused(0, at(9*m), at(0))
				c.Refused(1, at(m+20*s), at(m))
				c.Order(at(2*m), 0.5)
			},
			want: []Still{{20 * s, []Cause{HeldOpen, BreakerOpen}}},
		},
		"only up to now": {
			does: func(c *Chooser) { c.Refused(0, at(9*time.Hour), at(2*time.Hour-s)) },
			want: []Still{{s, []Cause{BreakerOpen}}},
		},
		"not while the other path is fit": {
			names: []string{"primary", "fallback"},
			does:  func(c *Chooser) { c.Refused(0, at(m), at(0)); c.Order(at(m), 0.5) },
		},
		"both breakers": {
			names: []string{"primary", "fallback"},
			does:  func(c *Chooser) { c.Refused(0, at(m), at(0)); c.Refused(1, at(40*s), at(10*s)); c.Order(at(m), 0.5) },
			want:  []Still{{30 * s, []Cause{BreakerOpen, BreakerOpen}}},
		},
		"asked to wait, of two the longer": {
			does: func(c *Chooser) { c.Asked(0, at(9*s), at(0)); c.Asked(0, at(5*s), at(s)); c.Order(at(m), 0.5) },
			want: []Still{{9 * s, []Cause{ServerAsked}}},
		},
		"a closed window": {
			cfg:  Config{Windows: closed},
			does: func(c *Chooser) { c.Order(at(9*m), 0.5); c.Order(at(10*m), 0.5); c.Order(at(25*m), 0.5) },
			want: []Still{{10 * m, []Cause{InMaintenance}}},
		},
		"one that began before the run": {
			cfg:  Config{Windows: closed},
			does: func(c *Chooser) { c.Order(at(15*m), 0.5) },
			want: []Still{{5 * m, []Cause{InMaintenance}}},
		},
		"a breaker, and no quota left": {
			names: []string{"primary", "fallback"}, cfg: Config{Quota: map[int]Quota{1: {Bytes: 100}}},
			does: func(c *Chooser) { c.Done(1, OK, 100, at(0)); c.Refused(0, at(m), at(10*s)); c.Order(at(m), 0.5) },
			want: []Still{{50 * s, []Cause{BreakerOpen, OverQuota}}},
		},
		"the longest first": {
			does: func(c *Chooser) { c.Asked(0, at(9*s), at(0)); c.Refused(0, at(m), at(10*s)); c.Order(at(m), 0.5) },
			want: []Still{{50 * s, []Cause{BreakerOpen}}, {9 * s, []Cause{ServerAsked}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Names = c.names
			if c.names == nil {
				c.cfg.Names = []string{"primary"}
			}
			ch := NewChooser(c.cfg)
			c.does(ch)
			if got := ch.Stood(at(2 * time.Hour)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// Standing still and going by a fallback never add up to more than the time.
func TestStandingIsNotOnAFallback(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewChooser(Config{Names: []string{"a", "b"}, Quota: map[int]Quota{1: {Bytes: 50}}})
		now := t0
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "after")) * time.Second)
			path := rapid.IntRange(0, 1).Draw(t, "path")
			until := now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "until")) * time.Second)
			switch rapid.IntRange(0, 3).Draw(t, "call") {
			case 0:
				c.Refused(path, until, now)
			case 1:
				c.Asked(path, until, now)
			case 2:
				c.Done(path, OK, 10, now)
			case 3:
				c.Order(now, 0.5)
			}
		}
		planned, unplanned := c.FallbackFor(now)
		sum := planned + unplanned
		for _, s := range c.Stood(now) {
			if s.For <= 0 || len(s.Causes) != 2 || slices.Contains(s.Causes, 0) {
				t.Fatalf("%+v", s)
			}
			sum += s.For
		}
		if sum > now.Sub(t0) {
			t.Fatalf("%s of %s", sum, now.Sub(t0))
		}
	})
}

func TestNews(t *testing.T) {
	var told []string
	c := NewChooser(Config{
		Names: []string{"primary", "fallback"}, Quota: map[int]Quota{1: {Bytes: 100}},
		Windows: Windows{mustParse(t, Spec{Path: "primary", From: "00:10", To: "00:20"})},
		Notify: func(path int, n News, until time.Time) {
			what := fmt.Sprint(path, n)
			if !until.IsZero() {
				what += until.Format(" 15:04")
			}
			told = append(told, what)
		},
	})
	for m := range 30 {
		c.Order(t0.Add(time.Duration(m)*time.Minute), 0.5)
		c.Done(1, OK, 30, t0.Add(time.Duration(m)*time.Minute))
	}
	c.Done(0, OK, 500, t0.Add(time.Hour))
	if want := []string{"1 2", "0 0 00:20", "0 1"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}

func TestSpentIsTold(t *testing.T) {
	c := NewChooser(Config{Names: []string{"primary", "fallback"}, Quota: map[int]Quota{1: {Bytes: 100}}})
	for _, want := range []bool{false, true, true} {
		c.Done(1, OK, 60, t0)
		if got := c.Status(t0); got[0].Spent || got[1].Spent != want {
			t.Errorf("%+v", got)
		}
	}
}

func TestPast(t *testing.T) {
	const m, h = time.Minute, time.Hour
	night := Windows{mustParse(t, Spec{Path: "primary", From: "01:00", To: "01:20"}), mustParse(t, Spec{Path: "fallback", From: "00:00", To: "24:00"})}
	always := Windows{mustParse(t, Spec{Path: "primary", From: "00:00", To: "24:00"})}
	for name, c := range map[string]struct {
		ws         Windows
		from, work time.Duration
		want       time.Duration
	}{
		"none":            {nil, 0, 9 * h, 9 * h},
		"before":          {night, 0, 59 * m, 59 * m},
		"up to its begin": {night, 0, h, h},
		"one":             {night, 0, 61 * m, 81 * m},
		"from inside":     {night, 70 * m, m, 81 * m},
		"from its end":    {night, 80 * m, m, 81 * m},
		"two nights":      {night, 0, 24 * h, 24*h + 20*m},
		"no work":         {night, 70 * m, 0, 70 * m},
	} {
		if got := c.ws.Past("primary", t0.Add(c.from), c.work); !got.Equal(t0.Add(c.want)) {
			t.Errorf("%s: %s, want %s", name, got.Sub(t0), c.want)
		}
	}
	if got := always.Past("primary", t0, m); got.Sub(t0) < 7*24*h {
		t.Errorf("always: %s", got.Sub(t0))
	}
}
