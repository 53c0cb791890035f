package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"trafficup/internal/edge"
	"trafficup/internal/failover"
)

func newFailoverExplainCommand(sys *system, asJSON *bool) *cobra.Command {
	var o failoverOptions
	last := 20
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "what happened last, and why",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if last < 1 || last > edge.History {
				return usageError("for example --last 20", "--last: want 1 to %d", edge.History)
			}
			store, _, err := o.report(sys)
			if err != nil {
				return err
			}
			all, err := store.Past()
			if err != nil {
				return &failure{exitFailed, "run it as root", err}
			}
			for _, t := range all[max(0, len(all)-last):] {
				if *asJSON {
					err = writeTold(sys, "record", t)
				} else {
					_, err = fmt.Fprintf(sys.stdout, "%s  %s\n", t.At.Local().Format(timeLayout), printable(happening(t.Event)))
				}
				if err != nil {
					return unheard(err)
				}
			}
			return nil
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().IntVar(&last, "last", last, "how many")
	return cmd
}

// happening is an event for people.
func happening(e failover.Event) string {
	expected := ""
	if e.Expected {
		expected = " (expected)"
	}
	switch e.What {
	case failover.EventSwitch:
		from := ""
		if e.From != "" {
			from = " after " + e.From
		}
		if e.After > 0 { // why is told with the verdict
			return fmt.Sprintf("switch: %s%s%s: %s is down", e.Uplink, from, expected, e.From)
		}
		return fmt.Sprintf("switch: %s%s%s: %s", e.Uplink, from, expected, e.Why)
	case failover.EventVerdict:
		why := ""
		if e.Why != "" {
			why = ": " + e.Why
		}
		return fmt.Sprintf("%s is %s%s%s", e.Uplink, e.Verdict, expected, why)
	case edge.EventChosen:
		if e.Uplink != "" {
			return fmt.Sprintf("chosen: %s, which is %s: %s", e.Uplink, e.Verdict, e.Why)
		}
	case failover.EventForced:
		return fmt.Sprintf("the choice of %s ends: %s", e.Uplink, e.Why)
	case failover.EventSome:
		return fmt.Sprintf("%s answers again", e.Uplink)
	}
	return fmt.Sprintf("%s: %s", e.What, e.Why)
}
