package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// watch looks at the run from time to time and warns early: of an end that comes
// too late, and of a fallback that nobody noticed. stop ends it.
func (r *route) watch(c Config, deadline time.Time, u *ui) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	if r.chooser != nil {
		watching.Go(func() { r.warm(ctx, min(c.workers(), 8)) })
		watching.Go(func() { r.carrier.follow(ctx, r.switched) })
		watching.Go(func() { r.carrier.far.follow(ctx) })
		watching.Go(func() {
			w := newWatch(time.Now(), deadline)
			t := time.NewTicker(w.every)
			defer t.Stop()
			long := new(sync.Once)
			for {
				select {
				case <-ctx.Done():
					return
				case now := <-t.C:
					if warning := w.look(now, u.soFar()); warning != "" {
						u.warn(warning)
					}
					if _, unplanned := r.chooser.FallbackFor(now); c.Upload.FallbackWarn > 0 && unplanned >= c.Upload.FallbackWarn {
						long.Do(func() {
							u.warn(fmt.Sprintf("%s has been out of use for %s: see what is wrong with it", r.setups[0].name, unplanned.Round(time.Second)))
						})
					}
				}
			}
		})
	}
	return func() { cancel(); watching.Wait() }
}

// watch foretells whether a run ends before its deadline.
type watch struct {
	deadline time.Time // zero: none
	whole    time.Duration
	every    time.Duration // between two looks
	settled  time.Duration // that the run has to have gone on before its pace means something
	told     time.Duration // after the deadline, as warned of last
}

func newWatch(now, deadline time.Time) *watch {
	w := &watch{deadline: deadline, every: every}
	if !deadline.IsZero() {
		w.whole = deadline.Sub(now)
		w.every = min(every, max(5*time.Second, w.whole/10))
		w.settled = min(20*time.Second, w.every/2+w.whole/100)
	}
	return w
}

// look returns a warning when the run will not end in time, and again when it has
// become clearly worse: another tenth of the time, and twice as bad.
func (w *watch) look(now time.Time, p progress) (warning string) {
	if w.deadline.IsZero() || !now.Before(w.deadline) {
		return ""
	}
	early, end, ok := p.forecast(now, w.settled)
	late := end.Sub(w.deadline)
	if !ok || !early.After(w.deadline) || w.told > 0 && late < w.told+max(w.told, w.whole/10) {
		return ""
	}
	w.told = late
	return fmt.Sprintf("at the rate so far (%.1f records/s) this run ends at %s, %s after its deadline", p.pace(now),
		end.UTC().Format("15:04Z"), late.Round(time.Second))
}

// pace is how many records a second were served since the first of them.
func (p progress) pace(now time.Time) float64 { return perSecond(p.served, now.Sub(p.serving)) }

// forecast returns when the run will be over if it goes on as it did since the
// first record was served, and how early that may be by chance: so many more or
// fewer could as well have been served (a Poisson count's deviation). Of what is
// not read yet all is taken to have to be sent: a run that is taken up again meets
// what was delivered before first, at no cost.
func (p progress) forecast(now time.Time, settled time.Duration) (early, end time.Time, ok bool) {
	todo := float64(p.expected() - p.done())
	if p.served == 0 || now.Sub(p.serving) < settled || todo <= 0 {
		return time.Time{}, time.Time{}, false
	}
	in := func(pace float64) time.Time {
		return now.Add(time.Duration(min(todo/pace, farthest.Seconds()) * float64(time.Second)))
	}
	pace := p.pace(now)
	return in(pace * (1 + 1/math.Sqrt(float64(p.served)))), in(pace), true
}
