package failover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a machine in a test: what its uplinks answer is a function of time.
type world struct {
	c      Config
	s      State
	t      time.Duration
	answer func(uplink int, t time.Duration) bool
	gone   func(uplink int, t time.Duration) string
	said   []string
	after  []time.Duration // of the switches
	every  []time.Duration
	last   []time.Duration
}

var midnight = time.Date(2026, 7, 17, 0, 0, 0, 0, time.UTC)

func newWorld(answer func(uplink int, t time.Duration) bool) *world {
	return newWorldOf(Config{Uplinks: []Uplink{{Name: "leo"}, {Name: "lte", Metered: true}}, Rules: leo}, answer)
}

func newWorldOf(c Config, answer func(uplink int, t time.Duration) bool) *world {
	n := len(c.Uplinks)
	w := &world{c: c, answer: answer, every: make([]time.Duration, n), last: make([]time.Duration, n)}
	w.s = c.New(w.now())
	for i := range w.last {
		w.last[i] = -time.Hour
	}
	return w
}

func (w *world) now() Now { return Now{w.t, midnight.Add(w.t)} }

// run lets time pass until t.
func (w *world) run(until time.Duration) *world {
	for ; w.t < until; w.t += time.Second {
		for i := range w.c.Uplinks {
			if w.gone != nil {
				w.s = w.c.Link(w.s, i, w.gone(i, w.t), w.now())
			}
			if w.t-w.last[i] < w.every[i] {
				continue
			}
			w.last[i] = w.t
			r := Round{At: w.t, OK: w.answer(i, w.t), RTT: 40 * time.Millisecond}
			if !r.OK {
				r.Why = "no answer"
			}
			w.s = w.c.Saw(w.s, i, r)
		}
		var d Decision
		w.s, d = w.c.Decide(w.s, w.now())
		w.every = d.Every
		for _, e := range d.Events {
			text := fmt.Sprintf("%v %s %s", w.t, e.What, e.Uplink)
			if e.What == EventSwitch {
				w.after = append(w.after, time.Duration(e.After))
			}
			if e.What == EventVerdict {
				text += " " + string(e.Verdict)
			}
			if e.Expected {
				text += " expected"
			}
			w.said = append(w.said, text)
		}
	}
	return w
}

// switches are the times and uplinks of the switches so far.
func (w *world) switches() (all []string) {
	for _, line := range w.said {
		if strings.Contains(line, " switch ") {
			all = append(all, strings.Replace(line, " switch", "", 1))
		}
	}
	return all
}

func (w *world) want(t *testing.T, switches ...string) {
	t.Helper()
	if got := w.switches(); !slices.Equal(got, switches) {
		t.Errorf("switches %q, want %q\n%s", got, switches, strings.Join(w.said, "\n"))
	}
}

// within reports that t lies in [from, to).
func within(t, from, to time.Duration) bool { return t >= from && t < to }

func TestStart(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(int, time.Duration) bool
		want   []string
	}{
		{"all answer", func(int, time.Duration) bool { return true }, []string{"2s leo"}},
		{"only the backup", func(i int, _ time.Duration) bool { return i == 1 }, []string{"11s lte"}},
		{"none", func(int, time.Duration) bool { return false }, nil},
		{"the backup, and the primary late", func(i int, t time.Duration) bool { return i == 1 || t > 3*time.Minute }, []string{"11s lte", "4m1s leo"}},
		{"only the primary, late", func(i int, t time.Duration) bool { return i == 0 && t > time.Minute }, []string{"1m3s leo"}},
	} {
		t.Run(c.name, func(t *testing.T) { newWorld(c.answer).run(6*time.Minute).want(t, c.want...) })
	}
}

// An outage is left after 12 rounds; the way back takes 30 good ones, a minute, and
// two minutes of the backup.
func TestThereAndBack(t *testing.T) {
	w := newWorld(func(i int, t time.Duration) bool { return i == 1 || !within(t, 100*time.Second, 130*time.Second) }).run(10 * time.Minute)
	w.want(t, "2s leo", "1m51s lte", "3m51s leo")
	w = newWorld(func(i int, t time.Duration) bool { return i == 1 || !within(t, 100*time.Second, 400*time.Second) }).run(10 * time.Minute)
	w.want(t, "2s leo", "1m51s lte", "7m40s leo")
}

