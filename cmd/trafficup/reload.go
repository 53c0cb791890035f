package main

import (
	"strings"
	"sync"

	"trafficup/internal/config"
)

// reread reads the configuration again when a hangup asks for it, and lets hold
// what can change in mid-run, until stop is called.
func (r *route) reread(sys *system, c Config, own *limiter, u *ui) (stop func()) {
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-sys.hangups:
				c = r.again(sys, c, own, u)
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		reader.Wait()
	}
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
	for name, l := range r.rates {
		l.set(now.Paths[name].Rate, 0)
	}
	if r.chooser != nil {
		r.chooser.SetWindows(now.windows())
	}
	if u.log != nil {
		u.log.level.Store(int32(levels[now.Log.Level]))
	}
	holds, waits := changed(was, now)
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

// changed lists what differs: what holds at once, and what with the next run.
func changed(was, now Config) (holds, waits []string) {
	old := map[string]string{}
	for _, l := range was.Lines() {
		old[l.Key] = l.Value
	}
	note := func(key, text string) {
		if atOnce(key) {
			holds = append(holds, text)
		} else {
			waits = append(waits, text)
		}
	}
	for _, l := range now.Lines() {
		if value, ok := old[l.Key]; !ok || value != l.Value {
			note(l.Key, l.Key+" "+l.Value)
		}
		delete(old, l.Key)
	}
	for _, l := range was.Lines() {
		if _, gone := old[l.Key]; gone {
			note(l.Key, l.Key+" left out")
		}
	}
	return holds, waits
}

func atOnce(key string) bool {
	return key == "upload.rate" || key == "upload.burst" || key == "log.level" || strings.HasPrefix(key, "maintenance") ||
		strings.HasPrefix(key, "paths.") && strings.HasSuffix(key, ".rate")
}
