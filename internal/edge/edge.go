package edge

import (
	"context"
	"errors"
	"time"

	"trafficup/internal/failover"
)

// Target is something on the far side that is asked whether it answers.
type Target struct {
	Name  string // for people
	Class string // what an answer proves: see [failover.Answer]
	// Every is the time between two questions while it answers; 0: each round. One
	// that does not is asked each round. Metered is the same of an uplink whose traffic
	// is paid for, Seldom of one that is on standby besides.
	Every, Metered, Seldom time.Duration
}

// Link is what the kernel says of an uplink.
type Link struct {
	Gone   string // the reason for there being no link; "": there is one
	Loaded bool   // what this machine sends fills it: round trips say nothing
}

// Kernel is the machine's network.
type Kernel interface {
	// Look reads an uplink's link, or has read it less than a second ago.
	Look(uplink int) (Link, error)
	// Changed says that what was read before is old.
	Changed()
	// Stand has the uplink carry what has no other way, and all uplinks be probed by
	// their own; -1: whatever the machine's other routes say. It is for repeating:
	// what stands already is left alone, what is gone is put back. changed says what
	// it did, "" for nothing.
	Stand(active int) (changed string, err error)
	// Cut has connections that went by an uplink that was left begin anew, once their
	// time has come. What it could not do it tries again.
	Cut() error
}

// Probe asks a target by an uplink, until ctx ends. It returns no answer later than
// that; ok is false where this machine could not ask, which says nothing of the
// uplink.
type Probe func(ctx context.Context, uplink, target int) (a failover.Answer, ok bool)

// Runner is the loop. Its fields are not to be changed while it runs.
type Runner struct {
	Config  failover.Config
	Targets []Target
	Quorum  int

	Kernel Kernel
	// Prepare has what belongs to an uplink stand, as soon as the routes lead there and
	// every ten seconds: it tells what it did, "" for nothing. nil: there is nothing to
	// prepare.
	Prepare func(uplink int) (did string, err error)
	Probe   Probe
	Now     func() failover.Now

	Events   <-chan struct{}        // something changed in the kernel; nil: nothing tells
	Requests <-chan failover.Forced // what people ask; nil: nobody does
	// Tell is called with all that happens, when the routes have followed; Save with the
	// state before that, after each change and every ten seconds. Both are called by the
	// loop, one at a time.
	Tell func(Happening)
	Save func(failover.State) error
	// Record is called with each round that ended; nil: nobody keeps them.
	Record func(uplink int, d failover.Round)
	// Spent is called with what an answer cost, in bytes; nil: nobody counts.
	Spent func(uplink, bytes int)
	// Enough is asked after each decision, whether that will do; nil: it never does.
	Enough func(failover.State) bool
	// Switched is called after each switch, when the routes have been set; nil: nobody.
	Switched func(failover.Event)
	// Alive is called after each round in which this machine could ask somebody; a
	// service manager may want to know. nil: nobody does.
	Alive func()
}

// Happening is something to tell.
type Happening struct {
	failover.Event
	Error bool
}

const (
	// What happens beside decisions.
	EventChosen = "chosen" // a person chose an uplink, or that the rules choose
	EventRoutes = "routes" // they were put back
	EventShaped = "shaped" // what belongs to an uplink stands, or stands again
	EventFailed = "failed" // something could not be done, and is tried again

	reconcile = 10 * time.Second
	settling  = 250 * time.Millisecond // what changes more often is looked at as often as this

	// SavedEvery is the longest time between two calls of Save.
	SavedEvery = reconcile
)

// Run decides until ctx ends or it is enough, from the state s on, and returns the
// last one. It leaves everything as it is.
func (r *Runner) Run(ctx context.Context, s failover.State) failover.State {
	l := newLoop(r, s)
	defer l.probes.Wait()
	defer l.announce()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.decide()
	events := r.Events
	for ctx.Err() == nil {
		l.begin(ctx)
		timer := time.NewTimer(l.wait())
		heard := events
		if l.dirty { // it is known
			heard = nil
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case a := <-l.answers:
			l.take(a)
		case _, l.dirty = <-heard:
			if !l.dirty && ctx.Err() == nil {
				events = nil
				l.failed("hear of changes", errors.New("the kernel tells of them no more; what stands is looked at every ten seconds"))
			}
		case q := <-r.Requests:
			l.s = r.Config.Force(l.s, q)
			l.chosen(q)
		}
		timer.Stop()
		if ctx.Err() == nil {
			l.decide()
			if r.Enough != nil && r.Enough(l.s) {
				break
			}
		}
	}
	return l.s
}
