package clockskew

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// scene has other clocks that are off ours by some time, and an estimator.
type scene struct {
	e    Estimator
	now  time.Time
	told []string
}

func newScene() *scene {
	c := &scene{now: time.Now()}
	c.now = c.now.Add(s - time.Duration(c.now.Nanosecond())) // keeps the monotonic reading, as Truncate does not
	c.e.Notify = func(text string) { c.told = append(c.told, text) }
	return c
}

// set is what a clock shows at a time at which it was set by whole seconds: its
// monotonic reading is the same.
func set(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	was := at
	*(*int64)(unsafe.Pointer(&at)) += int64(by/s) << 30 // see the source of time.Time
	if at.Sub(was) != 0 || at.Round(0).Sub(was.Round(0)) != by {
		t.Fatalf("%s is not %s set by %s", at, was, by)
	}
	return at
}

func date(t time.Time) http.Header {
	return http.Header{"Date": {t.UTC().Format(http.TimeFormat)}}
}

// api lets an answer come from a server whose clock is off, half of took after it
// was asked. The next one is due after a pause.
func (c *scene) api(off, took, pause time.Duration) {
	c.e.Date(date(c.now.Add(off+took/2)), c.now, c.now.Add(took))
	c.now = c.now.Add(took + pause)
}

// hears counts what was told since, and looks for words in it.
func (c *scene) hears(t *testing.T, words ...string) {
	t.Helper()
	if len(c.told) != len(words) {
		t.Fatalf("told %q, want %q", c.told, words)
	}
	for n, w := range words {
		if !strings.Contains(c.told[n], w) {
			t.Errorf("told %q, want %q", c.told[n], w)
		}
	}
	c.told = nil
}

func (c *scene) corrects(t *testing.T, want, give time.Duration) {
	t.Helper()
	if got := c.e.Correction(); (got - want).Abs() > give {
		t.Errorf("correction %s, want %s", got, want)
	}
}

func TestFoundChangedAndOver(t *testing.T) {
	c := newScene()
	c.corrects(t, 0, 0)
	c.api(3*time.Hour, 100*ms, s)
	c.hears(t, "clock is 3h0m0s behind that of the API, give or take 550ms: maintenance windows go by the corrected time; set it")
	c.corrects(t, 3*time.Hour, s)
	for range 60 {
		c.api(3*time.Hour, 100*ms, s)
	}
	c.hears(t)
	c.api(3*time.Hour+2*time.Minute, 100*ms, s)
	c.hears(t, "3h2m0s behind")
	for range 60 {
		c.api(2*s, 100*ms, s)
	}
	c.corrects(t, 0, 0)
	c.api(2*s, 100*ms, s)
	c.hears(t, "agrees with that of the API again: maintenance windows go by it")
}

func TestAhead(t *testing.T) {
	c := newScene()
	for range 3 {
		c.api(-2600*ms, 200*ms, 900*ms)
	}
	c.hears(t, "ahead of that of the API")
	if j := c.e.Judge(); !j.Skew() || (j.Offset+2600*ms).Abs() > j.Within {
		t.Errorf("%+v", j)
	}
}

// A clock that jitters around the limit is told of once a minute at most.
func TestQuiet(t *testing.T) {
	c := newScene()
	for n := range 600 {
		c.e.Redis(time.Duration(n%2)*time.Hour, ms, c.now.Add(time.Duration(n)*s))
	}
	if n := len(c.told); n < 9 || n > 10 {
		t.Errorf("told %d times in ten minutes", n)
	}
}

// A correction stays as it is while it is about right.
func TestSteady(t *testing.T) {
	c := newScene()
	var seen []time.Duration
	for n := range 1000 {
		slow := time.Duration(n) * ms
		c.e.Redis(time.Hour+slow, ms, c.now.Add(time.Duration(n)*s))
		seen = append(seen, c.e.Correction())
	}
	if n := len(slices.Compact(seen)); n != 2 {
		t.Errorf("%d corrections for one second", n)
	}
}

func TestOldCopiesAreNotBelieved(t *testing.T) {
	for name, answers := range map[string]func(c *scene){
		"one that stands still": func(c *scene) {
			old := date(c.now.Add(-time.Hour))
			for range 100 {
				c.e.Date(old, c.now, c.now.Add(10*ms))
				c.now = c.now.Add(300 * ms)
			}
		},
		"one among good ones": func(c *scene) {
			c.api(0, 10*ms, s)
			c.api(-time.Hour, 10*ms, s)
			c.api(0, 10*ms, s)
			c.api(-time.Hour, 10*ms, s)
		},
		"several of different age": func(c *scene) {
			for n := range time.Duration(10) {
				c.api(-n*time.Minute, 10*ms, s)
			}
		},
		"one that a cache sends": func(c *scene) {
			for range 3 {
				h := date(c.now.Add(-time.Hour))
				h.Set("Age", "3600")
				c.e.Date(h, c.now, c.now.Add(10*ms))
				c.now = c.now.Add(s)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newScene()
			answers(c)
			c.hears(t)
			c.corrects(t, 0, 0)
		})
	}
	c := newScene()
	c.api(time.Hour, 10*ms, s)
	c.api(time.Minute, 10*ms, s)
	c.corrects(t, time.Hour, s)
	// One that came first gives way to the first good one.
	c = newScene()
	c.api(time.Hour, 10*ms, 0)
	c.api(2*time.Hour, 10*ms, 0)
	c.corrects(t, 2*time.Hour, s)
}