// Rules under which an uplink is soon up again do not count the outage against it:
// neither as loss, nor so that the next round that fails is one too many.
func TestUpIsUp(t *testing.T) {
	strict, err := Preset("strict")
	if err != nil {
		t.Fatal(err)
	}
	soon := leo
	soon.Up, soon.UpFor, soon.Dwell, soon.DwellMax = 5, 5*time.Second, 0, 0
	for _, c := range []struct {
		rules Rules
		back  string
	}{{strict, "6m55s leo"}, {soon, "6m45s leo"}} {
		w := newWorldOf(Config{Uplinks: []Uplink{{Name: "leo"}, {Name: "lte"}}, Rules: c.rules}, func(i int, t time.Duration) bool {
			return i == 1 || !within(t, 100*time.Second, 400*time.Second) && !within(t, 420*time.Second, 421*time.Second)
		}).run(10 * time.Minute)
		if got := w.switches(); len(got) != 3 || got[2] != c.back {
			t.Errorf("switches %q, want to be back at %s\n%s", got, c.back, strings.Join(w.said, "\n"))
		}
	}
}

// Each failover doubles the dwell, six hours without one halve it.
func TestDamping(t *testing.T) {
	const period = 20 * time.Minute
	answer := func(i int, t time.Duration) bool {
		return i == 1 || t > 3*time.Hour || t%period > 30*time.Second || t < period
	}
	w := newWorld(answer).run(3 * time.Hour)
	var stays []time.Duration
	sw := w.switches()
	at := func(line string) time.Duration {
		d, err := time.ParseDuration(strings.Fields(line)[0])
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for i := 1; i+1 < len(sw); i += 2 {
		stays = append(stays, at(sw[i+1])-at(sw[i]))
	}
	want := []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute}
	if len(stays) < 5 || !slices.Equal(stays[:4], want) || slices.Max(stays) < 30*time.Minute {
		t.Errorf("stays %v, want %v and then half an hour", stays, want)
	}
	if w.run(3*time.Hour + time.Minute); w.s.Level < 5 {
		t.Errorf("level %d", w.s.Level)
	}
	if w.run(3*time.Hour + 7*6*time.Hour); w.s.Level != 0 {
		t.Errorf("level %d after two days", w.s.Level)
	}
}

// Where nothing answers everything stays; whichever answers first is taken.
func TestAllDown(t *testing.T) {
	w := newWorld(func(i int, t time.Duration) bool { return t < time.Minute || i == 1 && t > 12*time.Minute }).run(14 * time.Minute)
	w.want(t, "2s leo", "12m3s lte")
	if n := strings.Count(strings.Join(w.said, "\n"), EventAllDown); n != 1 {
		t.Errorf("said %d times that all is down:\n%s", n, strings.Join(w.said, "\n"))
	}
	w = newWorld(func(i int, t time.Duration) bool { return t < time.Minute || i == 0 && t > 12*time.Minute }).run(14 * time.Minute)
	w.want(t, "2s leo")
}

// Loss is no reason to go to and fro.
func TestLoss(t *testing.T) {
	// A third of all rounds.
	w := newWorld(func(i int, t time.Duration) bool { return i == 1 || (t/time.Second*7919)%10 > 2 }).run(time.Hour)
	if n := len(w.switches()); n > 2 {
		t.Errorf("%d switches at 30 %% loss: %q", n, w.said)
	}
	// Seven seconds up, seven down.
	w = newWorld(func(i int, t time.Duration) bool {
		return i == 1 || t < time.Minute || t%(14*time.Second) < 7*time.Second
	}).run(5 * time.Minute)
	if n := len(w.switches()); n > 2 {
		t.Errorf("%d switches of a link that flaps: %q", n, w.said)
	}
}

