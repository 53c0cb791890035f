package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"trafficup/internal/edge"
	"trafficup/internal/failover"
	routes "trafficup/internal/route"
)

func newFailoverDrillCommand(sys *system) *cobra.Command {
	var o failoverOptions
	length := 5 * time.Minute
	cmd := &cobra.Command{
		Use:   "drill UPLINK",
		Short: "have another uplink carry for a while, to know that it can",
		Long: `Have an uplink carry for a while, and go back by itself. One that does not answer is
not gone to, and one that fails meanwhile is left at once. Status 1 says that no
failover runs that could be asked.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return o.ask(sys, args[0], length, "a drill until "+time.Now().Add(length).Format("15:04:05 MST"))
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().DurationVar(&length, "for", length, "how long")
	return cmd
}

func newFailoverSwitchCommand(sys *system) *cobra.Command {
	var o failoverOptions
	why := ""
	length := 24 * time.Hour
	cmd := &cobra.Command{
		Use:   "switch UPLINK|auto",
		Short: "choose an uplink for a time, or let the rules choose again",
		Long: `Choose an uplink for a time, as long as it answers, or let the rules choose again.
Status 1 says that no failover runs that could be asked.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] == "auto" {
				return o.ask(sys, "", 0, "")
			}
			if why == "" {
				return usageError("for example: trafficup failover switch "+quoted(args[0])+` --reason "dish is being moved"`, "--reason: say why, for those who come after you")
			}
			return o.ask(sys, args[0], length, why)
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&why, "reason", "", "why, for status and those who come after you")
	cmd.Flags().DurationVar(&length, "for", length, "how long")
	return cmd
}

// longestChoice is for how long one may be made: who still wants it then makes it again.
const longestChoice = 7 * 24 * time.Hour

// ask leaves a request for the loop that runs.
func (o *failoverOptions) ask(sys *system, uplink string, length time.Duration, why string) error {
	setup, err := sys.config.failoverAsked()
	if err != nil {
		return err
	}
	if uplink != "" && !slices.ContainsFunc(setup.decide.Uplinks, func(u failover.Uplink) bool { return u.Name == uplink }) {
		return usageError("trafficup failover status", "there is no uplink %q: there are %s", uplink, names(setup.decide.Uplinks))
	}
	if uplink != "" && (length <= 0 || length > longestChoice) {
		return usageError("for example --for 10m", "--for %v: want a time above 0 and of at most 7 days (168h)", length)
	}
	store, _, err := o.report(sys)
	if err != nil {
		return err
	}
	running, err := loopRuns(store)
	if err == nil && !running {
		return &failure{exitFailed, "trafficup failover run", errors.New("no failover is running that could be asked")}
	}
	if err == nil {
		err = leave(store, uplink, length, why)
	}
	if err != nil {
		return &failure{exitFailed, "run it as root", err}
	}
	if uplink == "" {
		_, err = fmt.Fprintln(sys.stdout, "asked: the rules choose again")
	} else {
		_, err = fmt.Fprintf(sys.stdout, "asked: %s for %v, if it answers; trafficup failover status shows it\n", uplink, length)
	}
	return unheard(err)
}

// leave leaves a request in the directory; one for a time ends then, whenever it is
// found.
func leave(store edge.Store, uplink string, length time.Duration, why string) error {
	boot, since, err := edge.Boot()
	if err != nil {
		return err
	}
	store.Boot = boot
	if length > 0 {
		length += since()
	}
	return store.Ask(uplink, length, why)
}

func newFailoverRemoveCommand(sys *system) *cobra.Command {
	var o failoverOptions
	cmd := &cobra.Command{
		Use:   "remove",
		Short: "take away all routes and rules of failover, of one that does not run",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			store, err := o.store(sys)
			if err != nil {
				return &failure{exitFailed, "", err}
			}
			switch holder, err := loopHolder(store); {
			case err != nil:
				return &failure{exitFailed, "run it as root, or give the --state-dir that failover has", err}
			case holder != "":
				return &failure{exitLocked, "stop it first: systemctl stop trafficup-failover, or kill PID", fmt.Errorf("a failover is running, and would put them back: %s", holder)}
			}
			did, err := edge.Remove(sys.soft, routes.Default())
			if err != nil {
				return &failure{exitFailed, "run it as root, or give it CAP_NET_ADMIN", err}
			}
			if err := store.Removed(time.Now()); err != nil {
				sys.warn("status will say that the routes are still there: " + err.Error())
			}
			if did == "" {
				did = "nothing to do"
			}
			_, err = fmt.Fprintln(sys.stdout, did)
			return unheard(err)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}
