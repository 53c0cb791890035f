// Package netpath chooses the path for the next request among several that lead
// to the same API.
//
// [Windows] say when a path is under maintenance. A [Chooser] orders the paths by
// them, by how each has fared and by what it may carry. It forbids a path for its
// quota and inside a window that closes it, the last one too; else whether a
// request passes is for the breaker to say, which is asked along the order.
package netpath

import (
	"slices"
	"sync"
	"time"
)

// Verdict is what the end of a request says about the path.
type Verdict int

// The verdicts.
const (
	OK Verdict = iota
	Fail
	Neutral // nothing
)

// Config tunes a [Chooser].
type Config struct {
	Names   []string // of the paths, the most wanted first
	Windows Windows

	// Failback is how long a path that returns has to be well before it is
	// trusted; 0: 30 s. It doubles, up to 10 min, each time a return does not
	// last, and every 10 min of trust take one doubling back.
	Failback time.Duration
	// Canary is the share of requests, 0 to 1, that try a path not trusted
	// yet; 0: it is tried at its times only.
	Canary float64
	// CanaryFallback is the share of requests, 0 to 1, that try the second path
	// though nothing is wrong with the first.
	CanaryFallback float64
	Quota          map[int]Quota // by index of the path

	// Skew returns what to add to the wall clock to have the right time, which
	// windows follow; all else goes by the time that passes. It is called inside
	// the lock and must return at once. nil: the clock is right.
	Skew func() time.Duration

	// Notify hears what changed for a path, once, when the next call finds it;
	// until is the end of a window that began, by the right time. It is called outside the lock, by
	// whoever called, and must return at once. nil: nobody.
	Notify func(path int, n News, until time.Time)
}

// News is a change that people may want to hear of.
type News int

// The news.
const (
	WindowBegan News = iota // of maintenance, also when a run begins in it
	WindowEnded
	QuotaSpent // that in bytes: for this run the path is out
)

// Quota bounds what a metered path carries. Zero values bound nothing.
type Quota struct {
	Bytes int64   // of requests
	Share float64 // of all requests sent so far, 0 to 1
}

func (q Quota) allows(sent, bytes, total int64) bool {
	return (q.Bytes <= 0 || bytes < q.Bytes) && (q.Share <= 0 || float64(sent) <= q.Share*float64(total))
}

// Chooser orders the paths for the next request. Each call takes the time, which
// should carry a monotonic reading: then only windows follow the wall clock, as
// corrected by Skew.
// Safe for concurrent use.
type Chooser struct {
	cfg Config

	mu    sync.Mutex
	state state // guarded by mu
}

// NewChooser returns a chooser that trusts all paths.
func NewChooser(cfg Config) *Chooser {
	if cfg.Failback <= 0 {
		cfg.Failback = 30 * time.Second
	}
	return &Chooser{cfg: cfg, state: state{paths: make([]pathState, len(cfg.Names))}}
}

// Order returns the indexes of the usable paths, the best for this request
// first. A path whose quota is spent is left out, and one in a window that closes
// it. The caller goes by the first
// whose breaker lets it, tells of those that did not with Refused, and of the
// end of the request with Done. u, uniform in [0, 1), selects the requests that
// try a path: then trial is true, and the first is not the best.
func (c *Chooser) Order(now time.Time, u float64) (order []int, trial bool) {
	c.move(func(s state) state {
		s, order, trial = c.cfg.order(s, now, u)
		return s
	})
	return order, trial
}

// move goes to the next state and tells what is new in it. The paths of a state
// that was kept do not change any more.
func (c *Chooser) move(next func(state) state) {
	c.mu.Lock()
	was := c.state.paths
	c.state = next(c.state)
	is := c.state.paths
	c.mu.Unlock()
	if c.cfg.Notify == nil {
		return
	}
	for i := range is {
		if is[i].inWindow && !was[i].inWindow {
			c.cfg.Notify(i, WindowBegan, is[i].window.end)
		}
		if was[i].inWindow && !is[i].inWindow {
			c.cfg.Notify(i, WindowEnded, time.Time{})
		}
		if q := c.cfg.Quota[i].Bytes; q > 0 && was[i].bytes < q && is[i].bytes >= q {
			c.cfg.Notify(i, QuotaSpent, time.Time{})
		}
	}
}