// What the kernel says counts after two seconds, and at once when it is over.
func TestCarrier(t *testing.T) {
	w := newWorld(func(int, time.Duration) bool { return true })
	w.gone = func(i int, t time.Duration) string {
		if i == 0 && (within(t, time.Minute, 61*time.Second) || within(t, 2*time.Minute, 3*time.Minute)) {
			return "no carrier"
		}
		return ""
	}
	w.answer = func(i int, t time.Duration) bool { return w.gone(i, t) == "" }
	w.run(8*time.Minute).want(t, "2s leo", "2m2s lte", "4m2s leo")
}

// A backup that is dead itself is not gone to, and a target that is dead by every
// uplink does not look like an outage of one.
func TestStandbyIsVerified(t *testing.T) {
	w := newWorld(func(i int, t time.Duration) bool { return i == 0 && t < 5*time.Minute || i == 1 && t < 4*time.Minute }).run(15 * time.Minute)
	w.want(t, "2s leo")
}

func TestMeteredIsAskedSeldom(t *testing.T) {
	rounds := 0
	w := newWorld(func(i int, t time.Duration) bool {
		if i == 1 {
			rounds++
		}
		return true
	})
	w.run(24 * time.Hour)
	if rounds < 2800 || rounds > 2950 {
		t.Errorf("%d rounds of the metered uplink in a day, want one each 30 s", rounds)
	}
}

// slow gives each round of uplink 0 a time.
func slow(rtt func(t time.Duration) time.Duration, loaded bool) *world {
	c := Config{Uplinks: []Uplink{{Name: "leo"}, {Name: "lte"}}, Rules: leo}
	w := newWorldOf(c, func(int, time.Duration) bool { return true })
	for ; w.t < 20*time.Minute; w.t += time.Second {
		w.s = w.c.Saw(w.s, 0, Round{At: w.t, OK: true, RTT: rtt(w.t), Loaded: loaded})
		w.s = w.c.Saw(w.s, 1, Round{At: w.t, OK: true, RTT: 60 * time.Millisecond})
		var d Decision
		w.s, d = w.c.Decide(w.s, w.now())
		for _, e := range d.Events {
			w.said = append(w.said, fmt.Sprintf("%v %s %s", w.t, e.What, e.Uplink))
		}
	}
	return w
}

func TestLatencyIsRelative(t *testing.T) {
	rise := func(usual, then time.Duration) func(t time.Duration) time.Duration {
		return func(t time.Duration) time.Duration {
			if t > 10*time.Minute {
				return then
			}
			return usual
		}
	}
	slow(rise(600*time.Millisecond, 800*time.Millisecond), false).want(t, "2s leo")
	slow(rise(40*time.Millisecond, 300*time.Millisecond), false).want(t, "2s leo")
	slow(rise(40*time.Millisecond, 700*time.Millisecond), false).want(t, "2s leo", "10m30s lte")
	slow(rise(40*time.Millisecond, 700*time.Millisecond), true).want(t, "2s leo")
}

// An uplink that is good for good is used again, whatever happened before and whatever
// people chose.
func TestGoodIsUsedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		past := rapid.SliceOfN(rapid.Uint16(), 1, 12).Draw(t, "past") // runs of seconds, good and bad by turns
		preset := rapid.SampledFrom([]string{"leo", "geo", "lte", "strict"}).Draw(t, "preset")
		rules, err := Preset(preset)
		if err != nil {
			t.Fatal(err)
		}
		second := rapid.SliceOfN(rapid.Uint16(), 1, 12).Draw(t, "backup")
		var end time.Duration
		state := func(runs []uint16, t time.Duration) bool {
			var at time.Duration
			for i, n := range runs {
				if at += time.Duration(n%900) * time.Second; t < at {
					return i%2 == 1
				}
			}
			return true
		}
		for _, runs := range [][]uint16{past, second} {
			var sum time.Duration
			for _, n := range runs {
				sum += time.Duration(n%900) * time.Second
			}
			end = max(end, sum)
		}
		w := newWorldOf(Config{Uplinks: []Uplink{{Name: "leo"}, {Name: "lte", Metered: true}}, Rules: rules}, func(i int, t time.Duration) bool {
			return state([][]uint16{past, second}[i], t)
		})
		for _, gap := range rapid.SliceOfN(rapid.Uint16(), 0, 6).Draw(t, "choices") {
			w.run(w.t + time.Duration(gap%900)*time.Second)
			f := Forced{Uplink: rapid.IntRange(0, 1).Draw(t, "chosen"), Until: w.t + time.Duration(rapid.IntRange(1, 1500).Draw(t, "for"))*time.Second}
			w.s = w.c.Force(w.s, f)
			end = max(end, f.Until)
		}
		w.run(end + rules.DwellMax + rules.UpFor + 5*time.Minute)
		if w.s.Active != 0 {
			t.Fatalf("%d is active at the end\n%s", w.s.Active, strings.Join(w.said, "\n"))
		}
		for i, o := range w.c.Outlook(w.s, w.now()) {
			if i > 0 && o.Needs == "" {
				t.Fatal("an uplink that is not active needs nothing")
			}
		}
	})
}

