package main

import (
	"fmt"
	"slices"
	"time"
)

// telling is how many records a run has to have delivered for its pace to mean
// something.
const telling = 20

// foresee adds to a dry run how long the run would take: at the configured rate,
// or else as fast as the last run went.
func (r *result) foresee(st *state, rate float64, now, deadline time.Time) {
	at := fmt.Sprintf("at %g records/s", rate)
	if rate <= 0 {
		rate = lastPace(st)
		at = fmt.Sprintf("at the pace of the last run (%.1f/s)", rate)
	}
	if rate <= 0 || r.Acked == 0 {
		r.lines = append(r.lines, "forecast depends on the link; with --rate, or after a first run, it could be told")
		return
	}
	takes := time.Duration(min(float64(r.Acked)/rate, farthest.Seconds()) * float64(time.Second)).Round(time.Second)
	end := now.Add(takes)
	line := fmt.Sprintf("forecast %s %s, to %s", takes, at, end.UTC().Format("15:04Z"))
	switch {
	case deadline.IsZero():
	case end.After(deadline):
		line += fmt.Sprintf(", %s after the deadline", end.Sub(deadline).Round(time.Second))
	default:
		line += fmt.Sprintf(", %s before the deadline", deadline.Sub(end).Round(time.Second))
	}
	r.lines, r.ForecastS = append(r.lines, line), takes.Seconds()
}

// farthest is the longest time that is foretold: durations end after 292 years.
const farthest = 10 * 365 * 24 * time.Hour

// lastPace returns how many records a second the last run that delivered some
// brought over its first path; 0: no run has left a report of that.
func lastPace(st *state) float64 {
	entries, _ := st.fs.ReadDir(st.runs())       // without it there was no run
	for _, e := range slices.Backward(entries) { // their names begin with their time
		if r, err := readReport(st, e.Name()); err == nil {
			if pace := r.pace(); pace > 0 {
				return pace
			}
		}
	}
	return 0
}

// pace is how many records a second went over the first path; 0: too few to tell.
func (r result) pace() float64 {
	seconds := r.DurationS - r.FallbackS
	if r.Acked < telling || r.Calls <= 0 || len(r.Pathways) == 0 || seconds <= 0 {
		return 0
	}
	first := float64(r.Paths[r.Pathways[0].Name]) / float64(r.Calls)
	return float64(r.Acked) * first / seconds
}
