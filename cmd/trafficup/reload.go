package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"trafficup/internal/config"
)

// reread reads the configuration again when a hangup asks for it, and lets hold
// what can change in mid-run, until stop is called.
func (r *route) reread(sys *system, c Config, own *limiter, u *ui) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-sys.hangups:
				c = r.again(sys, c, own, u)
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// again returns the configuration that holds from now on.
func (r *route) again(sys *system, was Config, own *limiter, u *ui) Config {
	l, err := config.Load(sys.sources)
	if err != nil {
		u.warn("the configuration stays as it was: " + strings.ReplaceAll(err.Error(), "\n ", ";"))
		return was
	}
	now := Config{l}
	own.set(now.Upload.Rate, now.Upload.Burst)
	if r.shared != nil && r.shared.limit != nil && now.Upload.SharedRate > 0 {
		r.shared.limit.Set(now.Upload.SharedRate)
	}
	for name, l := range r.rates {
		l.set(now.Paths[name].Rate, 0)
	}
	if r.chooser != nil {
		r.chooser.SetWindows(now.windows())
	}
	if u.log != nil {
		u.log.level.Store(int32(levels[now.Log.Level]))
	}
	holds, waits := changed(was, now, r.shared != nil && r.shared.limit != nil)
	if len(holds) == 0 && len(waits) == 0 {
		u.note("the configuration was read again: nothing has changed")
	}
	if len(holds) > 0 {
		u.note("from now on: " + strings.Join(holds, ", "))
	}
	if len(waits) > 0 {
		u.note("with the next run: " + strings.Join(waits, ", "))
	}
	return now
}

// changed lists what differs: what holds at once, and what with the next run. limited
// tells that a ceiling is shared.
func changed(was, now Config, limited bool) (holds, waits []string) {
	for _, o := range config.Options() {
		switch value := now.Value(o.Key); {
		case o.Key == "paths" || now.Same(was.Loaded, o):
		case slices.Contains([]string{"upload.rate", "upload.burst", "log.level", "maintenance"}, o.Key):
			holds = append(holds, o.Key+" "+value)
		case o.Key == "upload.shared_rate" && limited && now.Upload.SharedRate > 0:
			holds = append(holds, o.Key+" "+value)
		default:
			waits = append(waits, o.Key+" "+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Paths)) {
		before, after := was.Paths[name], now.Paths[name]
		if before.Rate != after.Rate {
			holds = append(holds, fmt.Sprintf("paths.%s.rate %g", name, after.Rate))
		}
		if before.Rate = after.Rate; before != after {
			waits = append(waits, "paths."+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was.Paths)) {
		if _, ok := now.Paths[name]; !ok {
			waits = append(waits, "paths without "+name)
		}
	}
	return holds, waits
}
