package main

import (
	"context"
	"time"

	"trafficup/internal/edge"
	"trafficup/internal/failover"
)

// recording is the file that keeps rounds, if there is one: until the end.
func (l *failoverLoop) recording() (write func(context.Context)) {
	path, sys, told := l.config.Failover.Record, l.sys, trouble("")
	if path == "" {
		return func(context.Context) {}
	}
	l.recorder = edge.NewRecorder(sys.fs, path)
	return func(ctx context.Context) {
		l.recorder.Run(ctx, func(err error) { sys.warnOnce(&told, err) })
	}
}

// record returns what keeps rounds; nil: nobody does.
func (l *failoverLoop) record() func(uplink int, r failover.Round) {
	if l.recorder == nil {
		return nil
	}
	return func(uplink int, r failover.Round) { l.recorder.Add(l.setup.decide.Recorded(uplink, r, l.now())) }
}

// shortly waits until f is done, but no longer than a second: a disk may hang.
func shortly(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// spent counts what an answer cost.
func (l *failoverLoop) spent(uplink, bytes int) {
	l.spending.Add(l.setup.decide.Uplinks[uplink].Name, bytes, l.now().Wall)
}

// flush is when connections by the uplink that was left are cut. Who ends soon cuts
// them at once.
func (l *failoverLoop) flush(failover, failback time.Duration) edge.Flush {
	if l.enough != nil {
		failover, failback = min(failover, 0), min(failback, 0)
	}
	return edge.Flush{Failover: failover, Failback: failback}
}
