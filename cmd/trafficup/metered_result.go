package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"trafficup/internal/uploader"
	"trafficup/internal/verdict"
)

// paused is time in which a metered uplink held the run.
type paused struct {
	Uplink string    `json:"uplink"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
}

// paused adds the pauses on a metered uplink, and the standing still that they were.
func (r *result) paused(pauses []spell, sent int64, run *verdict.Run) {
	r.MeteredBytes = sent
	for _, p := range pauses {
		d := p.to.Sub(p.from)
		if d < time.Second {
			continue
		}
		r.Pauses = append(r.Pauses, paused{p.uplink, p.from.UTC(), p.to.UTC()})
		r.Stood = append(r.Stood, stood{d.Seconds(), p.held()})
		run.Paused += d
		run.PausedWhy = p.held()
	}
	if run.Paused == 0 {
		return
	}
	if n := len(r.Pauses); n > 1 {
		run.PausedWhy = fmt.Sprintf("%d times, %s in all; the last time %s", n, run.Paused.Round(time.Second), run.PausedWhy)
	}
	run.Stood = min(run.Duration, run.Stood+run.Paused)
	slices.SortStableFunc(r.Stood, func(a, b stood) int { return cmp.Compare(b.Seconds, a.Seconds) })
	if errors.Is(r.ended, uploader.ErrDeadline) {
		r.Result += "; paused " + run.PausedWhy
	}
}

// held says what held the run in a pause.
func (s spell) held() string {
	return printable(fmt.Sprintf("the metered uplink %s carried %s", s.uplink, s))
}

// expected continues the words of a verdict that blames the link where an uplink was
// in maintenance meanwhile.
func expected(word string, windows []spell) string {
	if n := len(windows); n > 0 && slices.Contains([]string{verdict.LinkDown, verdict.LinkLossy, verdict.LinkSlow, verdict.NothingSent}, word) {
		return fmt.Sprintf("; an uplink was in maintenance %s: that was expected", windows[n-1])
	}
	return ""
}
