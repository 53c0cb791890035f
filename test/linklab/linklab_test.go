//go:build linux

package linklab

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json/v2"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

var profiles = flag.String("linklab.profiles", "", "scenarios to play: names with commas between them, quick (when empty) or all")
var strict = flag.Bool("linklab.strict", false, "hold the share of the ideal on this machine as it is, however late")
var limit = flag.Duration("linklab.limit", 2*time.Minute, "time for all scenarios")

// TestLinks boots one kernel, plays the scenarios in it and holds what they show
// against what trafficup promises. It needs root and three Debian packages.
func TestLinks(t *testing.T) {
	wanted(t)
	chosen := choose(t)
	results := play(t, chosen)
	t.Log("\n" + table(chosen, results))
	for _, s := range chosen {
		t.Run(s.Name, func(t *testing.T) {
			r, ok := results[s.Name]
			if !ok {
				t.Fatal("no result")
			}
			t.Logf("records in each second: %d", r.PerSecond)
			t.Logf("%s: %s", r.Summary.Verdict, r.Summary.VerdictWhy)
			if s.Control {
				t.Logf("a request took %.1f ms, of the control %.1f, at best %.1f", ms(s.Took(r.Steady)), ms(s.Took(r.Control.Rate)), r.Control.FastestMS)
			}
			t.Logf("paths %v, latency %+v", r.Summary.Paths, r.Summary.LatencyMS)
			for _, w := range r.Warnings {
				t.Logf("%d times: %s", w.Times, w.Message)
			}
			check(t, s, r)
		})
	}
}

// wanted skips the test unless somebody asked for it, as CI does, and fails it
// when it cannot run then.
func wanted(t *testing.T) {
	if *profiles == "" && os.Getenv("CI") == "" && os.Getenv("LINKLAB") == "" {
		t.Skip("set LINKLAB=1 or -linklab.profiles")
	}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("what runs in the guest is not built for the race detector")
	}
	if err := Missing(); err != nil {
		t.Fatal(err)
	}
}

// choose returns the scenarios to play.
func choose(t *testing.T) []Scenario {
	wish := cmp.Or(*profiles, "quick")
	names := strings.Split(wish, ",")
	all := Scenarios()
	for _, n := range names {
		if n != "all" && n != "quick" && !slices.ContainsFunc(all, func(s Scenario) bool { return s.Name == n }) {
			t.Fatalf("no scenario %q", n)
		}
	}
	return slices.DeleteFunc(all, func(s Scenario) bool {
		return !slices.Contains(names, s.Name) && wish != "all" && (wish != "quick" || !s.Quick)
	})
}

// kernels is how many run at once: one for each processor a small machine has.
const kernels = 2

// deal shares scenarios out to kernels, as the arguments that the guests take:
// the longest first, each to the kernel that has least to do. Those that hardly
// do anything run beside the others.
func deal(chosen []Scenario) [kernels][]string {
	var args [kernels][]string
	var rows [kernels][]string
	var lasts [kernels]time.Duration
	longest := slices.SortedStableFunc(slices.Values(chosen), func(a, b Scenario) int { return cmp.Compare(b.Lasts(), a.Lasts()) })
	for _, s := range longest {
		least := 0
		for k := range lasts {
			if lasts[k] < lasts[least] {
				least = k
			}
		}
		if s.Ideal() < 2 {
			args[least] = append(args[least], s.Name)
			continue
		}
		lasts[least] += s.Lasts()
		rows[least] = append(rows[least], s.Name)
	}
	for k, row := range rows {
		if len(row) > 0 {
			args[k] = append(args[k], strings.Join(row, ","))
		}
	}
	return args
}

func play(t *testing.T, chosen []Scenario) map[string]Result {
	dir := t.TempDir()
	limit := *limit
	guest := build(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), limit+time.Minute)
	defer cancel()
	results := map[string]Result{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for k, args := range deal(chosen) {
		if len(args) == 0 {
			continue
		}
		wg.Go(func() {
			dir := filepath.Join(dir, fmt.Sprint(k))
			rs, err := boot[Result](ctx, dir, guest, append([]string{dir, limit.String()}, args...))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, r := range rs {
				results[r.Name] = r
			}
		})
	}
	wg.Wait()
	return results
}

// build compiles the program to try to dir, and returns the guest.
func build(t *testing.T, dir string) (guest string) {
	t.Helper()
	_, err := Build(t.Context(), dir, "trafficup", "trafficup/cmd/trafficup")
	if err == nil {
		guest, err = Build(t.Context(), dir, "guest", "trafficup/test/linklab/guest")
	}
	if err != nil {
		t.Fatal(err)
	}
	return guest
}

