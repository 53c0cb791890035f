package uplink

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// TryTimeout is the time a target has to answer: enough for a handshake whose first
// packet is lost and sent again after a second.
const TryTimeout = 2 * time.Second

// watch tries the targets when asked to, and on while they are bad, until ctx ends.
func (w *Watch) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.ask:
		}
		for {
			next := time.After(tryEvery)
			if !w.try(ctx) {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-next:
			}
		}
	}
}

// try tries the targets once and reports whether they are bad.
func (w *Watch) try(ctx context.Context) bool {
	began := time.Now()
	missed := w.missed(ctx)
	if ctx.Err() != nil {
		return false // it was cut short and shows nothing
	}
	w.mu.Lock()
	defer w.unlock(time.Now())
	w.reach = w.reach.found(began, missed)
	return w.reach.bad()
}

// missed returns how many targets cannot be reached, and 0 as soon as half of them
// have been: the others may take their time to fail.
func (w *Watch) missed(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, TryTimeout)
	defer cancel()
	n := len(w.cfg.Targets)
	answers := make(chan bool, n)
	for _, addr := range w.cfg.Targets {
		w.work.Go(func() {
			_, err := Try(ctx, w.cfg.Dial, addr)
			answers <- err == nil
		})
	}
	reached := 0
	for range n {
		if <-answers {
			reached++
		}
		if 2*reached >= n {
			return 0
		}
	}
	return n - reached
}

// Try connects to a target and returns nil when somebody is there. refused says that
// the answer was a refusal.
func Try(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), addr string) (refused bool, err error) {
	c, err := dial(ctx, "tcp", addr)
	switch {
	case err == nil:
		_ = c.Close() // nothing was sent
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return true, nil
	}
	return false, err
}