// Closed returns the window that closes a path at now, joined with those that
// overlap or meet it. ok is false when none does. The times are those that our own
// clock shows then, so that they can be waited for; without Skew they are the
// window's.
func (c *Chooser) Closed(path int, now time.Time) (from, to time.Time, ok bool) {
	s := c.at(now)
	p := s.paths[path]
	if !p.closing.holds(s.wall) {
		return time.Time{}, time.Time{}, false
	}
	skew := s.wall.Sub(now.Round(0))
	return p.closing.start.Add(-skew), p.closing.end.Add(-skew), true
}

// SetWindows replaces the windows of maintenance.
func (c *Chooser) SetWindows(ws Windows) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg.Windows = ws
	// A copy: Status may hold the paths as they were.
	c.state.paths = slices.Clone(c.state.paths)
	for i := range c.state.paths {
		c.state.paths[i].window, c.state.paths[i].closing = span{}, span{}
	}
}

// InWindow says whether a path is in a window of maintenance.
func (c *Chooser) InWindow(path int, now time.Time) bool {
	return c.at(now).paths[path].inWindow
}

// Refused tells that the breaker of a path let a request not through, and when
// to ask it again. The path is not trusted from then on.
func (c *Chooser) Refused(path int, retryAt, now time.Time) {
	c.move(func(s state) state { return c.cfg.refused(s, path, retryAt, now) })
}

// Asked tells that the server of a path asked everyone to wait until then. It
// counts for Stood alone.
func (c *Chooser) Asked(path int, until, now time.Time) {
	c.move(func(s state) state { return c.cfg.asked(s, path, until, now) })
}

// Held tells that somebody holds the breaker of a path open, or does no more. It
// counts for Stood alone.
func (c *Chooser) Held(path int, held bool, now time.Time) {
	c.move(func(s state) state {
		s = c.cfg.at(s, now)
		s.paths[path].held = held
		return s
	})
}

// Done tells the end of a request by a path and how many bytes it had. A neutral
// one without bytes counts as never sent.
func (c *Chooser) Done(path int, v Verdict, bytes int, now time.Time) {
	c.move(func(s state) state { return c.cfg.done(s, path, v, bytes, now) })
}

// PathStatus is how one path stands.
type PathStatus struct {
	Name     string
	Trusted  bool
	InWindow bool
	Until    time.Time // end of the window it is in, by the right time; else zero

	Sent, Bytes int64 // requests that went by it, and their bytes
	Spent       bool  // its quota allows no more

	// OnFallbackSince is since when requests go by this path in place of the
	// first; zero if they do not. FallbackTotal is for how long they did in all.
	OnFallbackSince time.Time
	FallbackTotal   time.Duration
}

// Status returns how the paths stand at now, in their configured order.
func (c *Chooser) Status(now time.Time) []PathStatus {
	s := c.at(now)
	all := make([]PathStatus, len(s.paths))
	total := s.total()
	for i, p := range s.paths {
		all[i] = PathStatus{
			Name: c.cfg.Names[i], Trusted: !p.untrusted, InWindow: p.inWindow,
			Sent: p.sent, Bytes: p.bytes, FallbackTotal: p.onFallback,
			Spent: !c.cfg.Quota[i].allows(p.sent, p.bytes, total),
		}
		if p.inWindow {
			all[i].Until = p.window.end
		}
		if i > 0 && i == s.head {
			all[i].OnFallbackSince = s.since
		}
	}
	return all
}

// FallbackFor returns for how long up to now requests went by another path than
// the first: planned while that was inside a window, else unplanned. Single
// requests that try a path do not count, nor does time that Stood tells of.
func (c *Chooser) FallbackFor(now time.Time) (planned, unplanned time.Duration) {
	s := c.at(now)
	return s.planned, s.unplanned
}

// at returns the state as of now and leaves the one that is kept alone.
func (c *Chooser) at(now time.Time) state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg.at(c.state, now)
}
