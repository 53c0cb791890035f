package main

import (
	"fmt"
	"slices"
	"time"

	"trafficup/internal/config"
	"trafficup/internal/verdict"
)

// telling is how many records a run has to have delivered for its pace to mean
// something.
const telling = 20

// foresee adds to a dry run how long the run would take: at the configured rate,
// or else as fast as the last run went, and with the windows in which a lone path
// is closed.
func (r *result) foresee(st *state, c Config, now, deadline time.Time) {
	var first pathSetup
	setups := c.pathSetups()
	if len(setups) > 0 {
		first = setups[0]
	}
	rate := slower(c.Upload.Rate, first.Rate)
	at := fmt.Sprintf("at %g records/s", rate)
	if rate <= 0 {
		rate = lastPace(st, config.Shown(first.url))
		at = fmt.Sprintf("at the pace of the last run (%.1f/s)", rate)
	}
	if rate <= 0 || r.Acked == 0 {
		r.lines = append(r.lines, "forecast depends on the link; with --rate, or after a first run, it could be told")
		return
	}
	work := time.Duration(min(float64(r.Acked)/rate, farthest.Seconds()) * float64(time.Second)).Round(time.Second)
	end := now.Add(work)
	if len(setups) == 1 {
		end = c.windows().Closing().Past(first.name, now, work)
	}
	takes := end.Sub(now).Round(time.Second)
	line := fmt.Sprintf("forecast %s %s", takes, at)
	if takes > work {
		line += fmt.Sprintf(" and %s of closed windows", takes-work)
	}
	line += ", to " + end.UTC().Format("15:04Z")
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
// brought over its first path, where that led to url, unless it is empty; 0: no run
// has left a report of that.
func lastPace(st *state, url string) float64 {
	entries, _ := st.fs.ReadDir(st.runs())       // without it there was no run
	for _, e := range slices.Backward(entries) { // their names begin with their time
		r, err := readReport(st, e.Name())
		if err != nil || len(r.Pathways) == 0 || url != "" && r.Pathways[0].URL != url {
			continue
		}
		if pace := r.pace(); pace > 0 {
			return pace
		}
	}
	return 0
}

// pace is how many records a second went over the first path while it could be
// used; 0: too few to tell, or it was not the path's own pace.
func (r result) pace() float64 {
	switch r.Verdict {
	case verdict.PathMisset, verdict.LinkDown, verdict.ServiceFailing, verdict.ThrottledByUs:
		return 0
	}
	seconds := r.DurationS - r.FallbackS
	for _, s := range r.Stood {
		seconds -= s.Seconds
	}
	if r.Rate > 0 || r.Shared.limited() || r.Acked < telling || r.Calls <= 0 || len(r.Pathways) == 0 || seconds <= 0 {
		return 0
	}
	first := float64(r.Paths[r.Pathways[0].Name]) / float64(r.Calls)
	return float64(r.Acked) * first / seconds
}