func TestOurClockIsSet(t *testing.T) {
	c := newScene()
	c.api(time.Hour, 10*ms, s)
	c.corrects(t, time.Hour, s)
	c.hears(t, "1h0m0s behind")
	c.now = set(t, c.now.Add(time.Minute), time.Hour)
	c.api(0, 10*ms, s)
	c.hears(t, "agrees with that of the API again")

	// The real clock was not set: who looks at it forgets.
	c = newScene()
	c.now = set(t, c.now, time.Hour)
	c.e.Redis(2*time.Hour, ms, c.now)
	c.corrects(t, 0, 0)
	c.e.Redis(2*time.Hour, ms, c.now)
	if j := c.e.Judge(); j.Known {
		t.Errorf("%+v", j)
	}
}

// A clock of ours that is set makes all that was measured void; a step of less
// than half a second does not.
func TestSteps(t *testing.T) {
	var st state
	st.api.add(interval{time.Hour, time.Hour + s}, 0)
	st.settle(0)
	for _, lead := range []time.Duration{0, 400 * ms, -400 * ms} {
		if st.leads(lead); st.used == 0 {
			t.Fatalf("forgotten with a lead of %s", lead)
		}
	}
	st.leads(time.Hour)
	if st.judge().Known || st.used != 0 {
		t.Fatalf("%+v", st)
	}
	st.redis.add(interval{-ms, ms}, s)
	if text := st.settle(s); text != "" || st.judge().Skew() {
		t.Errorf("told %q within the minute", text)
	}
	if text := st.settle(time.Minute); !strings.Contains(text, "Redis again") {
		t.Errorf("told %q", text)
	}
	st.leads(time.Hour - 600*ms) // and on from there
	if st.judge().Known {
		t.Errorf("%+v", st)
	}
}

// span draws a time of up to most.
func span(t *rapid.T, name string, most time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
}

// An offset that stays is always where it is said to be; one within the limit is
// never called skew; one of twice as much is after three answers.
func TestTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]time.Duration{Limit, 10 * s, 50 * 365 * 24 * time.Hour}).Draw(t, "most")
		truth := span(t, "truth", 2*most) - most
		var e Estimator
		told := 0
		e.Notify = func(string) { told++ }
		now := time.Now()
		for answers := range 10 {
			took := span(t, "took", 900*ms)
			if slow := rapid.IntRange(0, 9).Draw(t, "slow") == 0; slow && answers >= 3 {
				took *= 60
			}
			answered := now.Add(span(t, "answered", took))
			e.Date(date(answered.Add(truth)), now, now.Add(took))
			now = now.Add(took + s + span(t, "pause", 3*time.Minute))
			if answers > 3 && rapid.Bool().Draw(t, "redis") {
				within := span(t, "within", 250*ms)
				e.Redis(truth+2*span(t, "error", within)-within, within, now)
			}
			j := e.Judge()
			if off := (j.Offset - truth).Abs(); j.Known && off > j.Within || j.Apart {
				t.Fatalf("%+v, want %s", j, truth)
			}
			if truth.Abs() <= Limit && (j.Skew() || e.Correction() != 0 || told > 0) {
				t.Fatalf("%+v, with %s", j, truth)
			}
			if truth.Abs() >= 2*Limit && answers >= 2 && (!j.Skew() || (e.Correction()-truth).Abs() > 2*s || told != 1) {
				t.Fatalf("%+v corrected by %s and told %d times, with %s", j, e.Correction(), told, truth)
			}
		}
	})
}

func TestRedisThatTellsNonsense(t *testing.T) {
	var e Estimator
	for _, d := range []time.Duration{1 << 62, -1 << 62, 1<<63 - 1, -1 << 63} {
		e.Redis(d, s, time.Now())
		e.Redis(d, 1<<62, time.Now())
	}
	e.Redis(0, -s, time.Now())
	if j := e.Judge(); j.Known {
		t.Errorf("%+v", j)
	}
}

func TestServesMany(t *testing.T) {
	e := Estimator{Notify: func(string) {}}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				now := time.Now()
				e.Date(date(now.Add(time.Hour)), now, now)
				e.Redis(time.Hour, s, now)
				e.Judge()
				e.Correction()
			}
		})
	}
	all.Wait()
	if j := e.Judge(); !j.Skew() || j.Apart {
		t.Errorf("%+v", j)
	}
}

func BenchmarkDate(b *testing.B) {
	e, now := Estimator{}, time.Now()
	h := date(now)
	for b.Loop() {
		e.Date(h, now, now)
	}
}

func BenchmarkCorrection(b *testing.B) {
	var e Estimator
	for b.Loop() {
		e.Correction()
	}
}

func ExampleEstimator() {
	e := Estimator{Notify: func(text string) { fmt.Println(text[:strings.Index(text, ",")]) }}
	sent := time.Now()
	e.Redis(-3*time.Minute, 5*time.Millisecond, sent)
	fmt.Println(e.Correction(), e.Judge().Skew())
	// Output:
	// this machine's clock is 3m0s ahead of that of Redis
	// -3m0s true
}
