package verdict

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var words = []string{AllWell, PathMisset, LinkSlow, LinkLossy, LinkDown, ServiceSlow, ServiceFailing, ThrottledByThem, ThrottledByUs, Maintenance, Paused, NothingSent, InputUnread}

func drawAttempt(t *rapid.T) Attempt {
	d := rapid.Map(rapid.Int64Range(-1, int64(20*time.Second)), func(n int64) time.Duration { return time.Duration(n) })
	b := rapid.Bool()
	return Attempt{
		Path:     rapid.SampledFrom([]string{"primary", "fallback"}).Draw(t, "path"),
		Duration: d.Draw(t, "duration"), HasLink: b.Draw(t, "link"), RTT: d.Draw(t, "rtt"), RTTVar: d.Draw(t, "rttvar"), MinRTT: d.Draw(t, "minrtt"),
		Segments: rapid.Uint64Range(0, 100).Draw(t, "segments"), Retransmits: rapid.Uint64Range(0, 5).Draw(t, "retransmits"),
		Status:  rapid.SampledFrom([]int{0, 0, 200, 200, 201, 422, 429, 500, 503, 511}).Draw(t, "status"),
		Misset:  rapid.IntRange(0, 19).Draw(t, "misset") == 0,
		Foreign: rapid.IntRange(0, 19).Draw(t, "foreign") == 0, Dial: b.Draw(t, "dial"), Timeout: b.Draw(t, "timeout"), Reset: b.Draw(t, "reset"),
		Wrote: b.Draw(t, "wrote"), Throttled: rapid.IntRange(0, 9).Draw(t, "throttled") == 0,
		WaitedByRate: d.Draw(t, "rate"), GateWait: d.Draw(t, "gate"),
	}
}

// drawFigures returns figures of one path, not only those that attempts can lead to.
func drawFigures(t *rapid.T) Figures {
	n := rapid.Int64Range(0, 100)
	d := rapid.Map(rapid.Int64Range(0, int64(4*time.Second)), func(n int64) time.Duration { return time.Duration(n) })
	few := rapid.Int64Range(0, 6)
	f := Figures{
		Answered: n.Draw(t, "answered"), Misset: few.Draw(t, "misset"), NoDial: few.Draw(t, "nodial"), Foreign: few.Draw(t, "foreign"), Refused: few.Draw(t, "refused"),
		Resets: few.Draw(t, "resets"), Timeouts: few.Draw(t, "timeouts"),
		RTT: Spread{P50: d.Draw(t, "rtt")}, Service: Spread{P50: d.Draw(t, "service")},
		Segments: uint64(n.Draw(t, "segments")), Retransmits: uint64(few.Draw(t, "retransmits")),
		Busy: d.Draw(t, "busy"), RateWait: d.Draw(t, "rate"), GateWait: d.Draw(t, "gate"),
	}
	f.Failed, f.Throttled = min(few.Draw(t, "failed"), f.Answered), min(few.Draw(t, "throttled"), f.Answered)
	f.Away, f.Down, f.Asked = min(few.Draw(t, "away"), f.Throttled), d.Draw(t, "down"), d.Draw(t, "asked")
	f.Attempts = f.Answered + f.Misset + f.NoDial + f.Foreign + f.Refused + f.Resets + f.Timeouts
	return f
}

func drawRun(t *rapid.T) Run {
	d := rapid.Map(rapid.Int64Range(0, int64(4*time.Second)), func(n int64) time.Duration { return time.Duration(n) })
	run := Run{
		Duration: d.Draw(t, "duration"), Delivered: rapid.Int64Range(0, 9).Draw(t, "delivered"), Waiting: rapid.Int64Range(0, 1).Draw(t, "waiting"),
		First: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "first"), Unread: rapid.IntRange(0, 1).Draw(t, "unread"),
	}
	run.Stood = min(d.Draw(t, "stood"), run.Duration)
	run.Closed = min(d.Draw(t, "closed"), run.Stood)
	run.Paused, run.PausedWhy = min(d.Draw(t, "paused"), run.Stood-run.Closed), "the metered uplink lte carried"
	return run
}

func TestJudgeIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := map[string]Figures{}
		for _, p := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID).Draw(t, "paths") {
			f[p] = drawFigures(t)
		}
		run := drawRun(t)
		v := Judge(f, run)
		_, known := f[v.Path]
		if !slices.Contains(words, v.Word) || v.Why == "" || strings.Contains(v.Why, "NaN") || known != (len(f) > 0) {
			t.Fatalf("%+v", v)
		}
		if again := Judge(maps.Clone(f), run); again != v {
			t.Fatalf("%+v, then %+v", v, again)
		}
		if text := strings.Join(Explain(v, f, []string{"a", "b", "c"}), ""); strings.Contains(text, "NaN") || strings.Contains(text, "%!") {
			t.Fatal(text)
		}
	})
}

