package edge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"trafficup/internal/failover"
	"trafficup/internal/probe"
	"trafficup/internal/route"
)

// Local is the network of this machine: a [Kernel], and a [Probe].
type Local struct {
	Layout  route.Layout   // as configured; its uplinks are those of the [Runner]
	Targets []probe.Target // those of the Runner
	Timeout time.Duration  // of a probe
	Bad     []netip.Prefix // an uplink with an address in one of them has no service
	Flush   Flush
	Rates   []uint64 // bit/s that each uplink takes; 0 and nil: not known, and it is never full
	// Since is how long ago the active uplink was chosen by one that ran before: what
	// that one had to cut may be due still.
	Since time.Duration

	active int   // as it stands; -1: it did not look yet; of the loop alone, as the next two
	moved  bool  // the active default was set
	cuts   []cut // what is to be cut of each uplink

	probed atomic.Pointer[[]route.Uplink] // as they were seen last, for probes, which do not wait for a look

	mu     sync.Mutex
	seen   time.Time // guarded by mu, as all below; zero: what was read is old
	kernel route.Kernel
	filled route.Layout
	found  []route.Discovery
	last   []netip.Addr // the last IPv4 address of each uplink
	warned []string     // by the last plan
	astray string       // how the routes differ from what was decided last
	loads  []load       // of each uplink
}

// NewLocal returns a machine.
func NewLocal(l *Local) *Local {
	l.active, l.last, l.cuts = -1, make([]netip.Addr, len(l.Layout.Uplinks)), make([]cut, len(l.Layout.Uplinks))
	l.loads = make([]load, len(l.Layout.Uplinks))
	for i, rate := range l.Rates {
		l.loads[i].rate = rate
	}
	return l
}

// Warnings are what is odd about the routes, by the last look.
func (l *Local) Warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.warned
}

// Astray is how the routes do not follow what was decided; "": they do.
func (l *Local) Astray() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.astray
}

// cut is of the connections by the address of an uplink that was left.
type cut struct {
	old netip.Addr // not valid: there are none to be cut
	at  time.Time
	err error // of the last try
}

// Flush says when flows that go by the address of an uplink that was left are cut.
// Those of a router with a fixed source address never notice by themselves.
type Flush struct {
	Failover time.Duration // after a failover; below 0: never
	Failback time.Duration // after going back to what is preferred; below 0: never
}

// observed is for how long what was read of the kernel is good enough.
const observed = 900 * time.Millisecond

// observe reads the kernel, unless it was read just now.
func (l *Local) observe() error {
	if time.Since(l.seen) < observed {
		return nil
	}
	k, err := route.Observe(context.Background())
	if err != nil {
		return err
	}
	l.kernel = k
	l.filled, l.found = l.Layout.Fill(k)
	l.filled = l.filled.Numbered()
	uplinks := l.filled.Uplinks // not the field, which the next look sets
	l.probed.Store(&uplinks)
	for i, u := range l.filled.Uplinks { // for when it is gone
		if u.Source4.IsValid() {
			l.last[i] = u.Source4
		}
	}
	l.seen = time.Now()
	for _, link := range k.Links {
		if i := slices.IndexFunc(l.filled.Uplinks, func(u route.Uplink) bool { return u.Index == link.Index }); i >= 0 {
			l.loads[i].saw(l.seen, link.Sent)
		}
	}
	return nil
}

// Changed has the kernel read anew.
func (l *Local) Changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = time.Time{}
}

// Look reads an uplink's link.
func (l *Local) Look(uplink int) (Link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.observe(); err != nil {
		return Link{}, err
	}
	return Link{Gone: l.gone(uplink), Loaded: l.loads[uplink].full(l.seen)}, nil
}

// gone is why there is no way out by an uplink, in any family in which somebody is
// asked.
func (l *Local) gone(uplink int) string {
	u, d := l.filled.Uplinks[uplink], l.found[uplink]
	for _, a := range []netip.Addr{u.Source4, u.Source6} {
		i := slices.IndexFunc(l.Bad, func(p netip.Prefix) bool { return a.IsValid() && p.Contains(a) })
		if i >= 0 {
			return fmt.Sprintf("its address %v is one of a link without service (%v)", a, l.Bad[i])
		}
	}
	v4, v6 := l.asked(false), l.asked(true)
	switch {
	case d.Up && d.Carrier && (v4 && u.Has(false) || v6 && u.Has(true)):
		return ""
	case v4 && d.Err4 != nil:
		return d.Err4.Error()
	case v6 && d.Err6 != nil:
		return d.Err6.Error()
	}
	return "no address"
}

