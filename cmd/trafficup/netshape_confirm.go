package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trafficup/internal/netshape"
)

// How times are told: where this machine is, with the zone.
const (
	timeAndZone  = "2006-01-02 15:04:05 MST"
	clockAndZone = "15:04:05 MST"
)

// confirmation sees to it that a change is confirmed or taken back.
type confirmation struct {
	sys     *system
	machine *netshape.Machine
	within  time.Duration // 0: nothing is to be confirmed
	json    bool
	dir     string
	targets netshape.Targets
	// configured: they are those of the configuration, and for all uplinks.
	configured bool
	before     []netshape.Answer // of the targets, before the change
}

// askBefore asks the targets while all is as it was: those that do not answer now
// cannot confirm anything later.
func (c *confirmation) askBefore(targets []string, p netshape.Plan) error {
	if c.within == 0 || len(targets) == 0 {
		return nil
	}
	var names []string
	for _, s := range p.Steps {
		if s.Interface == "" { // the table of marks is of all
			names = p.Interfaces()
			break
		}
		names = append(names, s.Interface)
	}
	targets, err := c.behind(targets, names)
	if err != nil {
		return err
	}
	c.targets.Addrs = targets
	if peer := netshape.SSHPeer(c.sys.getenv("SSH_CONNECTION"), names); peer != "" {
		c.targets.Peers = []string{peer}
	}
	c.before = c.targets.Ask(c.sys.soft)
	if ok, why := c.targets.Judge(nil, c.before); !ok {
		return usageError("see that the targets can be reached now, name others, or leave them out and confirm by hand", "refused: the targets do not answer before any change: %s", why)
	}
	return nil
}

// behind are the targets that the interfaces can cut off; others would confirm
// whatever becomes of them. Of the configuration's, which are for all uplinks, those
// are left out; one that was named for this apply is refused.
func (c *confirmation) behind(targets, interfaces []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(c.sys.soft, 5*time.Second)
	defer cancel()
	list := netshape.Elsewhere(ctx, targets, interfaces)
	rest := slices.DeleteFunc(slices.Clone(targets), func(t string) bool { return slices.Contains(list, t) })
	if len(list) > 0 && (len(rest) == 0 || !c.configured) {
		return nil, usageError("name targets behind "+strings.Join(interfaces, ", ")+" (ip route get ADDRESS tells the way), or leave them out (--set netshape.targets=[]) and confirm by hand",
			"refused: the way to %s is not by %s: it would confirm anything", strings.Join(list, ", "), strings.Join(interfaces, ", "))
	}
	for _, name := range interfaces {
		if len(interfaces) > 1 && len(netshape.Elsewhere(ctx, rest, []string{name})) == len(rest) {
			fmt.Fprintf(c.sys.stderr, "trafficup: warning: no target is behind %s: those of other uplinks confirm its change, too; better apply it alone\n", name)
		}
	}
	return rest, nil
}

// settle ends an apply: it is confirmed by the targets, or it is told how.
func (c *confirmation) settle(done netshape.Applied) error {
	if done.ID == "" || len(c.targets.Addrs) == 0 {
		return c.tell(done, done.ID == "")
	}
	if !c.json {
		fmt.Fprintf(c.sys.stderr, "trafficup: applied; taken back at %s unless the targets answer as before\n", done.Until.Local().Format(clockAndZone))
	}
	// A little earlier than the other process, so that it is known here what became of it.
	ctx, cancel := context.WithDeadline(c.sys.soft, done.Until.Add(-c.within/20))
	defer cancel()
	err := c.machine.AutoConfirm(ctx, done.ID, c.targets, c.before)
	if err == nil {
		return c.tell(done, true)
	}
	if errors.Is(err, netshape.ErrNotKept) {
		return c.notKept(err)
	}
	// Whatever ended the wait, also a signal: nobody knows that it is well.
	did, back := c.machine.Rollback(context.WithoutCancel(c.sys.soft), done.ID)
	switch code := int(c.sys.signal.Load()); {
	case errors.Is(back, netshape.ErrNotRestored):
		return notRestored(errors.Join(err, back))
	case back != nil:
		return &failure{exitFailed, "the process that takes it back tries on; trafficup netshape status shows what stands", errors.Join(err, back)}
	case !did:
		return &failure{exitFailed, "trafficup netshape status shows what stands", fmt.Errorf("%w; somebody else confirmed it or took it back", err)}
	case code != 0:
		return &failure{exitSignal + code, "", errors.New("stopped by a signal before it was confirmed: all was taken back")}
	}
	return &failure{exitFailed, "choose a rate that the uplink carries, and see that the targets answer", fmt.Errorf("%w; all was taken back", err)}
}

