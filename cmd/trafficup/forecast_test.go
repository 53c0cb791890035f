package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/uploader"
)

// past is the report of a run as it is kept.
func past(run string, acked int64, seconds, fallback float64, first, second int64) result {
	return result{
		Type: "summary", Run: run, Counts: uploader.Counts{Acked: acked}, DurationS: seconds, FallbackS: fallback, Calls: first + second,
		Paths: map[string]int64{"wire": first, "sat": second}, Pathways: []pathway{{Name: "wire"}, {Name: "sat"}},
	}
}

func TestForesee(t *testing.T) {
	const early, late = "20260716T030000Z-000abcd", "20260717T030000Z-000abcd"
	now := time.Date(2026, 7, 18, 1, 0, 0, 0, time.UTC)
	plain := past(late, 342, 10, 0, 342, 0)
	unknown := "forecast depends on the link; with --rate, or after a first run, it could be told"
	for _, tt := range []struct {
		name     string
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
			r := result{Counts: uploader.Counts{Acked: tt.valid}}
			r.foresee(st, tt.rate, now, deadline)
			if got := fmt.Sprint(r.lines); got != "["+tt.want+"]" {
				t.Errorf("%s\nwant [%s]", got, tt.want)
			}
			if told := tt.want != unknown; told != (r.ForecastS > 0) {
				t.Errorf("%v s", r.ForecastS)
			}
		})
	}
}
