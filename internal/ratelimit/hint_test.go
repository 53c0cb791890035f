package ratelimit

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestParseHints(t *testing.T) {
	const date = "Fri, 17 Jul 2026 00:00:00 GMT" // t0, 1784246400
	sec := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	for _, tt := range []struct {
		header string
		want   Hint
	}{
		{`RateLimit: "default";r=50;t=30`, Hint{Remaining: 50, Reset: sec(30)}},
		{`RateLimit-Policy: "burst";q=100;w=60`, Hint{Limit: 100, Window: sec(60)}},
		{"RateLimit-Policy: \"default\";q=100;w=60\nRateLimit: \"default\";r=50;t=30", Hint{50, sec(30), 100, sec(60)}},
		{"RateLimit-Policy: \"a\";q=100;w=1, \"b\";q=600;w=60;pk=:x;y,z:\nRateLimit: \"a\";r=50;t=1, \"b\";r=500;t=59", Hint{500, sec(59), 600, sec(60)}},
		{"RateLimit-Policy: \"a\";q=100;w=1\nRateLimit-Policy: \"b\";q=600;w=60\nRateLimit: \"b\";r=0;t=9", Hint{0, sec(9), 600, sec(60)}},
		{`RateLimit-Policy: "a,b;\"c";q=10;w=1`, Hint{Limit: 10, Window: sec(1)}},
		{`RateLimit-Policy: "hour";q=5000;w=3600, "day";q=9;w=86400`, Hint{}},
		{`RateLimit: limit=100, remaining=50, reset=30`, Hint{50, sec(30), 100, 0}},
		{"RateLimit-Policy: 100;w=60", Hint{Limit: 100, Window: sec(60)}},
		{"RateLimit-Limit: 100\nRateLimit-Remaining: 7\nRateLimit-Reset: 30", Hint{7, sec(30), 100, 0}},
		{"RateLimit-Limit: 100, 100;w=60\nRateLimit-Remaining: 7\nRateLimit-Reset: 30", Hint{7, sec(30), 100, sec(60)}},
		{"X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 7\nX-RateLimit-Reset: 30", Hint{7, sec(30), 100, 0}},
		{"X-RateLimit-Remaining: 7\nX-RateLimit-Reset: 1784246430", Hint{Remaining: 7, Reset: sec(30)}},
		{"X-RateLimit-Remaining: 7\nX-RateLimit-Reset: 1784246430500", Hint{Remaining: 7, Reset: sec(30.5)}},
		{"Date: Fri, 17 Jul 2026 00:00:10 GMT\nX-RateLimit-Remaining: 7\nX-RateLimit-Reset: 1784246430", Hint{Remaining: 7, Reset: sec(20)}},
		{"X-RateLimit-Remaining: 7\nX-RateLimit-Reset: 1784246300", Hint{}},
		{"RateLimit: \"a\";r=5;t=3\nX-RateLimit-Remaining: 7\nX-RateLimit-Reset: 30", Hint{Remaining: 5, Reset: sec(3)}},
		// Retry-After takes precedence.
		{"Retry-After: 5\nRateLimit: \"a\";r=0;t=60", Hint{}},
		{"Retry-After: 5\nRateLimit: \"a\";r=0;t=60\nRateLimit-Policy: \"a\";q=10;w=1", Hint{Limit: 10, Window: sec(1)}},
		// Hostile, or of no use.
		{`RateLimit: "a";r=-5;t=30`, Hint{}},
		{`RateLimit: "a";r=NaN;t=30`, Hint{}},
		{`RateLimit: "a";r=1e300;t=30`, Hint{}},
		{`RateLimit: "a";r=0x10;t=30`, Hint{}},
		{`RateLimit: "a";r=99999999999999999999;t=30`, Hint{}},
		{`RateLimit: "a";r=5;t=31536000`, Hint{}},
		{`RateLimit: "a";r=5;t=0`, Hint{}},
		{`RateLimit: "a";r=5`, Hint{}},
		{`RateLimit: "a";t=5`, Hint{}},
		{`RateLimit: "a";r=1.2.3;t=5`, Hint{}},
		{`RateLimit-Policy: "a";q=0;w=60`, Hint{}},
		{`RateLimit-Policy: "a";q=1;w=0`, Hint{}},
		{`RateLimit: "a;r=5;t=3`, Hint{}},
		{`RateLimit: "a";r=5;t=3;x=` + strings.Repeat("y", 10<<10), Hint{}},
		{`RateLimit: ` + strings.Repeat(`"a";r=1;t=1,`, 80) + `"a";r=9;t=9`, Hint{Remaining: 1, Reset: sec(1)}},
		{`RateLimit: ,,;;=,`, Hint{}},
		{"RateLimit-Limit: 100", Hint{}},
	} {
		h := http.Header{}
		for line := range strings.SplitSeq(tt.header, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			h.Add(name, value)
		}
		got, ok := ParseHints(h, t0)
		if got != tt.want || ok != (tt.want != Hint{}) {
			t.Errorf("%.80s: %+v, %v, want %+v", tt.header, got, ok, tt.want)
		}
	}
	h := http.Header{"Date": {date}}
	if got, ok := ParseHints(h, t0); ok {
		t.Errorf("nothing said: %+v", got)
	}
}

func FuzzParseHints(f *testing.F) {
	f.Add(`"default";r=50;t=30`, `"default";q=100;w=60`, "100", "7", "30")
	f.Add(`limit=100, remaining=50, reset=30`, `100;w=60`, "100, 100;w=60", "0", "1784246430")
	f.Add(`"a";r=0;t=1`, `"a";q=0.000000000001;w=300`, "9e9", "", "NaN")
	f.Fuzz(func(t *testing.T, limit, policy, old, remaining, reset string) {
		h := http.Header{
			"Ratelimit": {limit}, "Ratelimit-Policy": {policy}, "X-Ratelimit-Limit": {old},
			"X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset},
		}
		hint, ok := ParseHints(h, t0)
		if ok == (hint == Hint{}) && ok {
			t.Fatal("a hint that says nothing")
		}
		for _, n := range []float64{hint.Remaining, hint.Limit, hint.rate()} {
			if math.IsNaN(n) || n < 0 {
				t.Fatalf("%+v", hint)
			}
		}
		if min(hint.Reset, hint.Window) < 0 || max(hint.Reset, hint.Window) > longestWindow {
			t.Fatalf("%+v", hint)
		}
		// Whatever was said: nothing is held back for longer than the pause.
		s := NewSteer()
		s.Hint(hint, t0)
		s.ask(t0, false)
		if d := s.ask(t0, true); d < 0 || d > 2*longestPause {
			t.Fatalf("%+v: held back for %s", hint, d)
		}
	})
}