// What an uplink that is not active would need is so: after that time it is.
func TestOutlookIsTrue(t *testing.T) {
	w := newWorld(func(i int, t time.Duration) bool { return i == 1 || !within(t, 100*time.Second, 400*time.Second) })
	w.run(445 * time.Second)
	o := w.c.Outlook(w.s, w.now())[0]
	w.run(w.t + time.Duration(o.Earliest) - time.Second)
	if w.s.Active != 1 {
		t.Errorf("active %d before %v", w.s.Active, o)
	}
	w.run(w.t + 2*time.Second)
	if w.s.Active != 0 || o.Earliest <= 0 {
		t.Errorf("active %d after %v\n%s", w.s.Active, o, strings.Join(w.said, "\n"))
	}
}

func TestForced(t *testing.T) {
	w := newWorld(func(i int, t time.Duration) bool { return i == 0 || t < 20*time.Minute }).run(time.Minute)
	w.s = w.c.Force(w.s, Forced{Uplink: 1, Until: 6 * time.Minute, Why: "a drill"})
	w.run(10 * time.Minute)
	w.want(t, "2s leo", "1m1s lte", "6m0s leo")
	// One that fails in a drill ends it.
	w.s = w.c.Force(w.s, Forced{Uplink: 1, Until: time.Hour, Why: "a drill"})
	w.run(40 * time.Minute)
	w.want(t, "2s leo", "1m1s lte", "6m0s leo", "10m0s lte", "20m11s leo")
	// One that does not answer is not gone to, and hinders nothing.
	w.s = w.c.Force(w.s, Forced{Uplink: 1, Until: time.Hour, Why: "a drill"})
	w.run(50 * time.Minute)
	if w.s.Active != 0 {
		t.Errorf("%q", w.said)
	}
}

// daily is a window by the wall.
type daily struct{ from, to time.Duration }

func (w daily) Span(t time.Time) (start, end time.Time) {
	day := t.Truncate(24 * time.Hour)
	if !t.Before(day.Add(w.to)) {
		day = day.Add(24 * time.Hour)
	}
	return day.Add(w.from), day.Add(w.to)
}

func TestMaintenance(t *testing.T) {
	with := func(hold bool) Config {
		return Config{Rules: leo, Uplinks: []Uplink{
			{Name: "leo", Windows: []Planned{{daily{2 * time.Hour, 3 * time.Hour}, hold}}}, {Name: "lte", Metered: true},
		}}
	}
	out := func(i int, t time.Duration) bool {
		return i == 1 || !within(t, 2*time.Hour+time.Minute, 2*time.Hour+10*time.Minute)
	}
	w := newWorldOf(with(false), out).run(4 * time.Hour)
	w.want(t, "2s leo", "1h59m0s lte expected", "3h0m0s leo")
	if w.s.Level != 0 {
		t.Errorf("level %d", w.s.Level)
	}
	w = newWorldOf(with(true), out).run(4 * time.Hour)
	w.want(t, "2s leo")
	for _, want := range []string{"2h1m11s verdict leo down expected", "2h1m11s held leo expected"} {
		if !slices.Contains(w.said, want) {
			t.Errorf("%s is not in %q", want, w.said)
		}
	}
	// A window that is overrun is expected for as long as the grace.
	w = newWorldOf(with(false), func(i int, t time.Duration) bool {
		return i == 1 || !within(t, 3*time.Hour+5*time.Minute, 3*time.Hour+7*time.Minute)
	}).run(4 * time.Hour)
	if sw := w.switches(); len(sw) != 5 || !strings.HasSuffix(sw[3], "lte expected") || w.s.Level != 0 {
		t.Errorf("level %d, %q", w.s.Level, sw)
	}
	// Without another uplink that answers it is not left for a window.
	w = newWorldOf(with(false), func(i int, t time.Duration) bool { return i == 0 && out(i, t) }).run(4 * time.Hour)
	w.want(t, "2s leo")
}

