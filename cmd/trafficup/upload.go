package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/config"
	"trafficup/internal/deadletter"
	"trafficup/internal/sandbox"
	"trafficup/internal/source"
	"trafficup/internal/uploader"
)

// addRunFlags adds the options of a run; those of hidden sections and keys are
// taken and not shown in help.
func addRunFlags(fs *pflag.FlagSet, hidden ...string) {
	addConfigFlags(fs)
	addOptionFlags(fs, allOptions, hidden)
	f := fs.Lookup("sandbox")
	f.NoOptDefVal = "calm"
	f.Usage += ": " + strings.Join(sandbox.Names(), ", ") + ", or a file"
}

func newUploadCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upload FILE...|DIR|-",
		Short: "deliver traffic logs",
		Long: `Deliver traffic logs: NDJSON, JSON arrays, CSV or TSV, plain or compressed with
gzip or zstd. A directory stands for its *.ndjson *.json *.csv *.tsv files, - for
standard input.

Every option has three layers with one meaning: flag > environment > config
file > default. trafficup config init lists each with its key and variable.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runUpload(sys, repeatFlags(cmd.Flags()), *asJSON, args)
		},
	}
	addRunFlags(cmd.Flags())
	return cmd
}

func newValidateCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate FILE...|DIR|-",
		Short: "read and check traffic logs as upload does, sending nothing",
		Long: `Read and check traffic logs as upload does, sending nothing. Takes all flags of
upload, of which most make no difference and are not listed.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			sys.config.Upload.DryRun = true
			return runUpload(sys, "", *asJSON, args)
		},
	}
	addRunFlags(cmd.Flags(), "api", "retry", "breaker", "redis", "upload.shared_rate", "upload.priority", "upload.class", "upload.on_locked", "upload.key_ttl", "upload.request_timeout",
		"upload.connect_timeout", "upload.splay", "upload.poison_stop", "upload.fallback_warn", "upload.fallback_quota",
		"upload.canary_fallback", "upload.failback", "upload.on_metered", "upload.metered_quota", "upload.failover_state", "upload.sandbox", "upload.dry_run", "upload.max_concurrency")
	return cmd
}

// runUpload delivers the files of args; repeat are the flags that a command to
// go on with needs.
func runUpload(sys *system, repeat string, asJSON bool, args []string) error {
	c := sys.config
	validator, err := newValidator(c)
	if err != nil {
		return err
	}
	class := bulk
	if byHand(sys.terminal, sys.typing, args, fileSize) {
		class = interactive
	}
	_, err = deliver(sys, c, asJSON, delivery{
		command: "upload", class: class, repeat: repeat,
		open: func(st *state, u *ui) (uploader.Feed, error) {
			files, faults := source.Expand(args)
			feed := &fileFeed{
				files: files, faults: faults, validator: validator, whole: c.API.Body == "envelope", progress: u.readSoFar,
				opts: source.Options{
					Format: c.Upload.Format, DeriveKeys: c.Upload.DeriveKeys, Stdin: sys.stdin,
					Settle: c.Upload.Settle, Stop: sys.soft.Done(),
				},
			}
			return unknownFirst(feed.sized(), st.journal), nil
		},
	})
	return err
}

// repeatFlags returns those flags that say where to and with what rights, so
// that a hint can be pasted.
func repeatFlags(fs *pflag.FlagSet) string {
	var b strings.Builder
	for _, name := range []string{"config", "state-dir", "sandbox", "url", "fallback-url", "redis", "token-file", "body", "key-form"} {
		if f := fs.Lookup(name); f != nil && f.Changed {
			value := f.Value.String()
			if strings.HasSuffix(name, "url") || name == "redis" {
				value = config.Shown(value)
			}
			fmt.Fprintf(&b, " --%s=%s", name, quoted(value))
		}
	}
	return b.String()
}

// delivery is what one command delivers.
type delivery struct {
	command string // for the lock and the ledger
	class   string // of its packets
	repeat  string // flags that say where to, for hints
	// open is called once the state directory is held; its feed yields the records.
	open    func(st *state, u *ui) (uploader.Feed, error)
	observe func(uploader.Event) // hears every event; nil: nobody
	// after does what is left while the lock is held; code raises the exit code
	// where it weighs more, 0 leaves it. Not called in a dry run. nil: nothing.
	after func(st *state, s uploader.Summary, u *ui) (code int, err error)
}

