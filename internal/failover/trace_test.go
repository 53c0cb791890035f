package failover

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// taped is a path whose rounds are recorded.
type taped struct {
	Path
	c      Config
	uplink int
	out    *bytes.Buffer
}

func (p taped) At(t time.Duration) Round {
	r := p.Path.At(t)
	p.out.Write(p.c.Recorded(p.uplink, r, Now{t, midnight.Add(t)}).Line())
	return r
}

// A recording has the same decided as what was recorded.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, _ := Preset(rapid.SampledFrom([]string{"leo", "geo", "lte", "strict"}).Draw(t, "preset"))
		c := Config{Rules: rules, Uplinks: []Uplink{{Name: "leo"}, {Name: "lte", Metered: true}}}
		m := Models["leo"]
		m.OutageEvery = time.Duration(rapid.IntRange(2, 10).Draw(t, "outages")) * time.Minute
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		span := 20 * time.Minute
		var tape bytes.Buffer
		want := c.Simulate([]Path{taped{m.Path(span, rng), c, 0, &tape}, taped{Models["lte"].Path(span, rng), c, 1, &tape}}, span, midnight)
		var trace Trace
		n, err := trace.Read(&tape, func(line int, err error) { t.Errorf("line %d: %v", line, err) })
		if err != nil || n != want.Rounds[0]+want.Rounds[1] {
			t.Fatalf("%d records of %v rounds, %v", n, want.Rounds, err)
		}
		begin, _ := trace.Span()
		got := c.Simulate(trace.Paths([]string{"leo", "lte"}), span, begin)
		if got.Switches != want.Switches || got.Failovers != want.Failovers || !slices.Equal(got.Rounds, want.Rounds) || (got.Metered-want.Metered).Abs() > rules.Interval {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	})
}

// tape is a recording of rounds a second apart: of each span given, whether it was good.
func tape(uplink string, at time.Duration, spans ...any) string {
	var b strings.Builder
	for i := 0; i < len(spans); i += 2 {
		for end := at + spans[i].(time.Duration); at < end; at += time.Second {
			b.Write(Record{Uplink: uplink, At: midnight.Add(at), OK: spans[i+1].(bool)}.Line())
		}
	}
	return b.String()
}

func traceOf(t *testing.T, texts ...string) *Trace {
	t.Helper()
	var trace Trace
	for _, text := range texts {
		if _, err := trace.Read(strings.NewReader(text), func(n int, err error) { t.Errorf("line %d: %v", n, err) }); err != nil {
			t.Fatal(err)
		}
	}
	return &trace
}

// An outage of a recording is a minute without a good round; what was not recorded is
// none, however long.
func TestTraceOutages(t *testing.T) {
	c := Config{Rules: leo, Uplinks: []Uplink{{Name: "leo"}, {Name: "lte", Metered: true}}}
	run := func(texts ...string) Simulated {
		trace := traceOf(t, texts...)
		begin, length := trace.Span()
		return c.Simulate(trace.Paths([]string{"leo", "lte"}), length, begin)
	}
	good := tape("lte", 0, time.Hour, true)
	got := run(tape("leo", 0, 10*time.Minute, true, 2*time.Minute, false, 48*time.Minute, true), good)
	if got.Failovers != 1 || got.Needless != 0 || len(got.Detected) != 1 || got.Detected[0] != 12*time.Second || got.Switches != 2 || got.Span != time.Hour {
		t.Errorf("an outage: %+v", got)
	}
	got = run(tape("leo", 0, 10*time.Minute, true, 30*time.Second, false, 49*time.Minute+30*time.Second, true), good)
	if got.Failovers != 1 || got.Needless != 1 || len(got.Detected) != 0 {
		t.Errorf("a short one: %+v", got)
	}
	// Nobody recorded for a day, after rounds that failed.
	got = run(tape("leo", 0, 10*time.Minute, true, 5*time.Second, false), tape("lte", 0, 10*time.Minute+5*time.Second, true),
		tape("leo", 24*time.Hour, 10*time.Minute, true), tape("lte", 24*time.Hour, 10*time.Minute, true))
	if got.Switches != 0 || got.Span != 20*time.Minute+5*time.Second || got.Missed != 0 || got.Down != 0 {
		t.Errorf("a pause: %+v", got)
	}
	// Of an uplink that is not in the recording nothing is known.
	got = run(tape("leo", 0, 10*time.Minute, true, 10*time.Minute, false))
	if got.Switches != 0 || got.Rounds[1] != 0 || got.Down == 0 {
		t.Errorf("alone: %+v", got)
	}
}

// What the kernel said of the link is part of it: the rule for that is faster.
func TestTraceGone(t *testing.T) {
	c := Config{Rules: leo, Uplinks: []Uplink{{Name: "leo"}, {Name: "lte"}}}
	gone := strings.ReplaceAll(tape("leo", time.Minute, 2*time.Minute, false), `"ok":false`, `"ok":false,"gone":"no carrier"`)
	trace := traceOf(t, tape("leo", 0, time.Minute, true), gone, tape("lte", 0, 3*time.Minute, true))
	begin, length := trace.Span()
	got := c.Simulate(trace.Paths([]string{"leo", "lte"}), length, begin)
	if len(got.Detected) != 1 || got.Detected[0] > 3*time.Second {
		t.Errorf("%+v", got)
	}
}

// Lines that say nothing are named, and hinder nothing.
func TestTraceLines(t *testing.T) {
	ok := `{"uplink":"leo","at":"2026-03-01T00:00:00Z","ok":true}`
	text := ok + "\n" + ok[:20] + "\n\n" + `{"uplink":"","at":"2026-03-01T00:00:00Z"}` + "\n" + strings.Repeat("x", 3*longestLine) + "\n" +
		`{"uplink":"leo","at":"1970-01-01T00:00:20Z","ok":true}` + "\n" + `{"uplink":"leo","ok":true}` + "\n" + `{"uplink":"leo","at":"2026-03-01T00:00:00Z","rtt_ms":-4}` + "\n" + ok
	var trace Trace
	var said []string
	n, err := trace.Read(strings.NewReader(text), func(line int, err error) { said = append(said, fmt.Sprintf("%d %v", line, err)) })
	if n != 2 || err != nil || len(said) != 6 {
		t.Errorf("%d good ones, %v, %q", n, err, said)
	}
	for i, want := range []string{"2 unexpected", "4 uplink is missing", "5 longer than", "6 at is 1970", "7 at is missing", "8 rtt_ms is -4"} {
		if i < len(said) && !strings.HasPrefix(said[i], want) {
			t.Errorf("said %q, want %q", said[i], want)
		}
	}
}

func FuzzTrace(f *testing.F) {
	f.Add([]byte(`{"uplink":"leo","at":"2026-03-01T00:00:00Z","ok":true,"rtt_ms":41.5}` + "\n"))
	f.Add([]byte(`{"uplink":"leo","at":"2026-03-01T00:00:00Z","ok":false,"gone":"no carrier","why":"x"}` + "\n" + `{"uplink":"lte","at":"2026-03-01T00:00:01.5Z","ok":true,"loaded":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var trace Trace
		n, err := trace.Read(bytes.NewReader(data), func(int, error) {})
		if err != nil || n != len(trace.records) {
			t.Fatal(n, err)
		}
		names := trace.Uplinks()
		_, length := trace.Span()
		for _, p := range trace.Paths(names) {
			for t := known([]Path{p}, 0, length); t < min(length, time.Hour); t = known([]Path{p}, t+time.Minute, length) {
				p.At(t)
				p.Outage(t)
			}
		}
	})
}