// TestWorseNeverLooksBetter makes one figure worse and expects no kinder word.
func TestWorseNeverLooksBetter(t *testing.T) {
	worse := map[string]func(*Figures, int64){
		"loss":      func(f *Figures, n int64) { f.Retransmits += uint64(n) },
		"no dial":   func(f *Figures, n int64) { f.Attempts += n; f.NoDial += n },
		"misset":    func(f *Figures, n int64) { f.Attempts += n; f.Misset += n },
		"portal":    func(f *Figures, n int64) { f.Attempts += n; f.Foreign += n },
		"refused":   func(f *Figures, n int64) { f.Attempts += n; f.Refused += n },
		"resets":    func(f *Figures, n int64) { f.Attempts += n; f.Resets += n },
		"timeouts":  func(f *Figures, n int64) { f.Attempts += n; f.Timeouts += n },
		"throttles": func(f *Figures, n int64) { f.Attempts += n; f.Answered += n; f.Throttled += n },
		"5xx":       func(f *Figures, n int64) { f.Attempts += n; f.Answered += n; f.Failed += n },
		"rtt":       func(f *Figures, n int64) { f.RTT.P50 += time.Duration(n) * 100 * ms },
		"service":   func(f *Figures, n int64) { f.Service.P50 += time.Duration(n) * 100 * ms },
		"gate":      func(f *Figures, n int64) { f.GateWait += time.Duration(n) * 100 * ms },
		"down":      func(f *Figures, n int64) { f.Down += time.Duration(n) * 100 * ms },
		"asked":     func(f *Figures, n int64) { f.Asked += time.Duration(n) * 100 * ms },
		"away":      func(f *Figures, n int64) { f.Attempts += n; f.Answered += n; f.Throttled += n; f.Away += n },
		"proxy":     func(f *Figures, n int64) { f.Attempts += n; f.NoDial += n; f.NoProxy += n },
	}
	names := slices.Sorted(maps.Keys(worse))
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawFigures(t), drawFigures(t)
		run := drawRun(t)
		before := Judge(map[string]Figures{"a": a, "b": b}, run)
		what := rapid.SampledFrom(names).Draw(t, "what")
		n := rapid.Int64Range(1, 50).Draw(t, "n")
		worse[what](&a, n)
		after := Judge(map[string]Figures{"a": a, "b": b}, run)
		if before.Word != AllWell && after.Word == AllWell {
			t.Fatalf("more %s: %+v became %+v", what, before, after)
		}
		if what == "loss" && before.Word == LinkLossy && after.Word != LinkLossy {
			t.Fatalf("more loss: %+v became %+v", before, after)
		}
	})
}

func TestCollectorCountsEachAttemptOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOf(rapid.Custom(drawAttempt)).Draw(t, "attempts")
		var c Collector
		for _, a := range all {
			c.Add(a)
		}
		n := int64(0)
		for path, f := range c.Figures() {
			n += f.Attempts
			faults := int64(0)
			for _, k := range f.faults() {
				faults += k
			}
			if faults > f.Attempts || f.Answered > f.Attempts || f.Failed+f.Throttled > f.Answered {
				t.Errorf("%s: %+v", path, f)
			}
			for _, s := range []Spread{f.RTT, f.RTTVar, f.Service} {
				if s.P50 < 0 || s.P50 > s.P95 {
					t.Errorf("%s: %+v", path, s)
				}
			}
		}
		if n != int64(len(all)) {
			t.Errorf("%d of %d attempts", n, len(all))
		}
		Judge(c.Figures(), Run{Waiting: 1})
	})
}

func TestCollectorIsSafeForConcurrentUse(t *testing.T) {
	var c Collector
	var wg sync.WaitGroup
	for _, p := range []string{"primary", "primary", "fallback", "fallback"} {
		wg.Go(func() {
			for range 500 {
				c.Add(with(quick, path(p)))
				Judge(c.Figures(), allDone)
			}
		})
	}
	wg.Wait()
	if f := c.Figures(); f["primary"].Attempts != 1000 || f["fallback"].Measured != 1000 {
		t.Errorf("%+v", f)
	}
}

func BenchmarkAdd(b *testing.B) {
	var c Collector
	a := with(quick, path("primary"))
	b.ReportAllocs()
	for b.Loop() {
		c.Add(a)
	}
}
