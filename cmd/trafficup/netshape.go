package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/config"
	"trafficup/internal/netshape"
)

func newNetshapeCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "netshape",
		Short: "shape the uplink and mark traffic, so that an upload delays nothing else",
		Long: `Shape uplinks and mark what leaves by them: packets wait in a fair queue on this
machine, and not in a modem or dish that knows of no fairness. plan says what would
change and changes nothing; apply does that, and takes it back unless it is
confirmed; clear puts back what was there before; measure finds the rate. Works without a configuration;
with one, flags go over netshape.interfaces. Linux only.`,
	}
	cmd.AddCommand(newNetshapePlanCommand(sys, asJSON), newNetshapeApplyCommand(sys, asJSON), newNetshapeStatusCommand(sys, asJSON),
		newNetshapeConfirmCommand(sys, asJSON), newNetshapeRollbackCommand(sys, asJSON), newNetshapeClearCommand(sys, asJSON), newNetshapeWatchCommand(sys, asJSON),
		newNetshapeMeasureCommand(sys, asJSON))
	return cmd
}

// netshapeOptions are the flags of all subcommands; each has those that it needs.
type netshapeOptions struct {
	dir                               string
	ifaces                            []string
	kind, up, down, profile, diffserv string
	ackFilter, rtt, overhead          string
	force                             bool
	within                            time.Duration
	targets                           []string
}

func (o *netshapeOptions) addDirFlag(fs *pflag.FlagSet) {
	fs.StringVar(&o.dir, "state-dir", netshape.DefaultDir, "where it is kept what was done, and what was there before")
}

func (o *netshapeOptions) addIfaceFlags(fs *pflag.FlagSet) {
	o.addDirFlag(fs)
	addConfigFlags(fs)
	fs.StringArrayVar(&o.ifaces, "iface", nil, "the uplink's `NAME`; may be given again (default: those of netshape.interfaces)")
}

// addRateFlags adds the flags that say what an interface shall be like.
func (o *netshapeOptions) addRateFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kind, "kind", "", "its queue: cake, fq_codel (below an htb) or none, with which classes are marked and nothing is shaped (default cake)")
	fs.StringVar(&o.up, "up", "", "`RATE` of what goes out, below what the uplink carries: 9mbit, \"90% of 10mbit\", or unlimited, which has no effect on the delay in the modem or dish")
	fs.StringVar(&o.down, "down", "", "`RATE` of what comes in; left alone without")
	fs.StringVar(&o.profile, "profile", "", "what the link is: leo, geo or lte")
	fs.StringVar(&o.diffserv, "diffserv", "", "how the queue tells traffic apart: besteffort, diffserv3, diffserv4, diffserv8 or precedence (default diffserv4)")
	fs.StringVar(&o.rtt, "rtt", "", "`TIME` to the servers and back, 1ms to 10s; 0s: the profile's, or 100ms")
	fs.StringVar(&o.overhead, "overhead", "", "`BYTES` that the link adds to each packet, for cake; 38 is that of Ethernet (default: the profile's)")
	fs.StringVar(&o.ackFilter, "ack-filter", "", "whether cake thins out acks: on, off, aggressive or auto, which does where --down is over ten times --up (default auto)")
}

// rated tells that flags say what an interface shall be like.
func (o *netshapeOptions) rated() bool {
	return o.kind+o.up+o.down+o.profile+o.diffserv+o.rtt+o.overhead+o.ackFilter != ""
}

// addApplyFlags adds those of plan and apply, which take the same.
func (o *netshapeOptions) addApplyFlags(fs *pflag.FlagSet) {
	o.addIfaceFlags(fs)
	o.addRateFlags(fs)
	fs.BoolVar(&o.force, "force", false, "replace what others set up")
	o.addConfirmFlags(fs, time.Minute)
}

func (o *netshapeOptions) addConfirmFlags(fs *pflag.FlagSet, within time.Duration) {
	fs.DurationVar(&o.within, "confirm-within", within, "take everything back after that time unless it is confirmed; 0: no confirmation")
	fs.StringArrayVar(&o.targets, "target", nil, "`HOST:PORT` that has to answer as before the change, which confirms it; may be given again: more than half have to")
}