// deliver runs one upload or replay, from a state directory it holds to the
// printed summary.
func deliver(sys *system, c Config, asJSON bool, d delivery) (uploader.Summary, error) {
	var none uploader.Summary
	now := time.Now()
	deadline, err := c.deadline(now)
	if err == nil {
		err = c.outlasts(deadline, now)
	}
	if err == nil && !c.Upload.DryRun {
		err = spread(sys, c.Upload.Splay)
	}
	if err != nil {
		return none, err
	}
	runID := newRunID(time.Now())
	st, err := openState(sys, c, d.command)
	if err != nil || st == nil {
		return none, err
	}
	defer st.close()
	if c.Upload.Sandbox != "" {
		stop, err := startSandbox(c)
		if err != nil {
			return none, err
		}
		defer stop()
	}
	if !c.Upload.DryRun && c.API.Primary == "" {
		return none, usageError("give --url, or try it without a server: --sandbox", "no URL to send to")
	}
	u, err := newUI(sys, c, asJSON)
	if err != nil {
		return none, err
	}
	defer u.close()
	for _, w := range c.Warnings {
		u.warn(w.String())
	}
	for _, w := range c.timeWarnings(now) {
		u.warn(w)
	}
	if !c.Upload.DryRun && c.Upload.Sandbox == "" {
		if err := st.openLedger(c, runID, d.command, now, u); err != nil {
			return none, err
		}
	}
	for _, w := range c.absentInterfaces() {
		u.warn(w)
	}
	if w := c.fitFiles(); w != "" && !c.Upload.DryRun {
		u.warn(w)
	}
	own := newLimiter(c.Upload.Rate, c.Upload.Burst)
	parts := uploader.Parts{Limiter: own, Journal: ledger{st.journal}, Observer: u, Rand: sys.random}
	if d.observe != nil {
		parts.Observer = both{u, d.observe}
	}
	w := deadletter.NewWriter(st.fs, filepath.Join(st.letters(), runID+".ndjson"))
	defer w.Close()
	r := new(route)
	if c.Upload.DryRun {
		parts.DeadLetters, parts.Limiter = noLetters{}, nil
		parts.Paths = []uploader.Path{dryPath()}
	} else {
		parts.DeadLetters = letters{w, runID, c.API.Body}
		mark := c.marking(d.class, u.warn)
		tokens, err := authorise(sys, c, st.dir, mark, u)
		if err != nil {
			return none, st.refused(c, runID, err)
		}
		if r, err = newRoute(routing{sys, c, d.command, st.dir, runID, tokens, deadline, mark, d.class, u}); err != nil {
			return none, st.refused(c, runID, err)
		}
		defer r.close()
		parts.Paths, parts.Chooser, parts.Meter, parts.Hold = r.paths, chooser{r.chooser, r.carrier}, r.hear, r.carrier
		parts.Waited, parts.Limiter, parts.Skew = r.meter.Waited, r.shared.limited(own), r.shared.clock.Correction
	}
	if parts.Feed, err = d.open(st, u); err != nil {
		return none, st.refused(c, runID, err)
	}
	sys.graceful.Store(true)
	notify("READY=1")
	u.start()
	stopNote := context.AfterFunc(sys.soft, func() {
		notify("STOPPING=1")
		u.stopping()
	})
	unwatch := r.watch(c, deadline, u)
	deaf := r.reread(sys, c, own, u)
	s, err := uploader.Run(sys.hard, sys.soft, uploaderConfig(c, now, deadline), parts)
	deaf()
	unwatch()
	stopNote()
	u.stop()
	if lerr := st.journal.Close(); lerr != nil && err == nil {
		err = fmt.Errorf("%w: ledger: %w", uploader.ErrLocal, lerr)
	}
	if gerr := w.Gone(); gerr != nil && err == nil {
		err = fmt.Errorf("%w: dead letters: %w", uploader.ErrLocal, gerr)
	}
	code := exitCode(s, err, int(sys.signal.Load()))
	if d.after != nil && !c.Upload.DryRun {
		more, aerr := d.after(st, s, u)
		code = heavier(code, more)
		if aerr != nil {
			err, code = fmt.Errorf("%w: %w", uploader.ErrLocal, aerr), exitFailed
		}
	}
	res := newResult(runID, s, err, code, c.Upload.DryRun)
	res.repeat = d.repeat
	res.measured(r, u, s)
	if absent := c.absentInterfaces(); len(absent) > 0 && s.Waiting() > 0 && res.ExitCode == exitWaiting {
		res.stopHint = absent[0] + "; when it is there, run the same command again: every record keeps its key"
	}
	if c.Upload.DryRun {
		res.foresee(st, c, time.Now(), deadline)
	}
	if w.Count() > 0 {
		res.DeadLetters = w.Path()
	}
	return s, conclude(st, u, res, err)
}

