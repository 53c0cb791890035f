package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"trafficup/internal/config"
	"trafficup/internal/disk"
	"trafficup/internal/uploader"
)

// past is the report of a run as it is kept.
func past(run string, acked int64, seconds, fallback float64, first, second int64) result {
	return result{
		Type: "summary", Run: run, Counts: uploader.Counts{Acked: acked}, DurationS: seconds, FallbackS: fallback, Calls: first + second,
		Paths: map[string]int64{"wire": first, "sat": second}, Pathways: []pathway{{Name: "wire", URL: wireURL}, {Name: "sat"}},
	}
}

const wireURL = "https://wire.test/v1?***"

// with is r with a change.
func (r result) with(change func(*result)) result {
	change(&r)
	return r
}

// configured is what a file with this text makes of the options.
func configured(t *testing.T, text string) Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trafficup.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(config.Sources{File: path})
	if err != nil {
		t.Fatal(err)
	}
	return Config{l}
}

func TestForesee(t *testing.T) {
	const early, late = "20260716T030000Z-000abcd", "20260717T030000Z-000abcd"
	now := time.Date(2026, 7, 18, 1, 0, 0, 0, time.UTC)
	plain := past(late, 342, 10, 0, 342, 0)
	lone := "api: {primary: 'https://wire.test/v1?x'}"
	unknown := "forecast depends on the link; with --rate, or after a first run, it could be told"
	verdictIs := func(word string) func(*result) { return func(r *result) { r.Verdict = word } }
	for _, tt := range []struct {
		name     string
		set      string // configuration, in YAML
		runs     []result
		damaged  string // the run whose report is no report
		rate     float64
		valid    int64
		deadline time.Duration
		want     string
	}{
		{name: "no run yet", valid: 10000, want: unknown},
		{name: "the last run", runs: []result{past(early, 100, 10, 0, 100, 0), plain}, valid: 10000,
			want: "forecast 4m52s at the pace of the last run (34.2/s), to 01:04Z"},
		{name: "the rate goes before", runs: []result{plain}, rate: 20, valid: 10000, want: "forecast 8m20s at 20 records/s, to 01:08Z"},
		{name: "too few to tell", runs: []result{past(early, 100, 10, 0, 100, 0), past(late, 19, 1, 0, 19, 0)}, valid: 100,
			want: "forecast 10s at the pace of the last run (10.0/s), to 01:00Z"},
		{name: "a damaged report", runs: []result{past(early, 100, 10, 0, 100, 0), plain}, damaged: late, valid: 100,
			want: "forecast 10s at the pace of the last run (10.0/s), to 01:00Z"},
		{name: "half of it by the fallback", runs: []result{past(late, 200, 60, 50, 100, 100)}, valid: 100,
			want: "forecast 10s at the pace of the last run (10.0/s), to 01:00Z"},
		{name: "all of it by the fallback", runs: []result{past(late, 200, 60, 50, 0, 200)}, valid: 100, want: unknown},
		{name: "nothing valid", runs: []result{plain}, want: unknown},
		{name: "in time", runs: []result{plain}, valid: 342, deadline: time.Minute,
			want: "forecast 10s at the pace of the last run (34.2/s), to 01:00Z, 50s before the deadline"},
		{name: "too late", runs: []result{plain}, valid: 3420, deadline: time.Minute,
			want: "forecast 1m40s at the pace of the last run (34.2/s), to 01:01Z, 40s after the deadline"},
		{name: "another URL", runs: []result{plain.with(func(r *result) { r.Pathways = []pathway{{Name: "wire", URL: "https://old.test/v1"}} })}, valid: 100, want: unknown},
		{name: "no URL to send to yet", set: "output: {quiet: true}", runs: []result{plain}, valid: 342, want: "forecast 10s at the pace of the last run (34.2/s), to 01:00Z"},
		{name: "held to a rate", runs: []result{past(early, 100, 10, 0, 100, 0), plain.with(func(r *result) { r.Rate = 34.2 })}, valid: 100,
			want: "forecast 10s at the pace of the last run (10.0/s), to 01:00Z"},
		{name: "an outage", runs: []result{plain.with(verdictIs("service failing"))}, valid: 100, want: unknown},
		{name: "a link that was away", runs: []result{plain.with(verdictIs("link down"))}, valid: 100, want: unknown},
		{name: "throttled by us", runs: []result{plain.with(verdictIs("throttled by us"))}, valid: 100, want: unknown},
		{name: "a ceiling of theirs counts", runs: []result{plain.with(verdictIs("throttled by them"))}, valid: 342, want: "forecast 10s at the pace of the last run (34.2/s), to 01:00Z"},
		{name: "without standing still", runs: []result{past(late, 342, 40, 0, 342, 0).with(func(r *result) { r.Stood = []stood{{20, "x"}, {10, "y"}} })}, valid: 342,
			want: "forecast 10s at the pace of the last run (34.2/s), to 01:00Z"},
		{name: "a closed window", set: lone + "\nmaintenance: [{path: primary, from: '01:00', to: '01:20', closed: true}, {path: primary, from: '02:00', to: '02:30'}]",
			rate: 1, valid: 60, want: "forecast 21m0s at 1 records/s and 20m0s of closed windows, to 01:21Z"},
		{name: "closed, and there is another path", set: "api: {primary: 'https://wire.test/v1?x', fallback: 'https://sat.test/v1'}\nmaintenance: [{path: primary, from: '01:00', to: '01:20', closed: true}]",
			rate: 1, valid: 60, want: "forecast 1m0s at 1 records/s, to 01:01Z"},
		{name: "the path's own rate", set: lone + "\npaths: {primary: {rate: 2}}", rate: 20, valid: 60, want: "forecast 30s at 2 records/s, to 01:00Z"},
		{name: "as good as never", runs: []result{past(late, 20, 1e15, 0, 20, 0)}, valid: 1 << 60,
			want: "forecast 87600h0m0s at the pace of the last run (0.0/s), to 01:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := &state{fs: disk.OS{}, dir: t.TempDir()}
			for _, r := range tt.runs {
				path, err := saveReport(st, r)
				if err == nil && r.Run == tt.damaged {
					err = os.WriteFile(filepath.Clean(path), []byte(`{"run":`), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			var deadline time.Time
			if tt.deadline > 0 {
				deadline = now.Add(tt.deadline)
			}
			if tt.set == "" {
				tt.set = lone
			}
			c := configured(t, fmt.Sprintf("%s\nupload: {rate: %g}", tt.set, tt.rate))
			r := result{Counts: uploader.Counts{Acked: tt.valid}}
			r.foresee(st, c, now, deadline)
			if got := fmt.Sprint(r.lines); got != "["+tt.want+"]" {
				t.Errorf("%s\nwant [%s]", got, tt.want)
			}
			if told := tt.want != unknown; told != (r.ForecastS > 0) {
				t.Errorf("%v s", r.ForecastS)
			}
		})
	}
}
