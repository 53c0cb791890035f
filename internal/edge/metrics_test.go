package edge

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/disk"
	"trafficup/internal/failover"
	"trafficup/internal/uplinkstate"
)

func switched(from, to string, expected bool, after time.Duration) Happening {
	return Happening{Event: failover.Event{What: failover.EventSwitch, From: from, Uplink: to, Expected: expected, After: failover.Seconds(after)}}
}

// What is counted is counted once, also over an end of the loop, and anew in the next
// boot.
func TestTally(t *testing.T) {
	set := Happening{Event: failover.Event{What: EventRoutes}}
	tally := NewTally(Report{}, "this", time.Second)
	tally.Told(set, time.Second) // the first time, and that of the choice
	tally.Told(switched("", "leo", false, 0), 10*time.Second)
	tally.Told(set, 10*time.Second)
	tally.Told(set, 30*time.Second) // somebody took it away
	tally.Told(switched("leo", "lte", false, 12*time.Second), 110*time.Second)
	tally.Told(set, 110*time.Second)
	tally.HookFailed()
	last := Report{Boot: "this", Uplink: uplinkstate.Uplink{Active: "lte"}, Counts: tally.Counts(120 * time.Second)}
	tally = NewTally(last, "this", 150*time.Second)
	tally.Told(set, 150*time.Second) // while nobody looked
	tally.Told(switched("lte", "leo", true, 0), 200*time.Second)
	tally.Told(switched("leo", "lte", false, 14*time.Second), 210*time.Second)
	c := tally.Counts(211 * time.Second)
	if c.Carried["leo"] != 110*time.Second || c.Carried["lte"] != 91*time.Second || c.PutBack != 2 || c.Hooks != 1 || c.Detected != 14*time.Second {
		t.Errorf("%+v", c)
	}
	if len(c.Switches) != 3 || c.Switches[1] != (Switches{"leo", "lte", false, 2}) || c.Switches[2] != (Switches{"lte", "leo", true, 1}) {
		t.Errorf("%+v", c.Switches)
	}
	last.Counts.Carried["leo"] = 0
	if again := tally.Counts(211 * time.Second); again.Carried["leo"] == 0 {
		t.Error("they are shared")
	}
	for _, other := range []*Tally{NewTally(last, "the next", time.Second), NewTally(Report{Boot: "this"}, "this", time.Second), NewTally(last, "this", time.Second)} {
		if c := other.Counts(2 * time.Second); len(c.Carried)+len(c.Switches)+c.Hooks != 0 {
			t.Errorf("%+v", c)
		}
	}
}

// measuredReport is one with all there can be.
func measuredReport(t testing.TB) (failover.Config, Report) {
	rules, err := failover.Preset("leo")
	if err != nil {
		t.Fatal(err)
	}
	c := failover.Config{Uplinks: []failover.Uplink{{Name: `le"o`}, {Name: "lte", Metered: true}, {Name: "dsl"}}, Rules: rules}
	now := failover.Now{Boot: time.Hour, Wall: time.Unix(1800000000, 0)}
	s := c.New(now)
	s.Active, s.Since, s.Level = 1, 30*time.Minute, 3
	s.Health[0] = failover.Health{Verdict: failover.Down, Rounds: 60, History: 1<<15 - 1, RTT: 41 * time.Millisecond, Usual: 40 * time.Millisecond}
	s.Health[1].Verdict, s.Health[1].Usual = failover.Up, 70*time.Millisecond
	r := NewReport(c, s, now, "this", 1, nil)
	r.Uplinks[1].Probes.Boot = 5184
	r.Counts = Counts{
		Until: time.Hour, Carried: map[string]time.Duration{"lte": 90 * time.Second}, PutBack: 4, Hooks: 2, Detected: 12500 * time.Millisecond,
		Switches: []Switches{{"", `le"o`, false, 1}, {`le"o`, "lte", false, 2}, {`le"o`, "lte", true, 3}},
	}
	return c, r
}

