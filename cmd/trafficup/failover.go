package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/config"
	"trafficup/internal/edge"
	"trafficup/internal/failover"
	"trafficup/internal/probe"
	routes "trafficup/internal/route"
	"trafficup/internal/uplinkstate"
)

func newFailoverCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "failover",
		Short: "know which uplink works, and send what leaves by it",
		Long: `Ask targets by each uplink of failover.uplinks, and have the machine's traffic leave
by the preferred one that works. Routes and rules of others are left alone: run
adds tables and rules of its own, and what stands is theirs again when it is gone.
Linux only.`,
	}
	cmd.AddCommand(newFailoverRunCommand(sys, asJSON), newFailoverOnceCommand(sys, asJSON), newFailoverStatusCommand(sys, asJSON), newFailoverExplainCommand(sys, asJSON),
		newFailoverSwitchCommand(sys), newFailoverDrillCommand(sys), newFailoverRemoveCommand(sys), newFailoverSimulateCommand(sys, asJSON))
	return cmd
}

// failoverOptions are the flags of all subcommands.
type failoverOptions struct {
	dir      string
	shapeDir string // of run and once
}

func (o *failoverOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.dir, "state-dir", uplinkstate.DefaultDir, "where it is kept what is known")
	addConfigFlags(fs)
}

func (o *failoverOptions) store(sys *system) (edge.Store, error) {
	dir, err := filepath.Abs(o.dir)
	return edge.Store{FS: sys.fs, Dir: dir}, err
}

// failoverSetup is what the configuration says, as the parts take it.
type failoverSetup struct {
	decide  failover.Config
	layout  routes.Layout
	targets []probe.Target
	quorum  int
	bad     []netip.Prefix
	files   []calendarFile
}

// failoverSetup reads the section. Faults are told by their key.
func (c Config) failoverSetup(fault func(key, format string, a ...any)) (s failoverSetup) {
	f := c.Failover
	rules, err := failover.Preset(f.Preset)
	if err != nil {
		fault("failover.preset", "%v", err)
	}
	s.decide.Rules, s.layout, s.quorum = over(rules, f), routes.Default(), f.Quorum
	s.layout.V6, s.layout.Simple = f.IPv6, f.Simple
	if mask, err := parseMask(f.Mask); err != nil {
		fault("failover.mask", "%s: %v", f.Mask, err)
	} else if mask != 0 {
		s.layout.Mask = mask
	}
	for _, backup := range []bool{false, true} {
		for n, u := range f.Uplinks {
			if (u.Role == "backup") == backup {
				s.addUplink(u, fmt.Sprintf("failover.uplinks[%d]", n), fault)
			}
		}
	}
	for _, r := range s.layout.Numbered().Contradictions() {
		fault("failover.uplinks", "%s", r.Text)
	}
	s.addTargets(f, fault)
	if s.quorum > len(s.targets) {
		fault("failover.quorum", "%d of %d targets cannot be: write %d at most", s.quorum, len(s.targets), len(s.targets))
	}
	if s.quorum == 0 {
		s.quorum = len(s.targets)/2 + 1
	}
	return s
}

func (s *failoverSetup) addTargets(f config.Failover, fault func(key, format string, a ...any)) {
	for n, t := range f.Targets {
		target, err := probe.ParseTarget(probe.TargetSpec{ICMP: t.ICMP, TCP: t.TCP, DNS: t.DNS, HTTP: t.HTTP, Name: t.Name, Want: t.Want, Host: t.Host, Status: t.Status, Body: t.Body})
		at := fmt.Sprintf("failover.targets[%d]", n)
		switch {
		case err != nil:
			fault(at, "%v", err)
		case slices.Contains(s.targets, target):
			fault(at, "%v is asked already, and would count twice", target)
		case target.Addr.Addr().Is6() && !f.IPv6:
			fault(at, "%v is never reached without failover.ipv6: true", target)
		}
		s.targets = append(s.targets, target)
	}
	for n, text := range f.BadPrefixes {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			fault(fmt.Sprintf("failover.bad_prefixes[%d]", n), "%q is no prefix: write one such as 192.168.100.0/24", text)
		}
		s.bad = append(s.bad, p)
	}
}

