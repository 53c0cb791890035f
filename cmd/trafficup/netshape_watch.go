package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"trafficup/internal/config"
	"trafficup/internal/netshape"
)

// netshapeWatchOptions are the flags of watch.
type netshapeWatchOptions struct {
	netshapeOptions
	gaugeOptions
	metrics string
}

func newNetshapeWatchCommand(sys *system, asJSON *bool) *cobra.Command {
	var o netshapeWatchOptions
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "keep it standing: set up again what is gone, until a signal comes",
		Long: `Set up what is wanted, and again when an interface came back, the ruleset was
flushed or a queue was deleted: at once when the kernel tells, else within ten
seconds. What others put in its place is left alone and told. Without interfaces in
flags or configuration, or of an --iface that has no rate there: what was confirmed
last, also before a reboot. What was applied since boot counts for more. Tells a
service manager when it is ready; a signal ends it, code 0, and everything stays as
it is, but for a rate of --autorate: the one that was applied comes back.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return o.watch(sys, *asJSON)
		},
	}
	o.addIfaceFlags(cmd.Flags())
	o.addRateFlags(cmd.Flags())
	o.addAutorateFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.metrics, "metrics-file", "", "`FILE` that metrics are written to every 15 s, for node_exporter: its name ends in .prom")
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

// beside is what goes on beside the watch, each part with a machine of its own.
func (o *netshapeWatchOptions) beside(sys *system, d netshape.Desired) (all []func(context.Context, func(netshape.Event)), err error) {
	var names []string
	for _, i := range d.Interfaces {
		names = append(names, i.Name)
	}
	if o.metrics != "" {
		m, err := o.shaper(sys)
		if err != nil {
			return nil, err
		}
		all = append(all, func(ctx context.Context, tell func(netshape.Event)) { writeMetrics(ctx, m, names, o.metrics, tell) })
	}
	switch {
	case !o.autorate && (o.target != "" || o.min != ""):
		return nil, usageError("give --autorate, too, or leave them out", "--target and --min are for --autorate")
	case !o.autorate:
		return all, nil
	case len(names) != 1:
		return nil, usageError("choose one with --iface: "+strings.Join(names, ", "), "--autorate is for one interface at a time")
	}
	m, err := o.shaper(sys)
	if err != nil {
		return nil, err
	}
	g, err := o.gauge(names[0])
	if err != nil {
		return nil, err
	}
	g.Probe = lateProbe(o.target, names[0])
	return append(all, func(ctx context.Context, tell func(netshape.Event)) { steer(ctx, m, g, tell) }), nil
}

const metricsEvery = 15 * time.Second

// writeMetrics writes them until ctx ends, and tells when that begins to fail.
func writeMetrics(ctx context.Context, m *netshape.Machine, names []string, file string, tell func(netshape.Event)) {
	tick := time.NewTicker(metricsEvery)
	defer tick.Stop()
	said := ""
	for {
		data, err := m.Metrics(names...)
		if err == nil {
			err = netshape.SaveMetrics(file, data)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != "" && text != said {
			tell(netshape.Event{What: netshape.EventFailed, Text: text})
		}
		said = text
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// kept is what is wanted, or where nobody says, what was confirmed last.
func (o *netshapeOptions) kept(sys *system, m *netshape.Machine) (d netshape.Desired, err error) {
	names, err := o.names(sys.config)
	if err != nil {
		return d, err
	}
	rated := o.kind+o.up+o.down+o.profile+o.diffserv != ""
	if rated || slices.ContainsFunc(sys.config.Netshape.Interfaces, func(i config.ShapedInterface) bool { return slices.Contains(names, i.Name) }) {
		return o.desired(sys.config)
	}
	if d, _, err = m.Kept(); err != nil {
		return d, &failure{exitFailed, "", err}
	}
	unknown := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return slices.ContainsFunc(d.Interfaces, func(i netshape.Interface) bool { return i.Name == n })
	})
	if len(names) > 0 {
		d.Interfaces = slices.DeleteFunc(d.Interfaces, func(i netshape.Interface) bool { return !slices.Contains(names, i.Name) })
	}
	switch {
	case len(unknown) > 0:
		return d, usageError("give --up, write it into netshape.interfaces, or apply and confirm it first", "there is no rate for %s: it is not in the configuration, and nothing was confirmed for it", strings.Join(unknown, ", "))
	case len(d.Interfaces) == 0:
		return d, &failure{exitUsage, "give --iface NAME, or netshape.interfaces in the configuration, or apply and confirm something first", errors.New("there is nothing to keep standing: no interface is named, and nothing was confirmed")}
	}
	return d, nil
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