// asked tells whether a target is asked in a family.
func (l *Local) asked(v6 bool) bool {
	return slices.ContainsFunc(l.Targets, func(t probe.Target) bool { return t.Addr.Addr().Is6() == v6 })
}

// Stand has the tables and rules stand, and the active uplink's default.
func (l *Local) Stand(active int) (changed string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = time.Time{}
	if err := l.observe(); err != nil {
		return "", err
	}
	layout := l.filled
	if active >= 0 {
		layout.Active = layout.Uplinks[active].Name
	}
	p, faults := plan(layout, l.kernel)
	l.warned = nil
	for _, w := range p.Warnings {
		l.warned = append(l.warned, w.String())
	}
	for _, err := range faults {
		l.warned = append(l.warned, err.Error())
	}
	err = route.Do(context.Background(), p)
	l.seen = time.Time{} // it is another one now
	l.moved = l.moved || layout.Turns(p)
	if err == nil {
		l.turn(active)
	}
	faults = append(faults, err)
	if look := l.observe(); look == nil {
		l.astray = layout.Astray(l.kernel)
	}
	return strings.TrimSpace(p.String()), errors.Join(faults...)
}

// plan is the plan without the uplinks that are refused, or only the switch where
// all is. The refusals are the faults.
func plan(layout route.Layout, k route.Kernel) (p route.Plan, faults []error) {
	p = layout.Plan(k)
	if len(p.Refusals) == 0 {
		return p, nil
	}
	rest, all := layout, false
	for _, r := range p.Refusals {
		all = all || r.Uplink == ""
		rest = rest.Around(r)
	}
	if !all {
		for _, r := range p.Refusals {
			faults = append(faults, r)
		}
		if p = rest.Plan(k); len(p.Refusals) == 0 {
			return p, faults
		}
	}
	return rest.Switch(k), append(faults, p.Err())
}

// turn notes that another uplink carries, and when the connections by the one that
// was left are to be cut. The first time that is any other, if the routes were changed
// for it, or it was chosen so short a time ago that the one that ran before may have
// been ended before it cut.
func (l *Local) turn(active int) {
	if active < 0 || active == l.active {
		return
	}
	for i, old := range l.last {
		wait := l.Flush.Failover
		if active < i {
			wait = l.Flush.Failback
		}
		left := i == l.active || l.active < 0 && i != active && (l.moved || l.Since < wait+reconcile)
		if left && wait >= 0 && old.IsValid() {
			l.cuts[i] = cut{old: old, at: time.Now().Add(wait)}
		}
	}
	l.cuts[active] = cut{} // they are where they belong again
	l.active = active
}

// Cut has connections by the address of an uplink that was left begin anew.
func (l *Local) Cut() error {
	var faults []error
	for i := range l.cuts {
		c := &l.cuts[i]
		if c.old.IsValid() && !time.Now().Before(c.at) {
			if c.err = route.DropFlows(c.old); c.err == nil {
				*c = cut{}
			}
			c.at = time.Now().Add(reconcile)
		}
		faults = append(faults, c.err)
	}
	return errors.Join(faults...)
}

// Probe asks a target by an uplink.
func (l *Local) Probe(ctx context.Context, uplink, target int) (a failover.Answer, ok bool) {
	seen := l.probed.Load()
	if seen == nil {
		return failover.Answer{Why: "the machine's network was not read yet"}, false
	}
	u := (*seen)[uplink]
	b := probe.Binding{Interface: u.Interface, Index: u.Index, Mark: u.Mark, Mask: l.Layout.Mask, Source4: u.Source4, Source6: u.Source6}
	if l.Layout.Simple { // no rule leads it to a table
		b.Mark, b.Device = 0, true
	}
	r := probe.Prober{Timeout: l.Timeout}.Probe(ctx, b, l.Targets[target])
	why := strings.TrimPrefix(r.Why, fmt.Sprintf("%s by %s: ", l.Targets[target], u.Interface)) // a round names them once
	return failover.Answer{OK: r.OK, RTT: r.RTT, Bytes: r.Bytes, NoRoute: r.Fault == probe.NoRoute || r.Fault == probe.NoSource, Why: why},
		r.Fault != probe.Local && r.Fault != probe.Cancelled
}