func metricsOf(t testing.TB, c failover.Config, r Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteMetrics(&b, c, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestMetrics(t *testing.T) {
	text := metricsOf(t, failover.Config{}, Report{State: failover.State{AllDown: true}})
	for _, absent := range []string{"active_since", "detection_seconds", "switches_total", "rtt"} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is there though nothing is known", absent)
		}
	}
	c, r := measuredReport(t)
	text = metricsOf(t, c, r)
	for _, line := range []string{
		`active{uplink="le\"o"} 0`, `active{uplink="lte"} 1`, `up{uplink="le\"o"} 0`, `up{uplink="lte"} 1`, `up{uplink="dsl"} 0`,
		`verdict{uplink="le\"o",verdict="down"} 1`, `verdict{uplink="le\"o",verdict="up"} 0`, `verdict{uplink="dsl",verdict="unknown"} 1`,
		`switches_total{from="",to="le\"o",expected="false"} 1`, `switches_total{from="le\"o",to="lte",expected="true"} 3`,
		`rtt_seconds{uplink="le\"o"} 0.041`, `usual_rtt_seconds{uplink="lte"} 0.07`, `loss_ratio{uplink="le\"o"} 0.25`, `rounds_total{uplink="le\"o"} 60`,
		`metered_seconds_total 90`, `probe_bytes_total{uplink="lte"} 5184`, `active_seconds_total{uplink="lte"} 90`, `damping_level 3`, `dwell_seconds 480`, `all_down 0`, `window 0`, `forced 0`,
		`decision_timestamp_seconds 1800000000`, `active_since_timestamp_seconds 1799998200`, `hook_failures_total 2`, `reconciles_total 4`, `detection_seconds 12.5`,
	} {
		if !strings.Contains(text, "\ntrafficup_failover_"+line+"\n") {
			t.Errorf("there is no %s\n%s", line, text)
		}
	}
	if strings.Contains(text, `rtt_seconds{uplink="dsl"`) {
		t.Error("a time of an uplink that never answered")
	}
	promtool(t, text, "check", "metrics")
}

func TestCountsOutliveTheLoop(t *testing.T) {
	c, r := measuredReport(t)
	s := Store{FS: disk.OS{}, Dir: filepath.Join(t.TempDir(), "failover"), Boot: "this"}
	if err := s.Save(r); err != nil {
		t.Fatal(err)
	}
	got, _, err := s.Load()
	if err != nil || metricsOf(t, c, got) != metricsOf(t, c, r) {
		t.Errorf("%v\n%s", err, metricsOf(t, c, got))
	}
}

// Whatever was counted, what is written has each metric and each sample once.
func TestMetricsOfAnything(t *testing.T) {
	name := rapid.SampledFrom([]string{"leo", "lte", "a\"b\\\n", "\xff", ""})
	sample := regexp.MustCompile(`^trafficup_failover_[a-z_]+(\{([a-z]+="([^"\\]|\\["\\n])*",?)+\})? -?[0-9.]+$`)
	rapid.Check(t, func(t *rapid.T) {
		rules, _ := failover.Preset("leo")
		c := failover.Config{Rules: rules}
		for _, n := range rapid.SliceOfNDistinct(name, 1, 4, rapid.ID).Draw(t, "names") {
			c.Uplinks = append(c.Uplinks, failover.Uplink{Name: n, Metered: rapid.Bool().Draw(t, "metered")})
		}
		now := failover.Now{Boot: time.Hour, Wall: time.Now()}
		s := c.New(now)
		s.Level = rapid.IntRange(0, 40).Draw(t, "level")
		tally := NewTally(Report{}, "", 0)
		at := time.Duration(0)
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			at += time.Duration(rapid.Int64Range(0, math.MaxInt32).Draw(t, "pause"))
			tally.Told(switched(name.Draw(t, "from"), name.Draw(t, "to"), rapid.Bool().Draw(t, "expected"), at), at)
		}
		r := NewReport(c, s, now, "", 1, nil)
		r.Counts = tally.Counts(at)
		var b bytes.Buffer
		if err := WriteMetrics(&b, c, r); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			key := line[:strings.LastIndex(line, " ")]
			if strings.HasPrefix(line, "# ") {
				key = strings.Join(strings.Fields(line)[:3], " ")
			} else if !sample.MatchString(line) {
				t.Errorf("%q", line)
			}
			if seen[key] {
				t.Errorf("%s is there twice", key)
			}
			seen[key] = true
		}
	})
}

// promtool has it say nothing but that all is well.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("this needs promtool (Debian: prometheus)")
		}
		t.Skip("this needs promtool (Debian: prometheus)")
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil || args[1] == "metrics" && len(out) > 0 {
		t.Errorf("promtool %s: %v\n%s", args[0], err, out)
	}
}

// The alerts that come with the program are in order, are of metrics that there are,
// are raised by what they are for, and by nothing when all is well.
func TestAlerts(t *testing.T) {
	const rules = "../../packaging/prometheus/trafficup-failover.yaml"
	promtool(t, "", "check", "rules", "--lint=all", "--lint-fatal", rules)
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, r := measuredReport(t)
	written := metricsOf(t, c, r)
	for _, m := range regexp.MustCompile(`trafficup_failover_\w+`).FindAllString(string(text), -1) {
		if !strings.Contains(written, "# TYPE "+m+" ") {
			t.Errorf("there is no metric %s", m)
		}
	}
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(text), -1) {
		if n := strings.Count(string(cases), "alertname: "+m[1]+","); n == 0 {
			t.Errorf("no case in which %s is not raised", m[1])
		}
		if n := strings.Count(string(cases), "alertname: "+m[1]+"\n"); n == 0 {
			t.Errorf("no case in which %s is raised", m[1])
		}
	}
	promtool(t, "", "test", "rules", "testdata/alerts.yaml")
}