// boot runs one guest and returns what it has written, also after an error.
func boot[R any](ctx context.Context, dir, guest string, args []string) (rs []R, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	var console bytes.Buffer
	err = Boot(ctx, &console, dir, guest, args...)
	text, readErr := os.ReadFile(filepath.Join(dir, ResultsFile))
	err = errors.Join(err, readErr)
	for line := range bytes.Lines(text) {
		var r R
		err = errors.Join(err, json.Unmarshal(line, &r))
		rs = append(rs, r)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, console.String())
	}
	return rs, err
}

// check holds a result against what trafficup promises. Scenarios it promises
// nothing of are only reported.
func check(t *testing.T, s Scenario, r Result) {
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	most := func(what string, got, limit float64) {
		if got > limit {
			t.Errorf("%s is %.3f, want at most %.3f", what, got, limit)
		}
	}
	// Each acked key was applied, so as many writes as keys leave none twice.
	most("number of writes", float64(r.Sandbox.Applied), float64(s.Records))
	switch s.Name {
	case "far", "far-lossy", "far-lossy-long":
		least := 0.95
		if s.Link.Loss > 0 {
			least = 0.85
		}
		if r.Steady == 0 || r.Control.Rate == 0 {
			t.Fatalf("steady rate %.1f/s, that of the control %.1f/s: nothing was compared", r.Steady, r.Control.Rate)
		}
		witness := r.Control
		if *strict {
			witness.Rate = s.Ideal()
		}
		most("time of a request in ms", ms(s.Took(r.Steady)), ms(s.Longest(least, witness)))
		most("amplification", r.Summary.Amplification, 1.05)
		// All that a busy machine adds is late, and of hundreds of requests one is not.
		if fastest := min(r.RTTms, r.Control.FastestMS); fastest < 230 || fastest > 240 {
			t.Errorf("the link has a round trip of %.1f ms, want 230", fastest)
		}
	case "flap", "flap-long":
		most("amplification", r.Summary.Amplification, 1.10)
		most("number of breaker transitions", float64(r.Transitions()), 2*float64(r.Outages))
		if r.Outages == 0 || r.Transitions() == 0 {
			t.Errorf("%d outages, %d transitions: nothing was tried", r.Outages, r.Transitions())
		}
	case "slow":
		most("number of breaker transitions", float64(r.Transitions()), 0)
		most("amplification", r.Summary.Amplification, 1)
	default:
		return
	}
	if want := map[string]string{"far": "link slow", "slow": "service slow"}[s.Name]; want != "" && r.Summary.Verdict != want {
		t.Errorf("the verdict is %q, want %q: %s", r.Summary.Verdict, want, r.Summary.VerdictWhy)
	}
	if r.Exit != 0 || r.Summary.Acked != s.Records {
		t.Errorf("exit %d, %d of %d records acked: %s", r.Exit, r.Summary.Acked, s.Records, r.Summary.Result)
	}
}

// table is the report of a run.
func table(chosen []Scenario, results map[string]Result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "scenario\tRTT ms\tconc.\trecords\ttime s\trate/s\tsteady/s\tof ideal\tcontrol/s\tof control\tcalls\tampl.\toutages\ttransitions\ttwice\tdials\tresent\t")
	some := func(format string, v float64) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf(format, v)
	}
	for _, s := range chosen {
		r := results[s.Name]
		ofControl := 0.0
		if r.Control.Rate > 0 {
			ofControl = 100 * r.Steady / r.Control.Rate
		}
		fmt.Fprintf(w, "%s\t%.0f\t%d\t%d\t%.1f\t%.1f\t%s\t%s\t%s\t%s\t%d\t%.3f\t%d\t%d\t%d\t%d\t%d\t\n", s.Name, r.RTTms, s.Concurrency,
			r.Summary.Acked, r.Seconds, float64(r.Summary.Acked)/max(r.Seconds, 0.001), some("%.1f", r.Steady), some("%.1f%%", 100*r.Steady/s.Ideal()),
			some("%.1f", r.Control.Rate), some("%.1f%%", ofControl), r.Summary.Calls,
			r.Summary.Amplification, r.Outages, r.Transitions(), max(0, r.Sandbox.Applied-s.Records), r.Dials, r.Retransmits)
	}
	w.Flush()
	return b.String()
}
