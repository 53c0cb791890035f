package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"trafficup/internal/netshape"
)

func newNetshapeWatchCommand(sys *system, asJSON *bool) *cobra.Command {
	var o netshapeOptions
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "keep it standing: set up again what is gone, until a signal comes",
		Long: `Set up what is wanted, and again when an interface came back, the ruleset was
flushed or a queue was deleted: at once when the kernel tells, else within ten
seconds. What others put in its place is left alone and told. Without interfaces in
flags or configuration: what was confirmed last, also before a reboot. What was
applied since boot counts for more. Tells a service manager when it is ready; a
signal ends it, code 0, and everything stays as it is.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return o.watch(sys, *asJSON)
		},
	}
	o.addIfaceFlags(cmd.Flags())
	o.addRateFlags(cmd.Flags())
	return cmd
}

func (o *netshapeOptions) watch(sys *system, asJSON bool) error {
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
	sys.graceful.Store(true)
	notify("READY=1")
	m.Watch(sys.soft, d, events, func(e netshape.Event) { reportEvent(sys, asJSON, e) })
	notify("STOPPING=1")
	return nil
}

// kept is what is wanted, or where nobody says, what was confirmed last.
func (o *netshapeOptions) kept(sys *system, m *netshape.Machine) (d netshape.Desired, err error) {
	if len(o.ifaces) > 0 || len(sys.config.Netshape.Interfaces) > 0 {
		return o.desired(sys.config)
	}
	d, ok, err := m.Kept()
	if err != nil {
		return d, &failure{exitFailed, "", err}
	}
	if !ok || len(d.Interfaces) == 0 {
		return d, &failure{exitUsage, "give --iface NAME, or netshape.interfaces in the configuration, or apply and confirm something first", errors.New("there is nothing to keep standing: no interface is named, and nothing was confirmed")}
	}
	return d, nil
}

// reportEvent tells of a change, to the service manager, too.
func reportEvent(sys *system, asJSON bool, e netshape.Event) {
	line := printable(fmt.Sprintf("%s: %s: %s", e.Interface, e.What, e.Text))
	notify("STATUS=" + line)
	if asJSON {
		_ = writeJSON(sys, struct {
			Type      string `json:"message_type"`
			Interface string `json:"interface"`
			Event     string `json:"event"`
			Message   string `json:"message"`
		}{"status", e.Interface, e.What, printable(e.Text)})
		return
	}
	fmt.Fprintf(sys.stderr, "trafficup: %s\n", line)
}
