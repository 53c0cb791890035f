package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"trafficup/internal/config"
	"trafficup/internal/edge"
	"trafficup/internal/failover"
)

// service is what the service manager is told.
type service struct {
	ready    atomic.Bool
	watchdog time.Duration // without a sign of life for so long we are killed; 0: nobody does
	says     *unhurried    // to it, which may not listen; nil: nobody does
}

// notified is the service manager, as a writer.
type notified struct{}

func (notified) Write(state []byte) (int, error) {
	notify(string(state))
	return len(state), nil
}

// begin has the manager told beside the loop, until the end.
func (s *service) begin() (end func()) {
	s.says = newUnhurried(notified{}, func(...string) {})
	return s.says.close
}

func (s *service) tell(state string) {
	if s.says != nil {
		_, _ = s.says.Write([]byte(state))
	}
}

func newService(sys *system) *service {
	patience, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		sys.warn("the service manager's WATCHDOG_USEC: " + err.Error())
	}
	return &service{watchdog: patience}
}

// impatient warns of a service manager that may kill a loop that is well: nothing is
// told before a round has ended.
func (s *service) impatient(r failover.Rules) string {
	if s.watchdog == 0 || r.Interval+r.Timeout <= s.watchdog/2 {
		return ""
	}
	return fmt.Sprintf("a round may take %v, and the service manager waits %v for one: set WatchdogSec= to %v at least, or failover.interval lower", r.Interval+r.Timeout, s.watchdog, 2*(r.Interval+r.Timeout))
}

// alive tells that this machine could ask somebody, and knows what came of it.
func (s *service) alive() {
	if s.watchdog > 0 {
		s.tell(daemon.SdNotifyWatchdog)
	}
}

// stands tells how it stands, and with the first decision that it is ready: that
// comes at the latest when the time is over that a start may take.
func (s *service) stands(r edge.Report) {
	if !s.ready.Load() && (r.Active != "" || r.State.AllDown) {
		s.ready.Store(true)
		s.tell(daemon.SdNotifyReady)
	}
	s.tell("STATUS=" + oneLine(r))
}

// reloads tells that the configuration is read again, until done is called.
func (s *service) reloads() (done func()) {
	if !s.ready.Load() {
		return func() {}
	}
	s.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	return func() { s.tell(daemon.SdNotifyReady) }
}

// stopping tells that the end has begun, as soon as it does.
func (s *service) stopping(ctx context.Context) {
	<-ctx.Done()
	s.tell(daemon.SdNotifyStopping)
}

// reread waits for a hangup that brings another configuration; nil: ctx ended before.
func (l *failoverLoop) reread(ctx context.Context) *failoverPlan {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.sys.hangups:
		}
		done := l.service.reloads()
		next, text := l.again()
		done()
		if text == "" {
			return &next
		}
		l.sys.warn(text)
	}
}

// again reads the configuration again, and says why that it was stays; "": it does
// not. What is known of uplinks goes by their place.
func (l *failoverLoop) again() (next failoverPlan, stays string) {
	const as = "the configuration stays as it was: "
	loaded, err := config.Load(l.sys.sources)
	if err != nil {
		return next, as + strings.ReplaceAll(err.Error(), "\n ", ";")
	}
	if next, err = l.plan(Config{loaded}); err != nil {
		return next, as + err.Error()
	}
	if unread := next.setup.unread(); len(unread) > 0 {
		return next, as + strings.Join(unread, "; ")
	}
	if before, after := names(l.setup.decide.Uplinks), names(next.setup.decide.Uplinks); before != after {
		return next, as + fmt.Sprintf("the uplinks were %s, and would be %s: systemctl restart, or stop it and start it again", before, after)
	}
	holds, waits := failoverChanges(l.config, next.config)
	if len(holds)+len(waits) == 0 {
		return next, "the configuration was read again: nothing about failover has changed"
	}
	for i, list := range [][]string{holds, waits} {
		if len(list) > 0 {
			l.sys.note([]string{"from now on: ", "with the next start: "}[i] + strings.Join(list, ", "))
		}
	}
	return next, ""
}

// failoverChanges lists what differs of what matters here: what holds at once, and
// what with the next start.
func failoverChanges(was, now Config) (holds, waits []string) {
	for _, o := range config.Options() {
		section, _, _ := strings.Cut(o.Key, ".")
		switch {
		case !slices.Contains([]string{"failover", "netshape"}, section) || now.Same(was.Loaded, o):
		case o.Key == "failover.metrics_listen", o.Key == "failover.record":
			waits = append(waits, o.Key+" "+now.Value(o.Key))
		default:
			holds = append(holds, o.Key+" "+now.Value(o.Key))
		}
	}
	return holds, waits
}

// oneLine is a report for a service manager.
func oneLine(r edge.Report) string {
	active := r.Active
	if active == "" {
		active = "none"
	}
	text := "active=" + active
	for i, u := range r.Uplinks {
		text += fmt.Sprintf(" %s=%s", u.Name, u.Verdict)
		if h := r.State.Health[i]; u.Name == r.Active && h.RTT > 0 {
			text += fmt.Sprintf(" rtt=%v loss=%.0f%%", h.RTT.Round(time.Millisecond), u.LossPct)
		}
	}
	return text
}

// note tells a person something that is no warning.
func (s *system) note(text string) { fmt.Fprintf(s.stderr, "trafficup: %s\n", printable(text)) }
