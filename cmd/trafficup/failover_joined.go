package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"trafficup/internal/edge"
	"trafficup/internal/netshape"
	routes "trafficup/internal/route"
)

// joined is what goes along with a switch: the queue of the uplink, and word of it to
// other hosts. Its methods are for the loop.
type joined struct {
	cancel context.CancelFunc
	queues *uplinkQueues
	share  *uplinkShare
}

func (o *failoverOptions) addShapeFlag(fs *pflag.FlagSet) {
	fs.StringVar(&o.shapeDir, "netshape-dir", netshape.DefaultDir, "the --state-dir of netshape, where it is kept what was done to the uplinks' queues")
}

// join begins what goes along with switches; leave ends it, which a signal does not:
// others are told of the end as well.
func (l *failoverLoop) join() *joined {
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.sys.soft))
	queues := &uplinkQueues{ctx: ctx, config: l.config, options: netshapeOptions{dir: l.shapeDir}, machine: l.queues, uplinks: l.setup.layout.Uplinks}
	now := l.now()
	share := &uplinkShare{site: l.config.Failover.Site, keep: siteKept, boot: l.store.Boot, known: now.Wall}
	if l.enough != nil {
		share.keep, share.known = siteKeptByCron, now.Wall.Add(-now.Boot)
	}
	share.begin(ctx, l.sys, l.config)
	return &joined{cancel, queues, share}
}

func (j *joined) leave() {
	j.cancel()
	j.queues.settle(queuePatience)
	j.share.close()
}

// report adds to r how that is, and has other hosts told of r.
func (j *joined) report(r *edge.Report) {
	r.Shaped, r.Shared = j.queues.stands, j.share.how()
	j.share.post(*r)
}

const (
	queuePatience = 2 * time.Second // that a switch waits for a queue
	queueLimit    = 8 * time.Second // that goes on for, beside the switch
)

// uplinkQueues has the queue of the uplink that carries stand, as "netshape watch"
// does: what stands is not touched, and an apply that waits for its confirmation, or
// somebody else's queue, is left alone.
type uplinkQueues struct {
	ctx     context.Context
	config  Config
	options netshapeOptions
	machine *netshape.Machine // nil: no uplink is to have one
	uplinks []routes.Uplink

	busy   chan netshape.Event // brings what became of the one being set up; nil: none is
	at     string              // the interface of that
	since  time.Time
	stands string // whether it does at the uplink that carries, for people; "": it is to have none
}

// queueMachine sets up the uplinks' queues; nil: none is to have one.
func queueMachine(sys *system, c Config, dir string, uplinks []routes.Uplink) (*netshape.Machine, error) {
	if !slices.ContainsFunc(uplinks, func(u routes.Uplink) bool { return c.shaped(u.Interface).Name != "" }) {
		return nil, nil
	}
	o := netshapeOptions{dir: dir}
	return o.shaper(sys)
}

// prepare has the queue of an uplink stand, and does not wait long for that: what is
// not done goes on, and is looked at again the next time.
func (q *uplinkQueues) prepare(uplink int) (did string, err error) {
	name := q.uplinks[uplink].Interface
	if q.stands = ""; q.config.shaped(name).Name == "" {
		return "", nil
	}
	if q.busy == nil {
		q.begin(name)
	}
	e, ended := q.settle(queuePatience - time.Since(q.since))
	if ended && e.Interface != name { // that was of the uplink before
		q.begin(name)
		e, ended = q.settle(queuePatience)
	}
	switch {
	case !ended:
		err = fmt.Errorf("the queue of %s is not set up after %v; it is not waited for", q.at, time.Since(q.since).Round(time.Second))
	case e.What == netshape.EventApplied:
		did = name + ": " + e.Text
	case e.What != netshape.EventGood:
		err = errors.New(name + ": " + e.Text)
	}
	if q.stands = name + ": its queue stands"; err != nil {
		q.stands = "not as configured: " + err.Error()
	}
	return did, err
}

// begin sets up a queue beside the loop.
func (q *uplinkQueues) begin(name string) {
	q.busy, q.at, q.since = make(chan netshape.Event, 1), name, time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(q.ctx, queueLimit)
		defer cancel()
		options := q.options
		options.ifaces = []string{name}
		d, err := options.desired(q.config) // looks up users, which may take its time
		if err != nil {
			q.busy <- netshape.Event{Interface: name, What: netshape.EventFailed, Text: err.Error()}
			return
		}
		q.busy <- q.machine.Uphold(ctx, d)
	}()
}

// settle waits for what was begun. ended is false when nothing was, or it goes on.
func (q *uplinkQueues) settle(within time.Duration) (e netshape.Event, ended bool) {
	if q.busy == nil {
		return e, false
	}
	select {
	case e = <-q.busy:
		q.busy = nil
		return e, true
	case <-time.After(max(within, 10*time.Millisecond)):
		return e, false
	}
}

// uplinkRates are what the uplinks take of ours, in bit/s; 0 is not known.
func (c Config) uplinkRates(uplinks []routes.Uplink) (rates []uint64) {
	given := map[string]string{}
	for _, u := range c.Failover.Uplinks {
		given[u.Name] = u.Up
	}
	for _, u := range uplinks {
		rate, _ := netshape.ParseRate(given[u.Name]) // was checked
		if spec, err := specOf(c.shaped(u.Interface)); rate == 0 && err == nil {
			if i, err := parseInterface(spec); err == nil {
				rate = i.Up
			}
		}
		rates = append(rates, rate)
	}
	return rates
}

// checkJoined finds the mistakes in what failover has to do with the other sections.
func (c Config) checkJoined() {
	for n, u := range c.Failover.Uplinks {
		if _, err := netshape.ParseRate(u.Up); u.Up != "" && err != nil {
			c.Fault(fmt.Sprintf("failover.uplinks[%d].up", n), "%v", err)
		}
	}
	switch site := c.Failover.Site; {
	case site == "":
	case !siteName.MatchString(site):
		c.Fault("failover.site", "%q: want letters, digits or any of . _ -", site)
	case !c.hasRedis():
		c.Fault("failover.site", "needs to know where Redis is: give redis.url, redis.sentinel or redis.cluster")
	case c.group() == "":
		c.Fault("failover.site", "needs the name under which machines share: give redis.group, or api.primary")
	}
}
