package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"trafficup/internal/netshape"
	"trafficup/internal/tc"
)

func newNetshapeStatusCommand(sys *system, asJSON *bool) *cobra.Command {
	var o netshapeOptions
	var g gaugeOptions
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show what stands, its counters, and how it differs from what was applied",
		Long: `Read back queues, rates, counters by tin and marks, and say how what stands differs
from what was applied. Only reads. Without --iface: the interfaces of the
configuration and those that were shaped. The code is 0 whatever there is to see.

With --watch a line each second for one interface: its rate, what was sent and waits,
and under load the delay to --target. Where that rises and nothing waits here, the
rate is above the link's, which is told. A signal ends it, code 0.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{withoutConfig: "yes"},
		RunE: func(*cobra.Command, []string) error {
			m, err := o.shaper(sys)
			if err != nil {
				return err
			}
			s, err := o.status(sys, m)
			if err != nil {
				return err
			}
			if watch {
				return g.followOne(sys, m, s, *asJSON)
			}
			if g.target != "" {
				return usageError("give --watch, too, or leave it out", "--target is for --watch")
			}
			if *asJSON {
				return writeJSON(sys, struct {
					Type string `json:"message_type"`
					netshape.Status
				}{"status", s})
			}
			return unheard(writeStatus(sys.stdout, s, stateFlag(o.dir)))
		},
	}
	o.addIfaceFlags(cmd.Flags())
	cmd.Flags().BoolVar(&watch, "watch", false, "look each second, until a signal comes; needs --target")
	g.addTargetFlag(cmd.Flags(), "whose delay --watch looks at")
	return cmd
}

// followOne follows the one interface that is shaped.
func (g *gaugeOptions) followOne(sys *system, m *netshape.Machine, s netshape.Status, asJSON bool) error {
	var names []string
	for _, i := range s.Interfaces {
		if i.Ours {
			names = append(names, i.Name)
		}
	}
	switch len(names) {
	case 0:
		return usageError("trafficup netshape apply", "there is nothing to watch: no interface is shaped")
	case 1:
		return g.follow(sys, m, names[0], asJSON)
	}
	return usageError("choose one with --iface: "+strings.Join(names, ", "), "--watch is for one interface at a time")
}

// status is that of the interfaces named; where none is, of those in the
// configuration and those with something of ours.
func (o *netshapeOptions) status(sys *system, m *netshape.Machine) (s netshape.Status, err error) {
	names, err := o.names(sys.config)
	if err != nil {
		return s, err
	}
	seen, err := m.Observe()
	if err != nil {
		return s, &failure{exitFailed, "", err}
	}
	all := slices.Clone(names)
	if len(o.ifaces) == 0 {
		kept, _, err := m.Kept()
		if err != nil && !errors.Is(err, netshape.ErrUnreadable) {
			return s, &failure{exitFailed, "", err}
		}
		for _, i := range kept.Interfaces {
			all = append(all, i.Name)
		}
		all = append(all, seen.Names...)
	}
	slices.Sort(all)
	if s, err = m.Status(slices.Compact(all)...); err != nil {
		return s, &failure{exitFailed, "", err}
	}
	s.Interfaces = slices.DeleteFunc(s.Interfaces, func(i netshape.InterfaceStatus) bool {
		helper := strings.HasPrefix(i.Name, "ifb4") // what comes in at another is led through it
		return i.Wanted == nil && (!i.Ours || helper) && i.Ingress == nil && !slices.Contains(names, i.Name)
	})
	for _, i := range s.Interfaces {
		if slices.Contains(o.ifaces, i.Name) && !i.Present && i.Wanted == nil {
			return s, usageError("there are: "+strings.Join(seen.Names, ", "), "refused: there is no interface %s", i.Name)
		}
	}
	return s, nil
}

// shaped are the interfaces that clear is for. There may be none.
func (o *netshapeOptions) shaped(sys *system, m *netshape.Machine) (names []string, err error) {
	s, err := o.status(sys, m)
	for _, i := range s.Interfaces {
		names = append(names, i.Name)
	}
	return names, err
}

func writeStatus(w io.Writer, s netshape.Status, dirFlag string) error {
	var b strings.Builder
	for _, i := range s.Interfaces {
		writeInterface(&b, i, s.Unreadable == "")
	}
	if s.Unreadable != "" {
		fmt.Fprintf(&b, "state    not known what was applied, waits or drifted: %s; run it as the user who applied, or as root\n", s.Unreadable)
	} else if len(s.Interfaces) == 0 {
		b.WriteString("no interface is shaped\n")
	}
	writeMarks(&b, s)
	if p := s.Pending; p != nil {
		fmt.Fprintf(&b, "waiting  taken back at %s unless: trafficup netshape confirm %s%s\n", p.Until.Local().Format(clockAndZone), p.ID, dirFlag)
	}
	if s.Rollbacks > 0 {
		fmt.Fprintf(&b, "rolled back %d times since boot\n", s.Rollbacks)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeInterface writes of an interface; known says that the state could be read.
func writeInterface(b *strings.Builder, i netshape.InterfaceStatus, known bool) {
	state := ""
	if !i.Present {
		state = "  (not there)"
	} else if !i.Up {
		state = "  (down)"
	}
	fmt.Fprintf(b, "%s%s\n", i.Name, state)
	if i.Present {
		if a := i.Autorate; a != nil {
			i.Root.Text += autorateNote(*a)
		}
		writeQueue(b, "out", i.Root)
		if i.Ingress != nil {
			writeQueue(b, "in", *i.Ingress)
		}
	}
	if i.Wanted != nil {
		fmt.Fprintf(b, "  applied  %s\n", i.Since.Local().Format(timeAndZone))
	} else if i.Present && known {
		b.WriteString("  applied  nothing by this program\n")
	}
	for _, d := range i.Drift {
		fmt.Fprintf(b, "  drift    %s\n", d)
	}
}

// autorateNote says why a rate is not the one that was applied.
func autorateNote(a netshape.AutorateStatus) string {
	if a.Lowered.IsZero() {
		return fmt.Sprintf("  (autorate: %s to %s)", netshape.FormatRate(a.Min), netshape.FormatRate(a.Applied))
	}
	return fmt.Sprintf("  (autorate: lowered from %s at %s)", netshape.FormatRate(a.Applied), a.Lowered.Local().Format(timeAndZone))
}

func writeQueue(b *strings.Builder, way string, q netshape.QueueStatus) {
	fmt.Fprintf(b, "  %-8s %s\n", way, q.Text)
	fmt.Fprintf(b, "           sent %s packets, %s bytes; dropped %d; marked %d; waiting %d packets, %d bytes\n",
		thousands(int64(q.Stats.Packets)), thousands(int64(q.Stats.Bytes)), q.Stats.Drops, q.Stats.Marked, q.Stats.Queued, q.Stats.Backlog)
	if len(q.Tins) == 0 {
		return
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\ttin\tpackets\tbytes\tdropped\tacks dropped\tmarked\twaiting\tdelay avg\tpeak\tbase\tflows\t")
	for _, n := range q.Tins {
		fmt.Fprintf(t, "\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%v\t%d\t\n", n.Name, n.Packets, n.Bytes, n.Dropped, n.AcksDropped, n.Marked, n.Backlog, n.AvgDelay, n.PeakDelay, n.BaseDelay, flows(n))
	}
	_ = t.Flush() // to memory
}

func flows(t tc.Tin) uint32 { return t.SparseFlows + t.BulkFlows + t.UnresponsiveFlows }

func writeMarks(b *strings.Builder, s netshape.Status) {
	if s.Denied != "" {
		fmt.Fprintf(b, "marks    cannot be read: %s\n", s.Denied)
		return
	}
	for _, c := range s.Marks.Classes {
		what := " left marked"
		if c.Class == netshape.NoClass {
			c.Class, what = "of no class", ""
		}
		fmt.Fprintf(b, "marks    %-12s %s packets, %s bytes%s; sent here %s, from the LAN %s\n", c.Class,
			thousands(int64(c.Packets)), thousands(int64(c.Bytes)), what, thousands(int64(c.Here.Packets)), thousands(int64(c.LAN.Packets)))
	}
	if s.Marks.Drift != "" {
		fmt.Fprintf(b, "marks    drift: %s\n", s.Marks.Drift)
	}
}