// tell says what stands, and what there is to do.
func (c *confirmation) tell(done netshape.Applied, stays bool) error {
	if c.json {
		return writeJSON(c.sys, struct {
			Type      string    `json:"message_type"`
			Steps     int       `json:"steps"`
			ID        string    `json:"id,omitzero"`
			Until     time.Time `json:"until,omitzero"`
			Confirmed bool      `json:"confirmed"`
		}{"summary", done.Steps, done.ID, done.Until, stays})
	}
	text := ""
	switch {
	case done.Steps == 0:
		return nil // the plan said so
	case done.ID == "":
		text = "done"
	case stays:
		text = "done: the targets answer as before, confirmed"
	default:
		again := done.ID + stateFlag(c.dir)
		text = fmt.Sprintf("applied; all is taken back at %s unless you confirm:\n  trafficup netshape confirm %s\nor at once: trafficup netshape rollback %s", done.Until.Local().Format(clockAndZone), again, again)
	}
	_, err := fmt.Fprintln(c.sys.stdout, text)
	return unheard(err)
}

// stateFlag is the flag that another command needs to find the state.
func stateFlag(dir string) string {
	if dir == netshape.DefaultDir {
		return ""
	}
	return " --state-dir " + quoted(dir)
}

func newNetshapeConfirmCommand(sys *system, asJSON *bool) *cobra.Command {
	var o netshapeOptions
	cmd := &cobra.Command{
		Use:   "confirm [ID]",
		Short: "let stay what was applied, also after a reboot",
		Long:  "Let stay what an apply changed. Without ID: the one that waits, of which there is one at most.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			m, id, err := o.waiting(sys, args)
			if err != nil {
				return err
			}
			if err := m.Confirm(sys.soft, id); errors.Is(err, netshape.ErrNoPending) {
				return nothingWaits(id)
			} else if errors.Is(err, netshape.ErrNotKept) {
				return (&confirmation{machine: m}).notKept(err)
			} else if err != nil {
				return &failure{exitFailed, "trafficup netshape status shows what stands", err}
			}
			return said(sys, *asJSON, "confirmed", id)
		},
	}
	o.addDirFlag(cmd.Flags())
	return cmd
}

func newNetshapeRollbackCommand(sys *system, asJSON *bool) *cobra.Command {
	var o netshapeOptions
	var after time.Duration
	cmd := &cobra.Command{
		Use:   "rollback [ID]",
		Short: "take back what was applied and waits for confirmation",
		Long:  "Take back what an apply changed, as happens by itself when nobody confirms it. Without\nID: the one that waits, of which there is one at most.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if after > 0 && len(args) == 1 { // started by apply, before there is anything to take back
				m, err := o.shaper(sys)
				if err == nil {
					_, err = m.RollbackAfter(sys.soft, args[0], after)
				}
				return err
			}
			m, id, err := o.waiting(sys, args)
			if err != nil {
				return err
			}
			did, err := m.Rollback(sys.soft, id)
			switch {
			case errors.Is(err, netshape.ErrNotRestored):
				return notRestored(err)
			case err != nil:
				return &failure{exitFailed, "run the same command again", err}
			case !did:
				return nothingWaits(id)
			}
			return said(sys, *asJSON, "taken back", id)
		},
	}
	o.addDirFlag(cmd.Flags())
	cmd.Flags().DurationVar(&after, "after", 0, "wait that long for a confirmation first; needs the ID")
	return cmd
}

// waiting is the apply that args name, or else the one that waits.
func (o *netshapeOptions) waiting(sys *system, args []string) (m *netshape.Machine, id string, err error) {
	if m, err = o.shaper(sys); err != nil {
		return nil, "", err
	}
	seen, err := m.Observe()
	switch {
	case err != nil:
		return nil, "", &failure{exitFailed, "", err}
	case seen.Denied != nil:
		return nil, "", usageError("run it as root", "refused: %w", seen.Denied)
	case seen.Unreadable != nil:
		return nil, "", usageError("run it as the user who applied, or as root", "refused: %w", seen.Unreadable)
	case len(args) == 1:
		return m, strings.ToLower(args[0]), nil
	case seen.Pending == nil:
		return nil, "", nothingWaits("")
	}
	return m, seen.Pending.ID, nil
}

func nothingWaits(id string) error {
	text := "nothing waits for confirmation"
	if id != "" {
		text = fmt.Sprintf("nothing of the id %s waits for confirmation", id)
	}
	return usageError("it was confirmed or taken back: trafficup netshape status shows what stands", "%s", text)
}

func said(sys *system, asJSON bool, what, id string) error {
	if asJSON {
		return writeJSON(sys, struct {
			Type   string `json:"message_type"`
			ID     string `json:"id"`
			Result string `json:"result"`
		}{"summary", id, what})
	}
	_, err := fmt.Fprintf(sys.stdout, "%s: %s\n", what, id)
	return unheard(err)
}
