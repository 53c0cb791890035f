package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"trafficup/internal/failover"
)

// hookCall is one run of the program for a switch.
type hookCall struct {
	to      string // uplink
	command []string
	timeout time.Duration
	env     []string
}

// waitingHooks is how many calls may wait for the one before to end. More than that
// no link makes in the time of one; what is dropped is the oldest, as the last one
// says what stands.
const waitingHooks = 8

// hooks runs calls one after another, beside the loop, which never waits for them.
type hooks struct {
	sys    *system
	output io.Writer // of the program: what it leaves running may hold it
	calls  chan hookCall
	failed func() // one was dropped, or did not end well
}

func newHooks(sys *system, output io.Writer, failed func()) *hooks {
	return &hooks{sys, output, make(chan hookCall, waitingHooks), failed}
}

// add has a call run when those before it are done. One goroutine adds.
func (h *hooks) add(c hookCall) {
	for {
		select {
		case h.calls <- c:
			return
		default:
		}
		select {
		case old := <-h.calls:
			h.drop(old, "more than "+fmt.Sprint(waitingHooks)+" were waiting")
		default: // one just began
		}
	}
}

func (h *hooks) drop(c hookCall, why string) {
	h.failed()
	h.sys.warn(fmt.Sprintf("hook %s was not run for the switch to %s: %s", c.command[0], c.to, why))
}

// run runs calls until ctx ends. The one that runs then has one more second.
func (h *hooks) run(ctx context.Context) {
	for {
		select {
		case c := <-h.calls:
			h.call(ctx, c)
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	for len(h.calls) > 0 {
		h.drop(<-h.calls, "failover ended")
	}
}

var errHookEnds = errors.New("failover ended")

func (h *hooks) call(ctx context.Context, c hookCall) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	own, end := context.WithTimeoutCause(own, c.timeout, fmt.Errorf("it took longer than %v", c.timeout))
	defer end()
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(time.Second, func() { cancel(errHookEnds) })
	})
	defer stop()
	cmd := exec.CommandContext(own, c.command[0], c.command[1:]...)
	cmd.Env = c.env
	cmd.Stdout, cmd.Stderr = h.output, h.output
	cmd.WaitDelay = 500 * time.Millisecond // somebody who left the group may hold the output
	grouped(cmd)
	err := cmd.Run()
	if err == nil {
		return
	}
	if cause := context.Cause(own); cause != nil {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	h.failed()
	h.sys.warn(fmt.Sprintf("hook %s for the switch to %s: %v", c.command[0], c.to, err))
}

// hook has the program run for a switch, if there is one.
func (l *failoverLoop) hook(e failover.Event) {
	f := l.config.Failover
	if len(f.Hook) == 0 {
		return
	}
	metered := slices.ContainsFunc(l.setup.decide.Uplinks, func(u failover.Uplink) bool { return u.Name == e.Uplink && u.Metered })
	l.hooks.add(hookCall{e.Uplink, f.Hook, f.HookTimeout, append(hookEnviron(l.sys.environ),
		"FAILOVER_TO="+e.Uplink, "FAILOVER_FROM="+e.From, "FAILOVER_WHY="+e.Why,
		"FAILOVER_EXPECTED="+oneOrZero(e.Expected), "FAILOVER_METERED="+oneOrZero(metered))})
}

// hookEnviron is what of our environment is a hook's, too: it is not the one whom the
// service manager listens to.
func hookEnviron(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return name == "NOTIFY_SOCKET" || name == "WATCHDOG_USEC" || name == "WATCHDOG_PID" || strings.HasPrefix(name, "FAILOVER_")
	})
}

func oneOrZero(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
