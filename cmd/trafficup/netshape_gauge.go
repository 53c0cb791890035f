package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"trafficup/internal/config"
	"trafficup/internal/netshape"
)

// gaugeOptions are the flags of what looks at an uplink each second.
type gaugeOptions struct {
	target   string
	autorate bool
	fixed    bool // --autorate=false
	min      string
}

func (g *gaugeOptions) addTargetFlag(fs *pflag.FlagSet, use string) {
	fs.StringVar(&g.target, "target", "", "`HOST:PORT` behind the uplink, or icmp:HOST, "+use+" (default: the interface's target in the configuration)")
}

func (g *gaugeOptions) addAutorateFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&g.autorate, "autorate", false, "fit the rate of what goes out to the link: cut it when load raises the delay to --target, and let it back; of one interface; needs --min and --target (default: where the interface has autorate_min in the configuration)")
	fs.StringVar(&g.min, "min", "", "`RATE` that --autorate does not go below; what was applied is the highest (default: the interface's autorate_min)")
	g.addTargetFlag(fs, "whose delay --autorate goes by")
}

// over are the flags over what the configuration says of an interface.
func (g gaugeOptions) over(i config.ShapedInterface) gaugeOptions {
	g.target, g.min = cmp.Or(g.target, i.Target), cmp.Or(g.min, i.AutorateMin)
	g.autorate = g.autorate || i.AutorateMin != "" && !g.fixed
	return g
}

// gauges are of those of names whose rate is to be fitted to the link.
func (g gaugeOptions) gauges(c Config, names []string) (all []netshape.Gauge, err error) {
	given := g.autorate || g.target != "" || g.min != ""
	if given && len(names) != 1 {
		return nil, usageError("choose one with --iface: "+strings.Join(names, ", "), "--autorate, --min and --target are for one interface at a time")
	}
	for _, name := range names {
		at := g.over(c.shaped(name))
		if !at.autorate {
			continue
		}
		gauge, err := at.gauge(name)
		if err != nil {
			return nil, err
		}
		gauge.Probe = lateProbe(at.target, name)
		all = append(all, gauge)
	}
	if given && len(all) == 0 {
		return nil, usageError("give --autorate, too, or leave them out", "--target and --min are for --autorate")
	}
	return all, nil
}

// gauge is what the flags ask for at an interface. It has no probe yet.
func (g *gaugeOptions) gauge(name string) (netshape.Gauge, error) {
	gauge := netshape.Gauge{Interface: name}
	if err := checkTarget("--target", g.target); err != nil {
		return gauge, err
	}
	if g.autorate {
		lowest, err := netshape.ParseRate(g.min)
		if err != nil {
			return gauge, usageError("give the least that the link carries in a bad hour, such as --min 2mbit", "--min: %w", err)
		}
		gauge.Min = lowest
	}
	return gauge, nil
}

// lateProbe is a probe that looks its target up when it is asked, and again after a
// failure: when the machine starts there may be neither a name server nor an address
// yet. It is for one goroutine.
func lateProbe(target, name string) netshape.Probe {
	var probe netshape.Probe
	return func(ctx context.Context) (took time.Duration, err error) {
		if probe == nil {
			if probe, err = netshape.NewProbe(ctx, target, name); err != nil {
				return 0, err
			}
		}
		if took, err = probe(ctx); err != nil {
			probe = nil
		}
		return took, err
	}
}

// follow shows readings until a signal comes or nobody reads them any more.
func (g *gaugeOptions) follow(sys *system, m *netshape.Machine, name string, asJSON bool) error {
	g.target = cmp.Or(g.target, sys.config.shaped(name).Target)
	gauge, err := g.gauge(name)
	if err != nil {
		return err
	}
	if gauge.Probe, err = netshape.NewProbe(sys.soft, g.target, name); err != nil {
		return &failure{exitFailed, "see that the target can be reached by this interface, or name another", err}
	}
	sys.graceful.Store(true)
	ctx, stop := context.WithCancel(sys.soft)
	defer stop()
	var broken error
	said := ""
	err = m.Gauge(ctx, gauge, func(r netshape.Reading) {
		if asJSON {
			broken = writeJSON(sys, struct {
				Type string `json:"message_type"`
				netshape.Reading
			}{"status", r})
		} else {
			broken = unheard(writeReading(sys.stdout, time.Now(), r))
			if r.TooHigh != "" && said == "" {
				fmt.Fprintf(sys.stderr, "trafficup: %s: %s; take 90%% of that: --up %s\n", name, printable(r.TooHigh), roughly(r.Carries/10*9))
			}
			said = r.TooHigh
		}
		if broken != nil {
			stop()
		}
	})
	if broken != nil {
		return broken
	}
	return err
}

func writeReading(w io.Writer, now time.Time, r netshape.Reading) error {
	line := now.Format(time.TimeOnly) + "  " + r.Interface
	if r.Rate == 0 {
		line += "  not shaped by this program"
	} else {
		line += fmt.Sprintf("  rate %s  sent %s  waiting %s bytes", roughly(r.Rate), roughly(r.Sent), thousands(int64(r.Backlog)))
	}
	switch {
	case r.Delay.Duration > 0:
		line += fmt.Sprintf("  delay %v", r.Delay.Round(100*time.Microsecond))
	case r.Asked:
		line += "  no answer"
	}
	switch {
	case r.Idle.Duration > 0:
		line += fmt.Sprintf("  idle %v", r.Idle.Round(100*time.Microsecond))
	case r.Assumed.Duration > 0:
		line += fmt.Sprintf("  idle delay not seen yet, taken as %v", r.Assumed.Round(time.Millisecond))
	}
	if r.TooHigh != "" {
		line += "  TOO HIGH"
	}
	if r.Error != "" {
		line += "  (" + printable(r.Error) + ")"
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// unshaped is how many seconds without a rate are no passing matter.
const unshaped = 30

// steer fits the rate to the link until ctx ends, and tells what changes.
func steer(ctx context.Context, m *netshape.Machine, g netshape.Gauge, tell func(netshape.Event)) {
	said, without := "", 0
	err := m.Gauge(ctx, g, func(r netshape.Reading) {
		var texts []string
		if r.Next != 0 {
			texts = append(texts, fmt.Sprintf("from %s to %s", netshape.FormatRate(r.Rate), netshape.FormatRate(r.Next)))
		}
		if trouble := r.TooHigh + r.Error; trouble != said {
			if said = trouble; trouble != "" {
				texts = append(texts, strings.Trim(r.TooHigh+"; "+r.Error, "; "))
			}
		}
		if r.Look != "" {
			texts = append(texts, r.Look)
		}
		if without++; r.Rate != 0 {
			without = 0
		} else if without == unshaped {
			texts = append(texts, "there is none to fit to the link: the interface is not shaped by this program, or without a rate")
		}
		if len(texts) > 0 {
			tell(netshape.Event{Interface: g.Interface, What: eventRate, Text: strings.Join(texts, ": ")})
		}
	})
	if err != nil {
		tell(netshape.Event{Interface: g.Interface, What: netshape.EventFailed, Text: "the rate that was applied does not come back: " + err.Error()})
	}
}

// eventRate is about a rate that is fitted to the link.
const eventRate = "rate"
