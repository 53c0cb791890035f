package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/breaker"
	"trafficup/internal/clockskew"
	"trafficup/internal/config"
	"trafficup/internal/redis"
	"trafficup/internal/sharedlimit"
	"trafficup/internal/uplink"
	"trafficup/internal/uploader"
)

// sharing is what a run shares with other machines, over Redis. The zero value
// shares nothing.
type sharing struct {
	client  *redis.Client         // nil: there is no Redis
	limit   *sharedlimit.Limiter  // nil: no ceiling is shared
	latency *sharedlimit.Recorder // nil with client
	uplink  *uplink.Watch         // nil unless breakers are shared
	store   breaker.Store         // nil unless breakers are shared
	settle  func(context.Context) // writes what of breakers is kept back; nil with store
	clock   *clockskew.Estimator
	warn    func(string)
	stop    context.CancelFunc
	work    sync.WaitGroup // ends after stop
	opens   config.Breaker

	mu      sync.Mutex
	streaks map[string]streak // guarded by mu; by path
}

// streak is failures of this machine in a row that opened no breaker.
type streak struct {
	n     int
	since time.Time
}

// priorities are the classes of a shared ceiling, by their names in the configuration.
var priorities = map[string]sharedlimit.Class{
	"nightly": sharedlimit.Nightly, "upload": sharedlimit.Nightly, "replay": sharedlimit.Replay, "backfill": sharedlimit.Backfill,
}

