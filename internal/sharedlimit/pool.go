package sharedlimit

import "time"

const (
	window   = 250 * time.Millisecond // length of a lease
	patience = 80 * time.Millisecond  // how long after its time a call may be spent
)

// lease is calls to be spent evenly.
type lease struct {
	first  time.Time // from when the next one may be spent
	step   time.Duration
	n      int
	shared bool // Redis knows of it
}

// spread makes a lease of n calls over a time. phase, in [0, 1), is where in its
// step a call lies, so that the nodes do not all begin with the window.
func spread(n int, from time.Time, over time.Duration, phase float64, shared bool) lease {
	step := over / time.Duration(max(n, 1))
	return lease{from.Add(time.Duration(phase * float64(step))), step, n, shared}
}

func (l *lease) pop() {
	l.n--
	l.first = l.first.Add(l.step)
}

// from is l without what was due before t, but for the last call: a window has
// begun when its calls come, and they must not crowd in what is left of it.
func (l lease) from(t time.Time) lease {
	for l.n > 1 && l.first.Before(t) {
		l.pop()
	}
	return l
}

// pool is the calls a node holds.
type pool struct {
	leases  []lease
	expired int // calls, altogether
}

func (p *pool) add(l lease) {
	if l.n > 0 {
		p.leases = append(p.leases, l)
	}
}

// earliest is the lease with the call that is due first; nil for none. What has
// expired and what is empty goes.
func (p *pool) earliest(now time.Time) *lease {
	var best *lease
	kept := p.leases[:0]
	for _, l := range p.leases {
		for l.n > 0 && now.Sub(l.first) > max(patience, l.step) {
			l.pop()
			p.expired++
		}
		if l.n > 0 {
			kept = append(kept, l)
		}
	}
	p.leases = kept
	for i := range kept {
		if best == nil || kept[i].first.Before(best.first) {
			best = &kept[i]
		}
	}
	return best
}

// take spends a call if one is due.
func (p *pool) take(now time.Time) bool {
	l := p.earliest(now)
	if l == nil || l.first.After(now) {
		return false
	}
	l.pop()
	return true
}

// cut takes away what was not had from Redis and is due at or after from.
func (p *pool) cut(from time.Time) {
	for i := range p.leases {
		if l := &p.leases[i]; !l.shared {
			l.n = l.before(from)
		}
	}
}

// before is how many calls are due before t.
func (l *lease) before(t time.Time) int {
	d := t.Sub(l.first)
	if d <= 0 {
		return 0
	}
	if l.step == 0 {
		return l.n
	}
	return min(int((d-1)/l.step)+1, l.n)
}

// unspent is how many calls from Redis are due before a time, and after it.
func (p *pool) unspent(now, edge time.Time) (before, after int) {
	p.earliest(now)
	for _, l := range p.leases {
		if l.shared {
			b := l.before(edge)
			before, after = before+b, after+l.n-b
		}
	}
	return before, after
}
