package main

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"trafficup/internal/edge"
	"trafficup/internal/failover"
	"trafficup/internal/netshape"
)

func newFailoverRunCommand(sys *system, asJSON *bool) *cobra.Command {
	var o failoverOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "probe the uplinks and keep the default route on one that works, until a signal comes",
		Long: `Probe all uplinks and have what leaves this machine go by the preferred one that
works, until a signal comes; then everything stays as it is (failover remove takes
it away). Tells a service manager when the first decision is made, how it stands,
and that it is alive.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.run(sys, *asJSON) },
	}
	o.addFlags(cmd.Flags())
	o.addShapeFlag(cmd.Flags())
	addOptionFlags(cmd.Flags(), []string{"failover"}, nil)
	return cmd
}

func (o *failoverOptions) run(sys *system, asJSON bool) error {
	l, last, unlock, err := o.begin(sys, asJSON)
	if err != nil {
		return err
	}
	defer unlock()
	sys.warn(l.setup.warnings()...)
	sys.warnFailover(l.setup, os.DirFS("/"))
	defer l.unhurried()()
	return l.run(last)
}

// begin takes the state directory, and returns what is to run, and from which state on.
func (o *failoverOptions) begin(sys *system, asJSON bool) (l *failoverLoop, last failover.State, unlock func() error, err error) {
	l = &failoverLoop{sys: sys, asJSON: asJSON, shapeDir: o.shapeDir, output: sys.stderr}
	plan, err := l.plan(sys.config)
	if err != nil {
		return nil, last, nil, err
	}
	if err := edge.Allowed(); err != nil {
		return nil, last, nil, &failure{exitFailed, "run it as root, or give it CAP_NET_ADMIN and CAP_NET_RAW", err}
	}
	store, err := o.store(sys)
	if err != nil {
		return nil, last, nil, &failure{exitFailed, "", err}
	}
	boot, since, err := edge.Boot()
	if err != nil {
		return nil, last, nil, &failure{exitFailed, "", err}
	}
	store.Boot = boot
	if err := store.MakeDir(); err != nil {
		return nil, last, nil, &failure{exitFailed, "run it as root, or give --state-dir DIR", err}
	}
	unlock, err = holdFailover(sys, store)
	if err != nil {
		return nil, last, nil, err
	}
	if unlock, err = holdRoutes(sys, unlock); err != nil {
		return nil, last, nil, err
	}
	report, _, err := store.Load()
	if err != nil {
		sys.warn(err.Error() + "; all is begun anew")
	}
	l.failoverPlan, l.store = plan, store
	l.now = func() failover.Now { return failover.Now{Boot: since(), Wall: time.Now()} }
	l.tally, l.spending = edge.NewTally(report, boot, since()), edge.NewSpending(report, boot)
	last = report.Last(boot, l.setup.decide, l.now())
	if carries, err := edge.Carries(sys.soft, l.setup.layout); err == nil { // else the loop tells what is wrong
		last = l.setup.decide.Carries(last, carries, l.now())
	}
	return l, last, unlock, nil
}

// failoverLoop is a running failover.
type failoverLoop struct {
	failoverPlan
	sys      *system
	store    edge.Store
	asJSON   bool
	shapeDir string
	now      func() failover.Now
	enough   func(failover.State) bool // of once

	tally            *edge.Tally
	spending         *edge.Spending
	service          *service
	page             *failoverPage
	hooks            *hooks
	recorder         *edge.Recorder // nil: nothing is kept
	output           io.Writer      // of hooks
	unnoted, unsaved trouble        // about the history, and the state at the end

	local  *edge.Local // of the plan
	joined *joined     // likewise
	saved  edge.Report // the last one, or what was to be it
}

// failoverPlan is what a turn goes by.
type failoverPlan struct {
	config Config
	setup  failoverSetup
	queues *netshape.Machine // sets up those of the uplinks; nil: none is to have one
}

// plan makes one of a configuration, with all that can fail.
func (l *failoverLoop) plan(c Config) (p failoverPlan, err error) {
	p.config = c
	if p.setup, err = c.failover(); err == nil {
		p.queues, err = queueMachine(l.sys, c, l.shapeDir, p.setup.layout.Uplinks)
	}
	return p, err
}

func (l *failoverLoop) run(last failover.State) error {
	soft := l.sys.soft
	events, err := edge.Events(soft)
	if err != nil {
		return &failure{exitFailed, "run it as root, or give it CAP_NET_ADMIN", err}
	}
	if l.page, err = newFailoverPage(l.sys, l.config.Failover.MetricsListen); err != nil {
		return err
	}
	l.sys.graceful.Store(true)
	l.service, l.hooks = newService(l.sys), newHooks(l.sys, l.output, l.tally.HookFailed)
	defer l.service.begin()()
	var parts, disks sync.WaitGroup
	for _, part := range []func(context.Context){l.service.stopping, l.hooks.run, l.page.serve} {
		parts.Go(func() { part(soft) })
	}
	for _, part := range []func(context.Context){l.page.write, l.recording()} {
		disks.Go(func() { part(soft) })
	}
	for soft.Err() == nil {
		last = l.turn(last, events)
	}
	parts.Wait()
	shortly(func() { disks.Wait(); l.page.flush() })
	return nil
}

// turn runs by one plan, until a signal or another one comes, and returns what is known
// then.
func (l *failoverLoop) turn(s failover.State, events <-chan struct{}) failover.State {
	if text := l.service.impatient(l.setup.decide.Rules); text != "" {
		l.sys.warn(text)
	}
	f := l.config.Failover
	l.local = edge.NewLocal(&edge.Local{
		Layout: l.setup.layout, Targets: l.setup.targets, Timeout: l.setup.decide.Rules.Timeout, Bad: l.setup.bad,
		Flush: l.flush(f.FlushFailover, f.FlushFailback), Rates: l.config.uplinkRates(l.setup.layout.Uplinks),
		Since: l.now().Boot - s.Since,
	})
	l.joined = l.join()
	defer l.joined.leave()
	ctx, cancel := context.WithCancel(l.sys.soft)
	defer cancel()
	requests := make(chan failover.Forced)
	var next *failoverPlan
	var beside sync.WaitGroup
	beside.Go(func() { l.ask(ctx, requests) })
	beside.Go(func() { l.followCalendars(ctx) })
	beside.Go(func() {
		if next = l.reread(ctx); next != nil {
			cancel()
		}
	})
	r := edge.Runner{
		Config: l.setup.decide, Targets: l.setup.edgeTargets(), Quorum: l.setup.quorum, Kernel: l.local, Prepare: l.joined.queues.prepare, Probe: l.local.Probe, Now: l.now,
		Events: events, Requests: requests, Tell: l.tell, Switched: l.hook, Save: l.save, Alive: l.service.alive,
		Record: l.record(), Spent: l.spent, Enough: l.enough,
	}
	s = r.Run(ctx, s)
	cancel()
	beside.Wait()
	l.sys.warnOnce(&l.unsaved, l.save(s)) // all that is known: for the next one, and while others still hear of it
	if next != nil {
		l.failoverPlan = *next
	}
	return s
}

// ask looks for requests until ctx ends. One is taken away when the loop has it: else
// it is there for the next one.
func (l *failoverLoop) ask(ctx context.Context, requests chan<- failover.Forced) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var told trouble
	had := failover.Forced{Uplink: -1}
	for {
		q, ok, err := l.store.Asked(l.setup.decide, l.now().Boot)
		if ok && q != had { // else it could not be taken away
			select {
			case requests <- q:
				had = q
			case <-ctx.Done():
				return
			}
		}
		if ok {
			err = l.store.Answered()
		}
		l.sys.warnOnce(&told, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// save keeps the state, and tells the service manager.
func (l *failoverLoop) save(s failover.State) error {
	r := edge.NewReport(l.setup.decide, s, l.now(), l.store.Boot, os.Getpid(), l.local.Warnings())
	r.Astray = l.local.Astray()
	r.Counts = l.tally.Counts(l.now().Boot)
	l.spending.Report(&r)
	l.service.stands(r)
	l.page.put(l.setup.decide, r, l.config.Failover.MetricsFile)
	l.joined.report(&r)
	if r.By = edge.ByRun; l.enough != nil {
		r.By = edge.ByOnce
	}
	l.saved = r
	return l.store.Save(r)
}
