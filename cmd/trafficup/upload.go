package main

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/atomicfile"
	"trafficup/internal/deadletter"
	"trafficup/internal/envelope"
	"trafficup/internal/sandbox"
	"trafficup/internal/source"
	"trafficup/internal/uploader"
)

// uploadOptions are the flags that say how a run shows itself.
type uploadOptions struct {
	sandbox  string
	dryRun   bool
	quiet    bool
	progress string
}

func (o *uploadOptions) addFlags(fs *pflag.FlagSet) {
	addConfigFlags(fs)
	fs.StringVar(&o.sandbox, "sandbox", "", "send to a stand-in API in this process; --sandbox=`SCENARIO` (with =) plays its faults: "+strings.Join(sandbox.Names(), ", ")+", or a file")
	fs.Lookup("sandbox").NoOptDefVal = "calm"
	fs.BoolVar(&o.dryRun, "dry-run", false, "read and validate, send nothing")
	fs.BoolVar(&o.quiet, "quiet", false, "print nothing when all went well")
	fs.StringVar(&o.progress, "progress", "auto", "auto, bar, plain, json or none")
}

func newUploadCommand(sys *system, asJSON *bool) *cobra.Command {
	var o uploadOptions
	cmd := &cobra.Command{
		Use:   "upload FILE...|DIR|-",
		Short: "deliver traffic logs",
		Long: `Deliver traffic logs: NDJSON, JSON arrays, CSV or TSV, plain or compressed with
gzip or zstd. A directory stands for its *.ndjson *.json *.csv *.tsv files, - for
standard input.

Every option has three layers with one meaning: flag > environment > config
file > default. --retry-after-cap is retry.retry_after_cap in the file and
$TRAFFICUP_RETRY_RETRY_AFTER_CAP in the environment.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runUpload(sys, cmd.Flags(), o, *asJSON, args)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func newValidateCommand(sys *system, asJSON *bool) *cobra.Command {
	o := uploadOptions{dryRun: true}
	cmd := &cobra.Command{
		Use:   "validate FILE...|DIR|-",
		Short: "read and check traffic logs as upload does, sending nothing",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dryRun = true
			return runUpload(sys, cmd.Flags(), o, *asJSON, args)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func newReplayCommand(sys *system, asJSON *bool) *cobra.Command {
	var o uploadOptions
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "send dead letters again, with the same keys and bytes",
		Long: `Send dead letters again, with the same keys and bytes. What fails again goes into
a new file; a file whose letters have all been taken is moved to archive/.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReplay(sys, cmd.Flags(), o, *asJSON, args)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func runUpload(sys *system, fs *pflag.FlagSet, o uploadOptions, asJSON bool, args []string) error {
	c, validator, err := loadRun(sys, fs)
	if err != nil {
		return err
	}
	files, faults := source.Expand(args)
	feed := &fileFeed{
		files: files, faults: faults, validator: validator, whole: c.API.Body == "envelope",
		opts: source.Options{Format: c.Upload.Format, DeriveKeys: c.Upload.DeriveKeys, Stdin: sys.stdin},
	}
	_, err = deliver(sys, c, o, asJSON, feed, func(p func(string, int64, int64)) { feed.progress = p })
	return err
}

// loadRun reads what a run needs to know before it opens its input.
func loadRun(sys *system, fs *pflag.FlagSet) (Config, *envelope.Validator, error) {
	c, err := loadConfig(fs, sys.getenv)
	if err != nil {
		return c, nil, err
	}
	v, err := newValidator(c)
	return c, v, err
}

func runReplay(sys *system, fs *pflag.FlagSet, o uploadOptions, asJSON bool, args []string) error {
	c, validator, err := loadRun(sys, fs)
	if err != nil {
		return err
	}
	for _, f := range args {
		if _, err := os.Stat(f); err != nil {
			return &failure{exitInput, "", err}
		}
	}
	feed := &letterFeed{files: args, validator: validator, whole: c.API.Body == "envelope"}
	s, err := deliver(sys, c, o, asJSON, feed, func(func(string, int64, int64)) {})
	if !s.InputEnded() || s.Halted > 0 || len(s.Faults) > 0 || s.LettersLost > 0 || o.dryRun {
		return err // letters that were not taken stay where they are
	}
	for _, f := range args {
		if _, aerr := deadletter.Archive(f); aerr != nil {
			return &failure{exitFailed, "move it away by hand: a second replay sends the same keys again", fmt.Errorf("archive %s: %w", f, aerr)}
		}
	}
	return err
}

// deliver runs one upload or replay from an open feed to the printed summary.
func deliver(sys *system, c Config, o uploadOptions, asJSON bool, feed uploader.Feed, onProgress func(func(string, int64, int64))) (uploader.Summary, error) {
	var none uploader.Summary
	now := time.Now()
	runID := newRunID(now)
	dir := ""
	var err error
	if !o.dryRun {
		if dir, err = stateDir(c, sys.getenv); err != nil {
			return none, err
		}
		unlock, err := atomicfile.TryLock(filepath.Join(dir, "lock"))
		if err != nil {
			return none, fmt.Errorf("state directory %s: %w", dir, err)
		}
		defer unlock()
	}
	token := ""
	if !o.dryRun && o.sandbox == "" { // neither shows it to anybody
		if token, err = readToken(c); err != nil {
			return none, err
		}
	}
	if o.sandbox != "" {
		stop, err := startSandbox(&c, o.sandbox)
		if err != nil {
			return none, err
		}
		defer stop()
	}
	u, err := newUI(sys, c, o, asJSON)
	if err != nil {
		return none, err
	}
	defer u.close()
	onProgress(u.readSoFar)

	parts := uploader.Parts{Feed: feed, Limiter: newLimiter(c), Observer: u, Rand: mathrand.Float64}
	w := deadletter.NewWriter(filepath.Join(dir, "deadletters", runID+".ndjson"))
	defer w.Close()
	if o.dryRun {
		parts.DeadLetters, parts.Limiter = noLetters{}, nil
		parts.Paths = []uploader.Path{dryPath()}
	} else {
		if c.API.Primary == "" {
			return none, usageError("give --url, or try it without a server: --sandbox", "no URL to send to")
		}
		parts.DeadLetters = letters{w, runID}
		paths, closeAll, err := newPaths(c, dir, runID, token, u)
		if err != nil {
			return none, err
		}
		defer closeAll()
		parts.Paths = paths
	}
	u.start()
	stopNote := context.AfterFunc(sys.soft, u.stopping)
	s, err := uploader.Run(sys.hard, sys.soft, uploaderConfig(c, now), parts)
	stopNote()
	u.stop()

	code := exitCode(s, err, int(sys.signal.Load()))
	res := newResult(runID, s, err, code, o.dryRun)
	if w.Count() > 0 {
		res.DeadLetters = w.Path()
	}
	var unsaved error
	if !o.dryRun {
		unsaved = saveReport(dir, res)
	}
	switch {
	case unsaved != nil:
		res.ExitCode = exitFailed
	case !o.dryRun:
		res.report = reportPath(dir, runID)
	}
	u.summary(res)
	if unsaved != nil {
		return s, &failure{exitFailed, "make room in the state directory, then run the same command again", fmt.Errorf("write report: %w", unsaved)}
	}
	if code == exitOK {
		return s, nil
	}
	if err != nil && errors.Is(err, uploader.ErrLocal) {
		return s, err
	}
	return s, reported(code)
}

// startSandbox serves a scenario on a free loopback port and points c at it.
func startSandbox(c *Config, name string) (stop func(), err error) {
	sc, err := sandbox.Builtin(name)
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