// One that is dead is not left before the end of a window that has it stay, or an hour;
// that is told once, and what waits for it knows.
func TestHeld(t *testing.T) {
	for _, long := range []time.Duration{30 * time.Minute, 5 * time.Hour} {
		c := Config{Rules: leo, Uplinks: []Uplink{
			{Name: "leo", Windows: []Planned{{daily{2 * time.Hour, 2*time.Hour + long}, true}}}, {Name: "lte"},
		}}
		w := newWorldOf(c, func(i int, t time.Duration) bool { return i == 1 || t < 2*time.Hour+10*time.Minute }).run(2*time.Hour + time.Minute)
		end := 2*time.Hour + min(long, time.Hour)
		want := "the end of leo's maintenance, " + midnight.Add(end).Format(time.RFC3339)
		if o := w.c.Outlook(w.s, w.now())[1]; o.Needs != want+", and it being down or degraded then" || o.Earliest != 0 {
			t.Errorf("%+v, want %s", o, want)
		}
		w.run(2*time.Hour + 20*time.Minute)
		if o := w.c.Outlook(w.s, w.now())[1]; o.Needs != want || time.Duration(o.Earliest) != end-w.t {
			t.Errorf("%+v, want %s", o, want)
		}
		w.run(6*time.Hour).want(t, "2s leo", end.String()+" lte expected")
		if n := strings.Count(strings.Join(w.said, "\n"), EventHeld); n != 1 || w.s.Level != 0 {
			t.Errorf("told %d times, level %d: %q", n, w.s.Level, w.said)
		}
	}
}

// A backup that stays is no trouble, and nothing to tell; what is preferred knows that it
// has to wait.
func TestHeldBackup(t *testing.T) {
	c := Config{Rules: leo, Uplinks: []Uplink{{Name: "leo"}, {Name: "lte", Windows: []Planned{{daily{2 * time.Hour, 2*time.Hour + 30*time.Minute}, true}}}}}
	w := newWorldOf(c, func(i int, t time.Duration) bool { return i == 1 || !within(t, 119*time.Minute, 130*time.Minute) })
	needs := func() (string, time.Duration) {
		o := w.c.Outlook(w.s, w.now())[0]
		return o.Needs, w.t + time.Duration(o.Earliest)
	}
	w.run(130*time.Minute + 20*time.Second)
	if text, at := needs(); !strings.Contains(text, "good rounds in a row") || at != 150*time.Minute {
		t.Errorf("%s, at %v", text, at)
	}
	w.run(140 * time.Minute)
	if text, at := needs(); text != "the end of lte's maintenance, 2026-07-17T02:30:00Z" || at != 150*time.Minute {
		t.Errorf("%s, at %v", text, at)
	}
	w.run(3*time.Hour).want(t, "2s leo", "1h59m11s lte", "2h30m0s leo expected")
	if slices.ContainsFunc(w.said, func(s string) bool { return strings.Contains(s, EventHeld) }) {
		t.Errorf("%q", w.said)
	}
}

