// Package uplink tells whether it is this machine's own uplink that is bad.
//
// Machines that share a breaker trust each other's word that the API is down. The
// word of one whose own uplink is bad is worth nothing, and stays with it.
//
// The rule. What this machine finds of a path counts for itself alone in any of
// these cases:
//
//  1. An attempt by that path failed on the machine itself, and none was answered
//     since: no network, no route, no answer to name lookups, interface or source
//     address gone. The first such failure counts; the first answer ends it.
//  2. The kernel reports loss on connections of that path that were answered: of
//     the last 200 segments or more, from at least 8 s and at most 30 s, a tenth
//     was lost, and some in half of that time at least. It ends when as many
//     segments show less.
//  3. More than half of the configured targets, of which there are at least two,
//     cannot be reached: no TCP connection within 2 s. A target that refuses is
//     reached. They are tried when an attempt got no answer and the last try is 5 s
//     ago, and then every 5 s until more are reached. It holds for all paths.
//
// Cases 1 and 2 are forgotten 10 min after the last sign of them. While the targets
// are tried because of an attempt without an answer, what is found is kept back.
//
// A server that dies is none of these: what is sent to it again and never answered
// is left out of case 2, and so is a silence after which all goes on as before.
// Steady loss at the API's own end cannot be told from loss here; then each machine
// judges by what it finds itself.
package uplink

import (
	"context"
	"net"
	"sync"
	"time"
)

// tellEvery is the least time from telling of one trouble to telling of the next.
const tellEvery = time.Minute

// Standing says what this machine's word about a path is worth to others.
type Standing int

// The standings, from good to bad.
const (
	Well   Standing = iota // it counts for all
	Unsure                 // the targets are being tried, for 2 s at most; it has to wait
	Bad                    // it stays with this machine
)

// Config tunes a [Watch]. The zero value watches attempts alone.
type Config struct {
	// Targets are servers, host:port, that are none of the API's and fail
	// independently of each other. Fewer than two are not tried.
	Targets []string
	// Dial connects to a target, in background goroutines, and returns soon after
	// its ctx has ended; nil: that of a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Notify, which may be nil, hears why the uplink is bad, on any path, and ""
	// when it is well again: in turn, outside all locks, and of no more than one
	// trouble a minute.
	Notify func(why string)
}

// Attempt is the end of one request, as far as it shows whose fault it was. Those
// that this program cut short are not worth telling.
type Attempt struct {
	Path     string
	Answered bool // the API answered, with any status
	Own      bool // a fault of the machine itself: no network, route, name lookup, interface or source address

	// Segments with data that the kernel sent for this attempt, and how many of them
	// were lost: sent again, and not reported as needless. 0: unknown.
	Segments, Lost uint64
}

// Watch judges the uplink by attempts and targets. Safe for concurrent use.
type Watch struct {
	cfg  Config
	ask  chan struct{} // holds one wish to try the targets
	stop context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	links   map[string]link // guarded by mu; by path
	reach   reach           // guarded by mu
	bad     bool            // guarded by mu; what Notify heard last
	told    time.Time       // guarded by mu; when it last heard of a trouble; zero: never
	telling bool            // guarded by mu; somebody calls Notify
}

// New returns a Watch, to be closed by the caller when there are targets: a
// goroutine tries them.
func New(cfg Config) *Watch {
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &Watch{cfg: cfg, ask: make(chan struct{}, 1), stop: stop, links: make(map[string]link)}
	if len(cfg.Targets) >= minTargets {
		w.reach.targets = len(cfg.Targets)
		w.work.Go(func() { w.watch(ctx) })
	}
	return w
}

// Close stops trying the targets, which then count as well, and waits for the end
// of that.
func (w *Watch) Close() {
	w.stop()
	w.work.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reach = reach{}
}

// Saw takes the end of an attempt into account. It has to be called before the
// breaker hears of the attempt.
func (w *Watch) Saw(now time.Time, a Attempt) {
	w.mu.Lock()
	defer w.unlock(now)
	w.links[a.Path] = w.links[a.Path].saw(now, a)
	if !a.Answered && w.reach.due(now) {
		w.reach = w.reach.begin(now)
		w.ask <- struct{}{} // there is room: no other try is wanted or under way
	}
}

// Judge returns what this machine's word about path is worth at now, and unless it
// is Well, why.
func (w *Watch) Judge(now time.Time, path string) (s Standing, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if why := w.links[path].fault(now); why != "" {
		return Bad, onPath(path, why)
	}
	return w.reach.judge()
}

// Bad reports whether this machine's word about any path is not worth sharing at
// now, and why: one is Bad, or all are Unsure.
func (w *Watch) Bad(now time.Time) (why string, bad bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, why := w.worst(now)
	return why, s != Well
}

// worst is the judgement of all paths together. requires mu.
func (w *Watch) worst(now time.Time) (Standing, string) {
	s, why := w.reach.judge()
	if s == Bad {
		return s, why
	}
	first := "" // of several, always the same one
	for path, l := range w.links {
		if fault := l.fault(now); fault != "" && (s != Bad || path < first) {
			s, why, first = Bad, onPath(path, fault), path
		}
	}
	return s, why
}

// news returns what Notify has to hear at now, if anything. requires mu.
func (w *Watch) news(now time.Time) (why string, due bool) {
	s, why := w.worst(now)
	switch {
	case w.cfg.Notify == nil || (s == Bad) == w.bad:
		return "", false
	case s != Bad:
		return "", true
	}
	return why, now.Sub(w.told) >= tellEvery
}

// unlock releases mu and tells Notify the news. One caller at a time does the
// telling, so that what is told comes in turn.
func (w *Watch) unlock(now time.Time) {
	defer w.mu.Unlock()
	for !w.telling {
		why, due := w.news(now)
		if !due {
			return
		}
		if w.bad = why != ""; w.bad {
			w.told = now
		}
		w.telling = true
		w.mu.Unlock()
		w.cfg.Notify(why)
		w.mu.Lock()
		w.telling = false
	}
}

func onPath(path, why string) string {
	if path == "" {
		return why
	}
	return path + ": " + why
}
