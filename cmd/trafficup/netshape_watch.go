package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"trafficup/internal/netshape"
)

// netshapeWatchOptions are the flags of watch.
type netshapeWatchOptions struct {
	netshapeOptions
	gaugeOptions
}

func newNetshapeWatchCommand(sys *system, asJSON *bool) *cobra.Command {
	var o netshapeWatchOptions
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "keep it standing: set up again what is gone, until a signal comes",
		Long: `Set up what is wanted, and again when an interface came back, the ruleset was
flushed or a queue was deleted: at once when the kernel tells, else within ten
seconds. What others put in its place is left alone and told. Without interfaces in
flags or configuration, and of each --iface that has no rate there: what was confirmed
last, also before a reboot. What was applied since boot counts for more. Tells a
service manager when it is ready; a signal ends it, code 0, and everything stays as
it is, but for a rate of --autorate: the one that was applied comes back.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.fixed = cmd.Flags().Changed("autorate") && !o.autorate
			return o.watch(sys, *asJSON)
		},
	}
	o.addIfaceFlags(cmd.Flags())
	o.addRateFlags(cmd.Flags())
	o.addAutorateFlags(cmd.Flags())
	addOptionFlags(cmd.Flags(), []string{"netshape.metrics_file", "netshape.metrics_listen"}, nil)
	return cmd
}

func (o *netshapeWatchOptions) watch(sys *system, asJSON bool) error {
	m, err := o.shaper(sys)
	if err != nil {
		return err
	}
	d, err := o.kept(sys, m)
	if err != nil {
		return err
	}
	seen, err := m.Observe()
	switch {
	case err != nil:
		return &failure{exitFailed, "", err}
	case seen.Denied != nil:
		return usageError("run it as root, or give the unit AmbientCapabilities=CAP_NET_ADMIN", "refused: %w", seen.Denied)
	}
	stop := make(chan struct{})
	defer close(stop)
	events, err := linkEvents(stop)
	if err != nil {
		return &failure{exitFailed, "", err}
	}
	beside, err := o.beside(sys, d)
	if err != nil {
		return err
	}
	sys.graceful.Store(true)
	var one sync.Mutex // tells at a time
	tell := func(e netshape.Event) {
		one.Lock()
		defer one.Unlock()
		reportEvent(sys, asJSON, e)
	}
	notify("READY=1")
	var all sync.WaitGroup
	for _, f := range beside {
		all.Go(func() { f(sys.soft, tell) })
	}
	m.Watch(sys.soft, d, events, tell)
	all.Wait()
	notify("STOPPING=1")
	return nil
}

// part is what goes on beside the watch until ctx ends.
type part func(ctx context.Context, tell func(netshape.Event))

// beside is all that goes on beside the watch, each part with a machine of its own.
func (o *netshapeWatchOptions) beside(sys *system, d netshape.Desired) (all []part, err error) {
	names := d.Names()
	gauges, err := o.gauges(sys.config, names)
	if err != nil {
		return nil, err
	}
	if err := fittable(gauges, d); err != nil {
		return nil, err
	}
	for _, g := range gauges {
		m, err := o.shaper(sys)
		if err != nil {
			return nil, err
		}
		all = append(all, func(ctx context.Context, tell func(netshape.Event)) { steer(ctx, m, g, tell) })
	}
	metrics, err := o.metrics(sys, names)
	return append(all, metrics...), err
}

// fittable refuses gauges that have no rate to fit, or no room for one.
func fittable(gauges []netshape.Gauge, d netshape.Desired) error {
	for _, g := range gauges {
		n := slices.IndexFunc(d.Interfaces, func(i netshape.Interface) bool { return i.Name == g.Interface })
		switch i := d.Interfaces[n]; {
		case i.Up == 0:
			return usageError("give --up, the most that the link carries, or --autorate=false", "%s: --autorate fits a rate to the link, and there is none: kind %s, up unlimited or left out", i.Name, i.Kind)
		case g.Min >= i.Up:
			return usageError("give the least that the link carries in a bad hour, or --autorate=false", "%s: --min %s: want less than up, %s", i.Name, netshape.FormatRate(g.Min), netshape.FormatRate(i.Up))
		}
	}
	return nil
}

// kept is what is wanted: of each interface what flags or configuration say, or
// where these say nothing, what was confirmed last.
func (o *netshapeOptions) kept(sys *system, m *netshape.Machine) (d netshape.Desired, err error) {
	c := sys.config
	names, err := o.names(c)
	if err != nil {
		return d, err
	}
	rated := o.rated()
	said := *o
	said.ifaces = nil
	var rest []string
	for _, name := range names {
		if rated || c.shaped(name).Name != "" {
			said.ifaces = append(said.ifaces, name)
		} else {
			rest = append(rest, name)
		}
	}
	switch {
	case rated || len(said.ifaces) > 0:
		d, err = said.desired(c)
	case len(c.Netshape.Classes) > 0:
		d.Classes, d.Mask, err = c.trafficClasses()
	}
	if err != nil || rated || len(names) > 0 && len(rest) == 0 {
		return d, err
	}
	last, _, err := m.Kept()
	if err != nil {
		return d, &failure{exitFailed, "", err}
	}
	if len(said.ifaces)+len(c.Netshape.Classes) == 0 {
		d.Classes, d.Mask = last.Classes, last.Mask
	}
	if len(names) == 0 {
		rest = last.Names()
	}
	confirmed, err := lastOf(last, rest)
	d.Interfaces = append(d.Interfaces, confirmed...)
	return d, err
}

// lastOf are the interfaces of names, all of which have to be among those that were
// confirmed last.
func lastOf(last netshape.Desired, names []string) (list []netshape.Interface, err error) {
	if len(names) == 0 {
		return nil, usageError("give --iface NAME, or netshape.interfaces in the configuration, or apply and confirm something first", "there is nothing to keep standing: no interface is named, and nothing was confirmed")
	}
	var unknown []string
	for _, name := range names {
		n := slices.IndexFunc(last.Interfaces, func(i netshape.Interface) bool { return i.Name == name })
		if n < 0 {
			unknown = append(unknown, name)
		} else {
			list = append(list, last.Interfaces[n])
		}
	}
	if len(unknown) > 0 {
		err = usageError("give --up, write it into netshape.interfaces, or apply and confirm it first", "there is no rate for %s: it is not in the configuration, and nothing was confirmed for it", strings.Join(unknown, ", "))
	}
	return list, err
}

// reportEvent tells of a change, to the service manager, too.
func reportEvent(sys *system, asJSON bool, e netshape.Event) {
	line := printable(strings.TrimPrefix(fmt.Sprintf("%s: %s: %s", e.Interface, e.What, e.Text), ": ")) // some are of no interface
	notify("STATUS=" + line)
	if asJSON {
		_ = writeJSON(sys, struct {
			Type      string `json:"message_type"`
			Interface string `json:"interface,omitzero"`
			Event     string `json:"event"`
			Message   string `json:"message"`
		}{"status", e.Interface, e.What, printable(e.Text)})
		return
	}
	fmt.Fprintf(sys.stderr, "trafficup: %s\n", line)
}
