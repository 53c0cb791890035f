package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"trafficup/internal/failover"
)

func newFailoverOnceCommand(sys *system, asJSON *bool) *cobra.Command {
	var o failoverOptions
	cmd := &cobra.Command{
		Use:   "once",
		Short: "look at the uplinks, set the routes and end: for cron, where no daemon is wanted",
		Long: `Look at all uplinks, from what is known of this boot on; have what leaves this machine
go by the preferred one that works; and print what status prints. Where all is well
it takes about a second, in doubt as long as the rules need to decide (half a minute
with the preset leo). What is seen counts on in the next run, so that run each minute
it fails over in the first run after an outage began, and goes back when the rules
are satisfied. Each run asks all uplinks, metered ones too. Connections that are cut
after a switch are cut at once, whatever flush_failover and flush_failback say above
zero. Looks are not recorded. A hook keeps no other run waiting, so that two may run at
once. Status 4 says that no uplink carries.`,
		Example: `  * * * * * root /usr/local/bin/trafficup failover once --config /etc/trafficup/trafficup.yaml >/dev/null`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, last, unlock, err := o.begin(sys, *asJSON)
			if err != nil {
				return err
			}
			sys.warn(l.setup.unreadWarnings()...)
			l.single(last)
			_ = unlock() // before hooks, which may take longer than the next run waits
			l.called()
			return l.verdict(sys)
		},
	}
	o.addFlags(cmd.Flags())
	o.addShapeFlag(cmd.Flags())
	addOptionFlags(cmd.Flags(), []string{"failover.preset"}, nil)
	return cmd
}

// single looks at the uplinks until that will do, and has all done that follows.
func (l *failoverLoop) single(last failover.State) {
	l.hooks = newHooks(l.sys, l.output, l.tally.HookFailed) // which run when all else has ended
	defer l.unhurried()()
	l.sys.graceful.Store(true)
	l.service, l.page = &service{}, &failoverPage{sys: l.sys, files: make(chan failoverFile, 1)}
	began := l.now().Boot
	l.enough = func(s failover.State) bool { return l.setup.decide.Settled(s, began, l.now()) }
	l.turn(last, nil)
	l.page.flush()
}

// called has the hooks run that wait.
func (l *failoverLoop) called() {
	for len(l.hooks.calls) > 0 {
		l.hooks.call(l.sys.soft, <-l.hooks.calls)
	}
}

// verdict prints how it stands.
func (l *failoverLoop) verdict(sys *system) (err error) {
	r := l.saved
	if l.asJSON {
		err = writeFailoverJSON(sys, r, false)
	} else {
		err = writeFailover(sys, r, true) // as it is, and not as it was
	}
	switch {
	case err != nil:
		return unheard(err)
	case l.unsaved != "":
		return &failure{exitFailed, "make room in " + l.store.Dir + ", or let it be written", fmt.Errorf("the state was not saved, and the next run knows nothing of this one: %s", l.unsaved)}
	case r.Astray != "":
		return &failure{exitFailed, "trafficup doctor --edge", fmt.Errorf("routes do not follow: %s", r.Astray)}
	case r.State.AllDown || r.Active == "":
		return &failure{exitWaiting, "trafficup failover explain", errors.New("no uplink carries: everything stays as it is")}
	}
	return nil
}