// keptDir is where what was confirmed outlives a reboot when the state is in
// [netshape.DefaultDir]; else it is below the state.
const keptDir = "/var/lib/trafficup/netshape"

// shaper is the machine whose queues are meant.
func (o *netshapeOptions) shaper(sys *system) (*netshape.Machine, error) {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, &failure{exitFailed, "", err}
	}
	keep := filepath.Join(dir, "kept")
	if dir == netshape.DefaultDir {
		keep = keptDir
	}
	local := sys.machine
	if local == nil {
		local = localMachine
	}
	m, err := local(dir, keep, "netshape", "rollback", "ID", "--after", "AFTER", "--state-dir", dir)
	if err != nil {
		return nil, &failure{exitFailed, "", err}
	}
	m.Warn = func(text string) { fmt.Fprintf(sys.stderr, "trafficup: warning: %s\n", printable(text)) }
	return m, nil
}

// names are the interfaces that are meant: those of flags, or else those of the
// configuration. There may be none.
func (o *netshapeOptions) names(c Config) (names []string, err error) {
	for _, name := range o.ifaces {
		if err := netshape.CheckName(name); err != nil {
			return nil, usageError("ip link shows the interfaces that there are", "--iface: %w", err)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		for _, i := range c.Netshape.Interfaces {
			names = append(names, i.Name)
		}
	}
	return names, nil
}

// desired is what flags and configuration want.
func (o *netshapeOptions) desired(c Config) (d netshape.Desired, err error) {
	names, err := o.names(c)
	if err != nil {
		return d, err
	}
	if len(names) == 0 {
		return d, usageError("give --iface NAME, or netshape.interfaces in the configuration", "no interface is named")
	}
	for _, name := range names {
		said := c.shaped(name)
		said.Name = name
		spec, err := specOf(said)
		if err != nil {
			return d, usageError("trafficup config check", "%w", err)
		}
		i, err := o.parse(spec)
		if err != nil {
			return d, usageError("for example: trafficup netshape plan --iface "+quoted(name)+" --kind cake --up 9mbit", "%w", err)
		}
		d.Interfaces = append(d.Interfaces, i)
	}
	d.Classes, d.Mask, err = c.trafficClasses()
	return d, err
}

// parse is what the flags make of a spec of the configuration.
func (o *netshapeOptions) parse(s netshape.Spec) (netshape.Interface, error) {
	if err := o.over(&s); err != nil {
		return netshape.Interface{}, fmt.Errorf("%s: %w", s.Name, err)
	}
	return parseInterface(s)
}

// over puts the flags over a spec of the configuration.
func (o *netshapeOptions) over(s *netshape.Spec) (err error) {
	// What the configuration says of another kind is left out; what a flag says is refused.
	if o.kind == netshape.None {
		s.Up, s.Down = "", ""
	}
	if o.kind != "" && o.kind != netshape.KindCake {
		s.Overhead, s.AckFilter = nil, ""
	}
	for _, f := range []struct {
		to   *string
		flag string
	}{{&s.Kind, o.kind}, {&s.Up, o.up}, {&s.Down, o.down}, {&s.Profile, o.profile}, {&s.Diffserv, o.diffserv}, {&s.AckFilter, o.ackFilter}} {
		if f.flag != "" {
			*f.to = f.flag
		}
	}
	if o.rtt != "" {
		if s.RTT, err = config.ParseDuration(o.rtt); err != nil {
			return fmt.Errorf("rtt %q: %w", o.rtt, err)
		}
	}
	return setOverhead(s, o.overhead)
}

// parseInterface is netshape.Parse for people, who may leave out the kind but not
// forget the rate.
func parseInterface(s netshape.Spec) (netshape.Interface, error) {
	if s.Kind == "" {
		s.Kind = netshape.KindCake
	}
	i, err := netshape.Parse(s)
	if err == nil && s.Kind == netshape.KindCake && s.Up == "" {
		err = fmt.Errorf("%s: up is missing: give 80%% to 95%% of what the uplink carries, such as 9mbit; unlimited is possible and has no effect on the delay in the modem or dish", s.Name)
	}
	return i, err
}
