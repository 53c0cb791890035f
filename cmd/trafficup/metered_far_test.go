package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/redis"
	"trafficup/internal/uplinkstate"
)

// What another machine tells holds for a minute while Redis is away, and no longer
// than it is told otherwise.
func TestUplinkOfAnotherMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var answer redis.Uplink
		var ok bool
		var err error
		f := &farUplink{read: func(context.Context) (redis.Uplink, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			return answer, ok, err
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.follow(ctx)
		for n, step := range []struct {
			answer redis.Uplink
			ok     bool
			err    error
			after  time.Duration
			active string // "": not known
		}{
			{redis.Uplink{}, false, nil, time.Minute, ""},
			{redis.Uplink{Uplink: uplinkstate.Uplink{Active: "lte", Metered: true}}, true, nil, 3 * time.Second, "lte"},
			{redis.Uplink{}, false, errors.New("away"), 50 * time.Second, "lte"},
			{redis.Uplink{}, false, errors.New("away"), 15 * time.Second, ""},
			{redis.Uplink{Uplink: uplinkstate.Uplink{Active: "leo"}}, true, nil, 3 * time.Second, "leo"},
			{redis.Uplink{}, false, nil, 3 * time.Second, ""},
		} {
			mu.Lock()
			answer, ok, err = step.answer, step.ok, step.err
			mu.Unlock()
			time.Sleep(step.after)
			synctest.Wait()
			if s, known := f.Now(); known != (step.active != "") || s.Active != step.active || known && s.Metered != (s.Active == "lte") {
				t.Errorf("step %d: %+v %v", n, s, known)
			}
		}
	})
	var nobody *farUplink
	nobody.follow(t.Context())
	if _, known := nobody.Now(); known {
		t.Error("nobody tells, and it is known")
	}
}
