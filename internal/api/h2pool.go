package api

import (
	"context"
	"slices"
	"time"
)

const (
	perShared = 16 // requests on one HTTP/2 connection before another is opened
	maxShared = 4  // HTTP/2 connections, unless the server allows few streams on each
)

// Close closes the idle connections; those in use are closed after their
// answer. Send fails with ErrClosed from then on.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stopDials()
	t.Renew()
}

// Renew ends every idle connection now, and those in use after their answers:
// what is sent from now on dials, and so resolves the name, anew.
func (t *Transport) Renew() {
	t.retireIf(func(*hconn) bool { return true })
}

// distrust ends the connections that have shown no life since, the middle of an
// attempt that failed: the link may have dropped them all. Those that were opened
// after its beginning are none the better for that.
func (t *Transport) distrust(since time.Time) {
	t.retireIf(func(cn *hconn) bool { return !cn.heard.IsZero() && cn.heard.Before(since) })
}

// Warm opens the connections that n requests at a time need, TLS handshake
// included; MaxIdle limits n. It returns when all stand or have failed, at the
// latest after ConnectTimeout, and keeps quiet about the latter: the first
// request that needs one will meet the same fault.
func (t *Transport) Warm(ctx context.Context, n int) {
	n = min(n, t.maxIdle)
	if t.http2 {
		n = min((n+perShared-1)/perShared, maxShared)
	}
	t.mu.Lock()
	for !t.closed && len(t.conns) < n {
		t.openLocked()
	}
	conns := slices.Clone(t.conns)
	t.mu.Unlock()
	for _, cn := range conns {
		select {
		case <-cn.ready:
		case <-ctx.Done():
			return
		}
	}
}

// take returns a connection for one request, to be given back by release.
func (t *Transport) take(ctx context.Context) (*hconn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cn, err := t.assign(time.Now())
	if err != nil {
		return nil, err
	}
	select {
	case <-cn.ready:
		err = cn.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		t.release(cn, false, true)
		return nil, err
	}
	return cn, nil
}

// assign chooses the connection with the fewest users, among these the one used
// last, so that those not needed come to rest. It opens another when none has
// room, and while the first four have their fill.
func (t *Transport) assign(now time.Time) (*hconn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	t.retireIfLocked(func(cn *hconn) bool { return cn.spent(now, t.maxIdleTime) })
	var best *hconn
	for _, cn := range t.conns {
		if t.room(cn) && (best == nil || cn.users < best.users || cn.users == best.users && cn.rested.After(best.rested)) {
			best = cn
		}
	}
	if best == nil || best.users >= perShared && len(t.conns) < maxShared {
		best = t.openLocked()
	}
	best.users++
	return best, nil
}

// room reports whether cn can take a request at once. Requires mu.
func (t *Transport) room(cn *hconn) bool {
	if !t.http2 {
		return cn.users == 0
	}
	return !cn.isReady() || cn.cc.Available() > 0
}

// release gives cn back. answered tells that it has shown life.
func (t *Transport) release(cn *hconn, answered, reusable bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	cn.users--
	cn.rested = now
	if answered {
		cn.heard = now
	}
	switch {
	case cn.retired:
		cn.closeIfUnused()
	case !reusable, t.idleLocked() > t.maxIdle:
		t.retireIfLocked(func(x *hconn) bool { return x == cn })
	}
}

// idleLocked requires mu.
func (t *Transport) idleLocked() (n int) {
	for _, cn := range t.conns {
		if cn.users == 0 {
			n++
		}
	}
	return n
}

// openLocked begins a connection. Whoever asked for it may leave before it
// stands; it is then there for the next. Requires mu.
func (t *Transport) openLocked() *hconn {
	cn := &hconn{ready: make(chan struct{})}
	t.conns = append(t.conns, cn)
	go func() {
		cc, err := t.connect()
		now := time.Now()
		t.mu.Lock()
		defer t.mu.Unlock()
		cn.cc, cn.err = cc, err
		cn.heard, cn.rested, cn.expires = now, now, now.Add(jittered(t.maxAge))
		close(cn.ready)
		if err != nil {
			t.retireIfLocked(func(x *hconn) bool { return x == cn })
		} else if cn.retired {
			cn.closeIfUnused()
		}
	}()
	return cn
}

func (t *Transport) retireIf(old func(*hconn) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retireIfLocked(old)
}

// retireIfLocked requires mu.
func (t *Transport) retireIfLocked(old func(*hconn) bool) {
	t.conns = slices.DeleteFunc(t.conns, func(cn *hconn) bool {
		if !old(cn) {
			return false
		}
		cn.retired = true
		cn.closeIfUnused()
		return true
	})
}

func (cn *hconn) isReady() bool {
	select {
	case <-cn.ready:
		return true
	default:
		return false
	}
}

// spent reports that cn is dead or past its time. Requires mu.
func (cn *hconn) spent(now time.Time, maxIdleTime time.Duration) bool {
	return cn.isReady() && (cn.err != nil || cn.cc.Err() != nil || !now.Before(cn.expires) ||
		cn.users == 0 && now.Sub(cn.rested) >= maxIdleTime)
}

// closeIfUnused requires mu. A TLS farewell can block on a link that is down, so
// nobody waits for it.
func (cn *hconn) closeIfUnused() {
	if cn.users == 0 && cn.isReady() && cn.cc != nil {
		go cn.cc.Close()
	}
}