// Of windows that overlap the last one to end decides.
func TestWindowsOverlap(t *testing.T) {
	c := Config{Rules: leo, Uplinks: []Uplink{{Name: "leo", Windows: []Planned{{daily{2 * time.Hour, 4 * time.Hour}, false}, {daily{2 * time.Hour, 3 * time.Hour}, false}}}, {Name: "lte"}}}
	w := newWorldOf(c, func(int, time.Duration) bool { return true }).run(150 * time.Minute)
	if o := w.c.Outlook(w.s, w.now())[0]; o.Needs != "the end of its maintenance, 2026-07-17T04:00:00Z" {
		t.Errorf("%+v", o)
	}
}

// An uplink has to have a time that it is used for.
func TestUsable(t *testing.T) {
	h := time.Hour
	for _, c := range []struct {
		lead    time.Duration
		windows []Planned
		want    bool
	}{
		{time.Minute, nil, true},
		{time.Minute, []Planned{{daily{2 * h, 3 * h}, false}}, true},
		{24 * h, []Planned{{daily{2 * h, 3 * h}, false}}, false},
		{h, []Planned{{daily{2 * h, 25 * h}, true}}, true},
		{h, []Planned{{daily{0, 23 * h}, false}}, false},
		{58 * time.Minute, []Planned{{daily{0, 23 * h}, false}}, true},
		{h, []Planned{{daily{0, 12 * h}, false}, {daily{12*h + time.Minute, 23*h + 30*time.Minute}, false}}, false},
		{h, []Planned{{daily{0, 12 * h}, false}, {daily{13*h + 2*time.Minute, 23*h + 30*time.Minute}, false}}, true},
	} {
		rules := leo
		rules.Lead = c.lead
		if got := (Config{[]Uplink{{Windows: c.windows}}, rules}).Usable(0, midnight.Add(7*h)); got != c.want {
			t.Errorf("lead %v, %v: %v", c.lead, c.windows, got)
		}
	}
}

// An outage raises nothing in another's state: values are values.
func TestStatesAreValues(t *testing.T) {
	w := newWorld(func(int, time.Duration) bool { return true }).run(time.Minute)
	before := fmt.Sprintf("%+v", w.s)
	s := w.s
	for i := range 30 {
		s = w.c.Saw(s, 0, Round{At: w.t + time.Duration(i)*time.Second})
		s, _ = w.c.Decide(s, Now{w.t + time.Duration(i)*time.Second, midnight})
	}
	if after := fmt.Sprintf("%+v", w.s); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

func TestPresets(t *testing.T) {
	if _, err := Preset("hasty"); err == nil || !strings.Contains(err.Error(), "geo, leo, lte, strict") {
		t.Errorf("got %v", err)
	}
}

func TestJudge(t *testing.T) {
	good := func(class string, rtt time.Duration) Answer {
		return Answer{Target: "a", Class: class, OK: true, RTT: rtt}
	}
	bad := func(class string) Answer { return Answer{Target: "b", Class: class, Why: "no answer"} }
	for _, c := range []struct {
		answers []Answer
		ok      bool
		why     string
	}{
		{[]Answer{good("ping", 9), good("ping", 5), good("connect", 7)}, true, ""},
		{[]Answer{good("ping", 9), bad("ping"), good("connect", 7)}, true, ""},
		{[]Answer{good("ping", 9), good("ping", 9), bad("connect")}, false, "no target of connect"},
		{[]Answer{good("connect", 9), good("connect", 9), bad("ping")}, false, "no target of ping"},
		{[]Answer{good("connect", 9), bad("ping"), bad("ping")}, false, "1 of 3 targets answer, want 2"},
		{nil, false, "nothing was asked"},
	} {
		r := Judge(time.Second, c.answers, 2)
		if r.OK != c.ok || !strings.Contains(r.Why, c.why) {
			t.Errorf("%v: got %+v", c.answers, r)
		}
	}
	if r := Judge(0, []Answer{good("ping", 9), good("ping", 5)}, 1); r.RTT != 5 {
		t.Errorf("RTT %v", r.RTT)
	}
	no := Answer{Class: "ping", NoRoute: true}
	if r := Judge(0, []Answer{no, no}, 1); !r.NoRoute {
		t.Error("it had a route")
	}
}
