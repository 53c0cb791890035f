package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trafficup/internal/netshape"
)

func newNetshapePlanCommand(sys *system, asJSON *bool) *cobra.Command {
	var o netshapeOptions
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "say what apply would change, and change nothing",
		Long: `Read the kernel and print what apply would change: + adds, ~ changes, - removes;
below each step the commands of tc and nft that come to the same. What is refused
is told with the reason and the way out, and the code is 10 then.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, p, err := o.proposal(sys)
			if err != nil {
				return err
			}
			if *asJSON {
				err = printPlan(sys, p)
			} else {
				err = p.WriteText(sys.stdout)
			}
			if err == nil && len(p.Refusals) > 0 {
				return concluded{exitUsage, (&netshape.RefusedError{Refusals: p.Refusals}).Error(), hintsOf(p.Refusals)}
			}
			return unheard(err)
		},
	}
	o.addApplyFlags(cmd.Flags())
	return cmd
}

func newNetshapeApplyCommand(sys *system, asJSON *bool) *cobra.Command {
	var o netshapeOptions
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "do what plan says, and take it back unless it is confirmed",
		Long: `Do what plan says, all of it or nothing. What stands already is not touched. Unless
--confirm-within is 0, a process of its own takes everything back after that time if
nobody confirms: "trafficup netshape confirm", or the targets, when they answer three
times in a row as they did before. Where this is an ssh session by the interface, its
other end has to answer, too.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			m, p, err := o.proposal(sys)
			if err != nil {
				return err
			}
			o.within = sys.config.Netshape.ConfirmWithin
			return o.carryOut(sys, m, p, *asJSON)
		},
	}
	o.addApplyFlags(cmd.Flags())
	return cmd
}

func newNetshapeClearCommand(sys *system, asJSON *bool) *cobra.Command {
	var o netshapeOptions
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "put back what was there before the first apply",
		Long: `Put back what was there before the first apply, or the kernel's default, and take
the marks away. Without --iface: on all interfaces that were shaped. What others set
up since then stays. Needs no configuration, and goes on without one that is at fault.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{withoutConfig: "yes"},
		RunE: func(*cobra.Command, []string) error {
			m, err := o.shaper(sys)
			if err != nil {
				return err
			}
			names, err := o.shaped(sys, m)
			if err != nil {
				return err
			}
			seen, err := m.Observe(names...)
			if err != nil {
				return &failure{exitFailed, "", err}
			}
			return o.carryOut(sys, m, netshape.MakeClear(names, seen), *asJSON)
		},
	}
	o.addIfaceFlags(cmd.Flags())
	o.addConfirmFlags(cmd.Flags(), 0)
	return cmd
}

// proposal makes the plan of what flags and configuration want.
func (o *netshapeOptions) proposal(sys *system) (m *netshape.Machine, p netshape.Plan, err error) {
	d, err := o.desired(sys.config)
	if err != nil {
		return nil, p, err
	}
	if m, err = o.shaper(sys); err != nil {
		return nil, p, err
	}
	seen, err := m.Observe(d.Names()...)
	if err == nil {
		err = m.Collide(&seen, d)
	}
	if err != nil {
		return nil, p, &failure{exitFailed, "", err}
	}
	return m, netshape.Make(d, seen, o.force), nil
}

// carryOut does what p says, and sees to its confirmation.
func (o *netshapeOptions) carryOut(sys *system, m *netshape.Machine, p netshape.Plan, asJSON bool) error {
	configured := len(o.targets) == 0
	switch {
	case configured && o.within > 0:
		o.targets = sys.config.Netshape.Targets
	case len(o.targets) > 0 && o.within == 0:
		return usageError("give --confirm-within 60s, too, or leave out --target", "--target: there is nothing to confirm with --confirm-within 0")
	}
	if err := refusal(p.Refusals); err != nil {
		return err
	}
	show := p.WriteText
	if asJSON {
		show = func(io.Writer) error { return printPlan(sys, p) }
	}
	if err := show(sys.stdout); err != nil {
		return unheard(err)
	}
	c := confirmation{sys: sys, machine: m, within: o.within, json: asJSON, dir: o.dir, configured: configured}
	if len(p.Steps) > 0 {
		if err := c.askBefore(o.targets, p); err != nil {
			return err
		}
		if err := m.CanKeep(p); err != nil {
			return &failure{exitFailed, keepHint(m.Keep), fmt.Errorf("nothing was changed: what is confirmed could not be kept for the next boot: %w", err)}
		}
	}
	sys.graceful.Store(true) // a signal waits for a step to end, and for all to be undone
	done, err := m.Apply(sys.soft, p, o.within)
	if err != nil {
		return c.failed(err)
	}
	return c.settle(done)
}

func printPlan(sys *system, p netshape.Plan) error {
	return writeJSON(sys, struct {
		Type string        `json:"message_type"`
		Plan netshape.Plan `json:"plan"`
	}{"plan", p})
}

// writeJSON prints a line of JSON. Durations are nanoseconds.
func writeJSON(sys *system, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = sys.stdout.Write(append(line, '\n'))
	}
	return unheard(err)
}

// refusal is the error of a plan with refusals; nil if there are none.
func refusal(list []netshape.Refusal) error {
	if len(list) == 0 {
		return nil
	}
	var lines []string
	for _, r := range list {
		lines = append(lines, r.Text)
	}
	return &failure{exitUsage, hintsOf(list), fmt.Errorf("refused: %s", strings.Join(lines, "\n  "))}
}

func hintsOf(list []netshape.Refusal) string {
	var hints []string
	for _, r := range list {
		if !slices.Contains(hints, r.Hint) {
			hints = append(hints, r.Hint)
		}
	}
	return strings.Join(hints, "; ")
}

// keepHint is what to do where dir takes nothing.
func keepHint(dir string) string {
	return "make " + quoted(dir) + " writable, or give --state-dir DIR, to all commands of netshape, where all that is kept goes to DIR"
}

// failed says what became of an apply that did not work.
func (c *confirmation) failed(err error) error {
	if r, ok := errors.AsType[*netshape.RefusedError](err); ok {
		return refusal(r.Refusals)
	}
	switch code := int(c.sys.signal.Load()); {
	case errors.Is(err, netshape.ErrNotKept):
		return c.notKept(err)
	case code != 0 && errors.Is(err, context.Canceled):
		return &failure{exitSignal + code, "", fmt.Errorf("stopped by a signal: %w", err)}
	case errors.Is(err, netshape.ErrChanged):
		return &failure{exitFailed, "run the same command again", fmt.Errorf("nothing was changed: %w", err)}
	case errors.Is(err, netshape.ErrNotTaken):
		return &failure{exitFailed, "leave out the option that it names, or take another --kind", err}
	case errors.Is(err, netshape.ErrNotRestored):
		return notRestored(err)
	}
	return &failure{exitFailed, "trafficup netshape status shows what stands now", err}
}

// notRestored is for what others had set up and is lost.
func notRestored(err error) error {
	return &failure{exitFailed, "set up again what was there, by hand or by the service that did; nothing of this program stands in its place", err}
}

// notKept is for what stands, for good, as long as this boot lasts.
func (c *confirmation) notKept(err error) error {
	return &failure{exitFailed, "make " + quoted(c.machine.Keep) + " writable and run the same apply or clear again: that changes nothing else, and keeps it", err}
}
