package main

import (
	"context"
	"fmt"
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
		watching.Go(func() {
			t := time.NewTicker(every)
			defer t.Stop()
			late, long := new(sync.Once), new(sync.Once)
			for {
				select {
				case <-ctx.Done():
					return
				case now := <-t.C:
					elapsed, done, share := u.soFar()
					if end, ok := forecast(now, elapsed, share); ok && !deadline.IsZero() && end.After(deadline) {
						late.Do(func() {
							u.warn(fmt.Sprintf("at the rate so far (%.1f records/s) this run ends at %s, %s after its deadline", float64(done)/elapsed.Seconds(),
								end.UTC().Format("15:04Z"), end.Sub(deadline).Round(time.Second)))
						})
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

// settledRate is how long a run has to have gone on before its rate means something.
const settledRate = 20 * time.Second

// forecast returns when the run will be over if it goes on as it went so far.
func forecast(now time.Time, elapsed time.Duration, share float64) (time.Time, bool) {
	if elapsed < settledRate || share <= 0 {
		return time.Time{}, false
	}
	left := float64(elapsed) * (1 - share) / share
	return now.Add(time.Duration(min(left, float64(10*365*24*time.Hour)))), true
}
