package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/breaker"
	"trafficup/internal/redis"
	"trafficup/internal/uploader"
)

func newBreakerCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "breaker",
		Short: "look at the breakers, and hold them open or closed",
		Long: `Look at the breakers of the paths, and hold them where a person wants them.

  to keep requests away from an API    open   nothing is sent
  to let them through                  close  everything is sent, whatever it answers
  to go back to normal                 reset  failures decide again

Maintenance of the API is a case for open.`,
	}
	cmd.AddCommand(
		newBreakerStatusCommand(sys, asJSON), newBreakerForceCommand(sys, asJSON, breaker.Open),
		newBreakerForceCommand(sys, asJSON, breaker.Closed), newBreakerResetCommand(sys, asJSON),
	)
	return cmd
}

func newBreakerStatusCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [PATH]",
		Short: "show how the breakers stand",
		Long: `Show the phase of each path's breaker, who forces it, how often it changed in the last
hour, and where it is kept. Only reads, also beside a running upload. Where no URL is configured or
given, the breakers that are kept in the state directory are shown.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return handle(sys, *asJSON, strings.Join(args, ""), handling{})
		},
	}
	addBreakerFlags(cmd.Flags())
	return cmd
}

type forceOptions struct {
	reason string
	period time.Duration
}

func newBreakerForceCommand(sys *system, asJSON *bool, phase breaker.Phase) *cobra.Command {
	var o forceOptions
	cmd := &cobra.Command{
		Use:   "open PATH",
		Short: "keep requests away: nothing is sent by a path for a time",
		Long: `Keep requests away from an API, for its maintenance say: nothing is sent. Hold the breaker of a path open: runs that use it, running ones too, send nothing by
it until the time is over, and then one request as a probe. A run that has no other
path waits, and ends after --halt-after.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return runBreakerForce(sys, *asJSON, strings.Join(args, ""), phase, o)
		},
	}
	if phase == breaker.Closed {
		cmd.Use, cmd.Short = "close PATH", "let requests through: everything is sent by a path for a time, whatever it answers"
		cmd.Long = `Let requests through: everything is sent, whatever the API answers. Failures do not
open the breaker of the path until the time is over, and runs that use it, running
ones too, send by it at their pace. To keep requests away, for maintenance say, use
open.`
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why: shown to everybody who meets it (must be given)")
	cmd.Flags().DurationVar(&o.period, "for", 15*time.Minute, "for how long, 1s to 24h")
	addBreakerFlags(cmd.Flags())
	return cmd
}

func newBreakerResetCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset [PATH]",
		Short: "go back to normal: forget failures and force",
		Long: `Go back to normal: close the breaker of a path, or of all, and forget what it counted and that it was
forced. A run that is at work goes on with it from there.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			by := operator(sys)
			return handle(sys, *asJSON, strings.Join(args, ""), handling{
				log:    func(breaker.State) string { return "breaker reset by " + by },
				change: breaker.Config{}.Reset,
			})
		},
	}
	addBreakerFlags(cmd.Flags())
	return cmd
}

// addBreakerFlags adds the options that say where the breakers are.
func addBreakerFlags(fs *pflag.FlagSet) {
	addStateFlags(fs)
	addOptionFlags(fs, []string{"api.primary", "api.fallback", "breaker.store", "redis"}, nil)
}

func runBreakerForce(sys *system, asJSON bool, path string, phase breaker.Phase, o forceOptions) error {
	switch {
	case strings.TrimSpace(o.reason) == "":
		return usageError("", "give --reason: everybody who meets the force is shown why")
	case len(o.reason) > breaker.MaxText:
		return usageError("", "--reason: %d bytes, at most %d", len(o.reason), breaker.MaxText)
	case printable(o.reason) != o.reason:
		return usageError("", "--reason: %s has characters that cannot be printed", printable(o.reason))
	case o.period < time.Second || o.period > breaker.MaxForce:
		return usageError("", "--for %s: from 1s to 24h", o.period)
	}
	f := breaker.Force{Phase: phase, Reason: o.reason, By: operator(sys)}
	return handle(sys, asJSON, path, handling{
		named: true,
		warn:  func(path string, was breaker.State) []string { return warnOfForce(path, phase, was) },
		log:   func(s breaker.State) string { return "breaker forced " + forceWords(s.Force) },
		change: func(s breaker.State, now time.Time) breaker.State {
			f.Until = now.Add(o.period)
			return breaker.Config{}.Force(s, f, now)
		},
	})
}

// warnOfForce says what speaks against the force.
func warnOfForce(path string, phase breaker.Phase, was breaker.State) []string {
	if phase != breaker.Closed || was.Phase == breaker.Closed || was.Force != (breaker.Force{}) {
		return nil
	}
	return []string{fmt.Sprintf("the breaker of %s was open since %s because the API was failing; now everything is sent, whatever it answers. To keep requests away: trafficup breaker open %s",
		path, stamp(was.Since), path)}
}

// operator is who runs the command.
func operator(sys *system) string {
	name := sys.getenv("SUDO_USER")
	if name == "" {
		name = fmt.Sprintf("uid %d", os.Getuid())
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return printable(name + "@" + host)
}

// handling is what is done with breakers.
type handling struct {
	named  bool                                               // only with the one that is named
	change func(s breaker.State, now time.Time) breaker.State // nil: only look
	log    func(s breaker.State) string                       // says what was done
	warn   func(path string, was breaker.State) []string      // says what speaks against it; nil: nothing ever does
}

// storePatience is how long a store may take.
const storePatience = 5 * time.Second

// handle does h with the breaker of a path, or with all where none is named, and
// shows how they stand then.
func handle(sys *system, asJSON bool, path string, h handling) error {
	c, st, err := lookAtBreakers(sys)
	if err != nil {
		return err
	}
	store, done, err := c.openBreakers(sys, st.breakers())
	if err != nil {
		return err
	}
	defer done()
	all, err := c.guardedPaths(st, path, h.named)
	if err != nil {
		return err
	}
	place := c.breakerPlace(st)
	if !asJSON {
		if _, err := fmt.Fprintln(sys.stdout, place.words(len(all))); err != nil {
			return unheard(err)
		}
	}
	log, closeLog, err := h.openLog(sys, c)
	if err != nil {
		return err
	}
	defer func() { _ = closeLog() }() // a line that is missing was told of
	ctx, cancel := context.WithTimeout(sys.soft, storePatience)
	defer cancel()
	for _, g := range all {
		now := time.Now()
		was, s, err := h.do(ctx, store, g.key, &now)
		if err != nil {
			return &failure{exitFailed, hintOfStore(err), fmt.Errorf("breaker of %s: %w", g.path, err)}
		}
		if log != nil {
			log.write(uploader.Event{At: time.Now(), Level: uploader.Warning, Path: g.path, Message: h.log(s)})
		}
		if err := g.show(sys, asJSON, place, s, now); err != nil {
			return unheard(err)
		}
		if h.warn != nil {
			sys.warn(h.warn(g.path, was)...)
		}
	}
	return nil
}

// lookAtBreakers returns the configuration, which it warns of, and the state directory.
func lookAtBreakers(sys *system) (Config, *state, error) {
	c, st, err := lookAt(sys)
	if err == nil && c.Upload.Sandbox != "" {
		err = usageError("", "runs against the stand-in keep their breakers in memory: there is nothing to look at")
	}
	if err == nil {
		sys.warn(c.breakerWarnings()...)
	}
	return c, st, err
}

// warn says what is wrong for a command that is no run.
func (s *system) warn(texts ...string) {
	for _, text := range texts {
		fmt.Fprintf(s.stderr, "trafficup: warning: %s\n", printable(text))
	}
}

// do changes a breaker, or looks at it. now becomes the store's clock.
func (h handling) do(ctx context.Context, store breaker.Store, key string, now *time.Time) (was, is breaker.State, err error) {
	if h.change == nil {
		is, err = store.Load(ctx, key)
		return is, is, err
	}
	is, err = store.Update(ctx, key, func(s breaker.State, clock time.Time) breaker.State {
		was, *now = s, clock
		return h.change(s, clock)
	})
	return was, is, err
}

// openLog opens the audit log for what is changed, if there is a file for it.
func (h handling) openLog(sys *system, c Config) (*auditLog, func() error, error) {
	if h.change == nil || c.Log.File == "" {
		return nil, func() error { return nil }, nil
	}
	return openLog(sys, c)
}

func hintOfStore(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "nothing has run there yet: is --state-dir the one of the uploads?"
	}
	if e, ok := errors.AsType[*redis.Error](err); ok {
		return e.Hint
	}
	return ""
}
