package edge

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/failover"
)

func aStore(t *testing.T) (Store, failover.Config) {
	rules, err := failover.Preset("leo")
	if err != nil {
		t.Fatal(err)
	}
	return Store{FS: disk.OS{}, Dir: filepath.Join(t.TempDir(), "failover"), Boot: "this"},
		failover.Config{Uplinks: []failover.Uplink{{Name: "leo"}, {Name: "lte", Metered: true}}, Rules: rules}
}

// What was known is known again in the same boot, and for the same uplinks only.
func TestStateIsOfThisBoot(t *testing.T) {
	s, c := aStore(t)
	now := failover.Now{Boot: time.Hour, Wall: time.Now()}
	state := c.New(now)
	state.Active, state.Level, state.Health[1].Verdict = 1, 3, failover.Down
	if err := s.Save(NewReport(c, state, now, "this", 1, nil)); err != nil {
		t.Fatal(err)
	}
	r, ok, err := s.Load()
	if got := r.Last(s.Boot, c, now); err != nil || !ok || got.Active != 1 || got.Level != 3 || got.Health[1].Verdict != failover.Down {
		t.Errorf("%+v %v", got, err)
	}
	renamed := c
	renamed.Uplinks = []failover.Uplink{{Name: "lte"}, {Name: "leo"}}
	more := c
	more.Uplinks = append([]failover.Uplink{{Name: "fibre"}}, c.Uplinks...)
	for _, l := range []struct {
		boot string
		c    failover.Config
	}{{"the next", c}, {"this", renamed}, {"this", more}} {
		if got := r.Last(l.boot, l.c, now); got.Active != -1 || len(got.Health) != len(l.c.Uplinks) {
			t.Errorf("%+v", got)
		}
	}
}

// A damaged state is an error to tell, and no reason not to begin.
func TestDamagedState(t *testing.T) {
	s, c := aStore(t)
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for text, why := range map[string]string{
		"": "EOF", "{": "EOF", "[]": "array", `{"boot":"this"}`: "version 0", `{"version":2,"boot":"this"}`: "version 2: this program reads version 1",
		`{"version":1,"boot":"this","uplinks":[{"name":"leo"},{"name":"lte"}],"state":{"health":[{},{}]}}`:    "0 judged: it is damaged",
		`{"version":1,"boot":"this","uplinks":[{"name":"leo"},{"name":"lte"}],"outlook":[{},{}],"state":{}}`:  "0 of them looked at",
		`{"version":1,"boot":"this","uplinks":[{"name":"leo"}],"outlook":[{},{}],"state":{"health":[{},{}]}}`: "1 uplinks, 2 of them",
	} {
		if err := os.WriteFile(filepath.Join(s.Dir, stateFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, _, err := s.Load()
		if got := r.Last(s.Boot, c, failover.Now{}); err == nil || !strings.Contains(err.Error(), why) || got.Active != -1 || len(got.Health) != 2 {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
}

// A request is there until it is answered, for a next loop as well, but not after its
// end, nor in another boot.
func TestRequestIsTakenOnce(t *testing.T) {
	s, c := aStore(t)
	other := s
	other.Boot = "the next"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	gone := func() {
		t.Helper()
		if _, ok, err := s.Asked(c, time.Hour); ok || err != nil {
			t.Error("it is there", ok, err)
		}
	}
	gone()
	must(s.Ask("lte", time.Hour+time.Minute, "a drill"))
	for range 2 {
		if q, ok, err := s.Asked(c, time.Hour); !ok || err != nil || q != (failover.Forced{Uplink: 1, Until: time.Hour + time.Minute, Why: "a drill"}) {
			t.Errorf("%+v %v %v", q, ok, err)
		}
	}
	must(s.Answered())
	gone()
	for what, ask := range map[string]func() (failover.Forced, bool, error){
		"an uplink that there is not": func() (failover.Forced, bool, error) {
			must(s.Ask("fibre", 2*time.Hour, ""))
			return s.Asked(c, time.Hour)
		},
		"one that is over": func() (failover.Forced, bool, error) {
			must(s.Ask("lte", time.Hour, "a drill"))
			return s.Asked(c, time.Hour)
		},
		"one of another boot": func() (failover.Forced, bool, error) {
			must(s.Ask("lte", 2*time.Hour, "a drill"))
			return other.Asked(c, time.Minute)
		},
		"a damaged one": func() (failover.Forced, bool, error) {
			must(os.WriteFile(filepath.Join(s.Dir, requestFile), []byte("{"), 0o600))
			return s.Asked(c, time.Hour)
		},
	} {
		if _, ok, err := ask(); ok || err == nil {
			t.Errorf("%s was taken", what)
		}
		gone()
	}
	must(s.Ask("", 0, ""))
	if q, ok, err := s.Asked(c, time.Hour); !ok || err != nil || q != (failover.Forced{}) {
		t.Errorf("auto: %+v %v %v", q, ok, err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s, _ := aStore(t)
	all := make([]Told, History+5) // of a time when more were kept
	for i := range all {
		all[i].Why = strconv.Itoa(i)
	}
	if err := s.save(historyFile, all, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, why := range []string{"last but one", "last"} {
		if err := s.Note(Told{Event: failover.Event{What: failover.EventSwitch, Why: why}}); err != nil {
			t.Fatal(err)
		}
	}
	past, err := s.Past()
	if err != nil || len(past) != History || past[0].Why != "7" || past[History-1].Why != "last" {
		t.Error(len(past), err)
	}
}

// inside is a window that is open.
type inside struct{}

func (inside) Span(t time.Time) (start, end time.Time) { return t.Add(-time.Hour), t.Add(time.Hour) }

// The maintenance of a backup that does not carry explains no outage.
func TestWindowIsOfWhatMayCarry(t *testing.T) {
	_, c := aStore(t)
	c.Uplinks = append(c.Uplinks, failover.Uplink{Name: "geo"})
	for at := range c.Uplinks {
		c := c
		c.Uplinks = slices.Clone(c.Uplinks)
		c.Uplinks[at].Windows = []failover.Planned{{Window: inside{}}}
		for active := -1; active < 3; active++ {
			s := c.New(failover.Now{})
			s.Active = active
			if got, want := NewReport(c, s, failover.Now{Wall: time.Now()}, "", 1, nil).Window, at <= max(active, 0); got != want {
				t.Errorf("%d in maintenance, %d active: %v", at, active, got)
			}
		}
	}
}