// refused leaves a report of a run that ended before its first record, so that it
// does not pass for one that was cut off, and returns err. A dry run and one
// against the stand-in have begun nothing in the ledger and leave none.
func (s *state) refused(c Config, runID string, err error) error {
	if c.Upload.DryRun || c.Upload.Sandbox != "" {
		return err
	}
	code, _ := explain(err)
	if r, ok := errors.AsType[reported](err); ok {
		code = int(r)
	}
	res := newResult(runID, uploader.Summary{}, err, code, false)
	switch code {
	case exitOK:
		res.Result = "complete: there was nothing to do"
	case exitUsage:
		res.Result = "refused: " + printable(err.Error())
	}
	_, _ = saveReport(s, res) // err weighs more
	return err
}

// spread waits at random up to splay, so that a fleet does not start as one.
func spread(sys *system, splay time.Duration) error {
	if splay <= 0 {
		return nil
	}
	select {
	case <-time.After(time.Duration(sys.random() * float64(splay))):
		return nil
	case <-sys.soft.Done():
		return &failure{exitSignal + int(sys.signal.Load()), "", errors.New("stopped by a signal before the start")}
	}
}

// conclude saves and prints what became of the run, and turns it into an error
// that carries its code.
func conclude(st *state, u *ui, res result, err error) error {
	var unsaved error
	if !res.DryRun {
		if res.report, unsaved = saveReport(st, res); unsaved != nil {
			res.report, res.ExitCode = "", exitFailed
		}
	}
	u.summary(res)
	switch {
	case unsaved != nil:
		return &failure{exitFailed, localHint(unsaved), fmt.Errorf("write report: %w", unsaved)}
	case res.ExitCode == exitOK:
		return nil
	case errors.Is(err, uploader.ErrLocal):
		return err
	}
	return concluded{reported(res.ExitCode), res.Result, res.hint()}
}

// both lets a second observer hear a run.
type both struct {
	uploader.Observer
	second func(uploader.Event)
}

func (b both) Event(e uploader.Event) {
	b.Observer.Event(e)
	b.second(e)
}

// startSandbox serves a scenario on a free loopback port and points c at it.
func startSandbox(c Config) (stop func(), err error) {
	sc, err := sandbox.Builtin(c.Upload.Sandbox)
	if err != nil {
		return nil, usageError("", "sandbox: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	srv := &http.Server{Handler: sandbox.NewWith(sc, sandbox.Options{})}
	go srv.Serve(l)
	c.API.Primary, c.API.Fallback = "http://"+l.Addr().String()+"/v1/logs", ""
	// What a stand-in does is no news about the real API.
	c.Breaker.Store = "memory"
	c.Redis, c.Upload.SharedRate = config.Redis{}, 0
	c.API.Auth = config.Auth{} // nobody is shown a token
	return func() { srv.Close() }, nil
}

// dryPath takes everything and sends nothing.
func dryPath() uploader.Path {
	return uploader.Path{Name: "dry-run", Sender: drySender{}, Breaker: alwaysClosed{}, Gate: alwaysOpen{}, Budget: endless{}}
}

type (
	drySender    struct{}
	alwaysClosed struct{}
	alwaysOpen   struct{}
	endless      struct{}
	noLetters    struct{}
)

func (drySender) Send(context.Context, uploader.Attempt) uploader.Outcome { return uploader.Outcome{} }
func (alwaysClosed) Allow(time.Time) (func(uploader.Verdict, time.Time), time.Time, bool) {
	return func(uploader.Verdict, time.Time) {}, time.Time{}, true
}
func (alwaysOpen) Close(_, _ time.Time)                   {}
func (alwaysOpen) Delay(time.Time, float64) time.Duration { return 0 }
func (endless) Spend() bool                               { return true }
func (endless) Earn()                                     {}
func (endless) Remaining() float64                        { return 1 }
func (noLetters) Write(uploader.Letter) error             { return nil }