// share begins to share what the configuration says.
func (b routing) share() (*sharing, error) {
	c, u := b.c, b.u
	s := &sharing{clock: &clockskew.Estimator{Notify: u.warn}, warn: u.warn, stop: func() {}, opens: c.Breaker, streaks: map[string]streak{}}
	if !c.hasRedis() {
		return s, nil
	}
	var err error
	if s.client, err = c.openRedis(b.sys, u.warn, s.told); err != nil {
		return nil, err
	}
	s.latency = sharedlimit.NewRecorder(s.client)
	if rate := c.Upload.SharedRate; rate > 0 {
		s.limit = sharedlimit.New(sharedlimit.Config{Node: b.runID, Class: priorities[b.class()], Ceiling: rate, Nodes: c.Redis.Uploaders}, s.client)
	}
	if c.Breaker.Store == "redis" {
		s.uplink = uplink.New(uplink.Config{Targets: c.Redis.Uplink, Dial: b.mark.dialer(b.sys, "uplink targets"), Notify: s.ownTrouble})
		breakers := s.client.Breakers(c.Breaker.OpenMax, s.worth)
		s.store, s.settle = breakers.Near(), breakers.Settle
	}
	if err := s.greet(c); err != nil {
		s.close()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.work.Go(func() { s.follow(ctx) })
	return s, nil
}

// greet looks at Redis once, so that what somebody has to change is said at the
// start; whether it ends the run is for the configuration to say.
func (s *sharing) greet(c Config) error {
	err := s.client.Check(context.Background())
	for _, p := range c.pathSetups() {
		if s.store != nil && err == nil {
			_, err = s.store.Load(context.Background(), p.breakerKey(c.Breaker.Store))
		}
	}
	if s.limit != nil && err == nil {
		_, err = sharedlimit.Count(context.Background(), s.client)
	}
	if e, ok := errors.AsType[*redis.Error](err); ok && errors.Is(err, redis.ErrMisconfigured) && c.Redis.Required {
		return usageError(e.Hint, "%w", err)
	}
	return nil // what goes on without Redis says so itself
}

// told hears that Redis is away, or back.
func (s *sharing) told(err error) {
	if err == nil {
		s.warn("redis is back: breakers and ceiling are shared again")
		return
	}
	text := err.Error()
	if e, ok := errors.AsType[*redis.Error](err); ok {
		text += " (" + e.Hint + ")"
	}
	s.warn(text + "; going on alone, with what was known last")
}

// ownTrouble hears that this machine's uplink is bad, and with "" that it is well.
func (s *sharing) ownTrouble(why string) {
	if why == "" {
		s.warn("this machine's uplink is well again: its breakers count for all")
		return
	}
	s.warn("this machine's uplink is bad: " + why + "; its breakers stay its own")
}

// worth says what this machine's word on a path is worth to others.
func (s *sharing) worth(path string) redis.Worth {
	s.mu.Lock()
	alone := s.streaks[path].n >= s.opens.Threshold
	s.mu.Unlock()
	if alone {
		return redis.Own
	}
	switch standing, _ := s.uplink.Judge(time.Now(), path); standing {
	case uplink.Bad:
		return redis.Own
	case uplink.Unsure:
		return redis.Unsure
	}
	return redis.Shared
}

// judged hears of a verdict, and how the breaker stands after it. As many failures in
// a row as open a breaker, and it is closed: others succeed, which begins its count
// anew. So the trouble is this machine's, and from now on its word is, too, until it
// succeeds; its own breaker opens when as many more fail.
func (s *sharing) judged(path string, v breaker.Verdict, is breaker.State, now time.Time) {
	if s.store == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.streaks[path]
	switch alone := k.n >= s.opens.Threshold; {
	case v == breaker.OK, v == breaker.Fail && !alone && (is.Phase != breaker.Closed || is.Force.Holds(now)):
		delete(s.streaks, path)
	case v == breaker.Fail && !alone:
		if k.n == 0 || now.Sub(k.since) > s.opens.Window {
			k = streak{since: now}
		}
		k.n++
		s.streaks[path] = k
		if k.n == s.opens.Threshold {
			s.warn(fmt.Sprintf("%s failed %d times in a row here while others get through: its breaker stays this machine's own", path, k.n))
		}
	}
}

// clockEvery is how often this machine's clock is compared with that of Redis.
const clockEvery = 2 * time.Second

func (s *sharing) follow(ctx context.Context) {
	t := time.NewTicker(clockEvery)
	defer t.Stop()
	var last time.Time
	for {
		if k, known := s.client.Clock(); known && !k.At.Equal(last) {
			last = k.At
			s.clock.Redis(k.Ahead, k.Within, k.At)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// hear takes in the end of a request before its breaker does.
func (s *sharing) hear(path string, o api.Outcome, sent, now time.Time) {
	if s == nil {
		return
	}
	if o.Class == api.Acked {
		s.clock.Date(o.Header, sent, now)
	}
	if s.latency != nil && o.Status != 0 {
		s.latency.Add(path, o.Duration)
	}
	if s.uplink == nil || errors.Is(o.Err, api.ErrCancelled) {
		return
	}
	_, nameless := errors.AsType[*net.DNSError](o.Err) // also one that says that there is no such name: ask somebody else
	a := uplink.Attempt{Path: path, Answered: o.Status != 0 && !errors.Is(o.Err, api.ErrNotAPI), Own: nameless || errors.Is(o.Err, api.ErrNoNetwork)}
	if l := o.Link; l != nil {
		a.Segments, a.Lost = l.Segments, l.Lost
	}
	s.uplink.Saw(now, a)
}

// limited adds the shared ceiling to own.
func (s *sharing) limited(own uploader.Limiter) uploader.Limiter {
	if s.limit == nil {
		return own
	}
	return allOf{own, s.limit}
}

// allOf waits for one limiter after the other.
type allOf [2]uploader.Limiter

func (l allOf) Wait(ctx context.Context) error {
	if err := l[0].Wait(ctx); err != nil {
		return err
	}
	return l[1].Wait(ctx)
}

func (s *sharing) close() {
	if s == nil {
		return
	}
	s.stop()
	s.work.Wait()
	if s.limit != nil {
		s.limit.Close()
	}
	if s.uplink != nil {
		s.settle(context.Background())
		s.uplink.Close()
	}
	if s.client != nil {
		s.latency.Close()
		_ = s.client.Close() // what is not sent expires
	}
}