// over are rules with what is configured in their place.
func over(r failover.Rules, f config.Failover) failover.Rules {
	r.Interval, r.Timeout = cmp.Or(f.Interval, r.Interval), cmp.Or(f.Timeout, r.Timeout)
	if f.Down > 0 { // the last rounds are as many more as they were, and 64 are remembered
		r.Of = min(r.Of-r.Down+f.Down, 64)
		r.Down, r.BadOf = f.Down, f.Down
	}
	r.Up, r.UpFor = cmp.Or(f.Up, r.Up), cmp.Or(f.UpFor, r.UpFor)
	r.Dwell, r.DwellMax = cmp.Or(f.Dwell, r.Dwell), cmp.Or(f.DwellMax, r.DwellMax)
	r.Lead, r.Grace = cmp.Or(f.Lead, r.Lead), cmp.Or(f.Grace, r.Grace)
	return r
}

// checkFailover finds the mistakes that need no look at the machine.
func (c Config) checkFailover() {
	s := c.failoverSetup(c.Fault)
	switch n := len(s.layout.Uplinks); {
	case n == 1:
		c.Fault("failover.uplinks", "one alone leaves nothing to choose: write another one")
	case n > 1 && len(s.targets) == 0:
		c.Fault("failover.targets", "nobody is asked whether an uplink works: write at least two, in networks of different owners")
	}
	if text := c.hookMissing(); text != "" {
		c.Warn("failover.hook", "%s", text)
	}
	c.checkJoined()
}

// hookMissing says that the program that runs after a switch is not there; "": it is,
// or none is to run.
func (c Config) hookMissing() string {
	if len(c.Failover.Hook) == 0 {
		return ""
	}
	if _, err := exec.LookPath(c.Failover.Hook[0]); err != nil {
		return fmt.Sprintf("nothing will run after a switch: %v", err)
	}
	return ""
}

// failover is the setup of a command that decides.
func (c Config) failover() (failoverSetup, error) {
	s, err := c.failoverAsked()
	if err == nil {
		s.open(time.Now())
	}
	return s, err
}

// failoverAsked is the setup of a command that needs to know uplinks and targets, and
// not when they are in maintenance by a file.
func (c Config) failoverAsked() (failoverSetup, error) {
	s := c.failoverSetup(func(string, string, ...any) {}) // told when it was read
	switch {
	case len(c.Files) == 0 && len(s.layout.Uplinks) == 0:
		return s, usageError("give --config FILE; trafficup config init writes an example", "no configuration file was found, in none of the usual places: %s", strings.Join(config.UsualPlaces(os.Environ()), ", "))
	case len(s.layout.Uplinks) < 2:
		return s, usageError("trafficup config init writes an example: failover.uplinks", "failover.uplinks: %d are configured, which leaves nothing to choose", len(s.layout.Uplinks))
	case len(s.targets) == 0:
		return s, usageError("trafficup config init writes an example: failover.targets", "failover.targets: nobody is asked")
	}
	return s, nil
}

// warnings are what is allowed and not wise.
func (s failoverSetup) warnings() (all []string) {
	if s.layout.Simple {
		all = append(all, "failover.simple: rules of others decide before it, answers to what comes in by the other uplink leave by the active one, and with a strict rp_filter the other uplink looks dead: sysctl -w net.ipv4.conf.all.rp_filter=2")
	}
	return slices.Concat(all, s.targetWarnings(), s.unreadWarnings())
}

// edgeTargets are the targets as the loop takes them. Connections and pages prove the
// same; pings and names something else. By an uplink that costs nothing all but pages
// are asked for each round: that only they fail is seen as soon as anything else.
func (s failoverSetup) edgeTargets() (all []edge.Target) {
	for _, t := range s.targets {
		e := edge.Target{Name: t.String(), Class: string(t.Kind), Metered: 10 * time.Second, Seldom: 10 * time.Minute}
		switch t.Kind {
		case probe.ICMP:
			e.Metered, e.Seldom = 0, 0
		case probe.HTTP:
			e.Class, e.Every = "tcp or http", 2*time.Second
		case probe.TCP:
			e.Class = "tcp or http"
		}
		all = append(all, e)
	}
	return all
}

func names(uplinks []failover.Uplink) string {
	var all []string
	for _, u := range uplinks {
		all = append(all, u.Name)
	}
	return strings.Join(all, ", ")
}
