package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/deadletter"
	"trafficup/internal/uploader"
)

func newDeadlettersCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deadletters",
		Short: "look at records that were not delivered, and give them up",
		Long: `Look at records that were not delivered, and give them up: those of the files, or
all that the state directory holds. Of several letters of one record only the
newest counts.`,
	}
	cmd.AddCommand(newListCommand(sys, asJSON), newShowCommand(sys, asJSON), newExportCommand(sys), newDropCommand(sys, asJSON))
	return cmd
}

// filterOptions are the flags that choose letters.
type filterOptions struct {
	reasons       []string
	statuses      []int
	station       string
	key, spot     string
	since, before string
}

// reasons are the buckets that letters come from.
var reasons = []uploader.Bucket{
	uploader.Invalids, uploader.Rejected, uploader.Conflict, uploader.Exhausted, uploader.Deferred, uploader.Unknown,
}

func (o *filterOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.reasons, "reason", nil, "only letters of these reasons: invalid, rejected, conflict, exhausted, deferred, unknown")
	fs.IntSliceVar(&o.statuses, "status", nil, "only letters whose last answer had one of these statuses")
	fs.StringVar(&o.station, "station", "", "only letters of this station")
	fs.StringVar(&o.key, "key", "", "only letters of the record with this `KEY`")
	fs.StringVar(&o.spot, "spot", "", "only letters of records with this `SPOT_ID`")
	fs.StringVar(&o.since, "since", "", "only letters not older than this: 36h, 2026-07-17 (UTC) or 2026-07-17T05:00:00Z")
	fs.StringVar(&o.before, "before", "", "only letters older than this, written as for --since")
}

func (o *filterOptions) none() bool {
	return len(o.reasons)+len(o.statuses) == 0 && o.station+o.key+o.spot+o.since+o.before == ""
}

func (o *filterOptions) filter(now time.Time) (f deadletter.Filter, err error) {
	for _, r := range o.reasons {
		if !slices.Contains(reasons, uploader.Bucket(r)) {
			return f, usageError("", "--reason %s: want invalid, rejected, conflict, exhausted, deferred or unknown", r)
		}
	}
	f = deadletter.Filter{Reasons: o.reasons, Statuses: o.statuses, Station: o.station, Key: o.key, SpotID: o.spot}
	if f.Since, err = moment("since", o.since, now); err != nil {
		return f, err
	}
	f.Before, err = moment("before", o.before, now)
	return f, err
}

// moment reads a time, or a duration before now. Empty is the zero time.
func moment(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usageError("", "--%s %s: want 36h, 2026-07-17 or 2026-07-17T05:00:00Z", flag, s)
}

// addStateFlags adds the options that say where the state directory is.
func addStateFlags(fs *pflag.FlagSet) {
	addConfigFlags(fs)
	addOptionFlags(fs, []string{"upload.state_dir"}, nil)
}

// box is the dead letters that a command looks at.
type box struct {
	sys     *system
	dir     string // of the state
	letters *deadletter.Scanner
	older   int // letters that were passed over for newer ones
	unread  int // lines and files that could not be read
	leftOut int // records that have no place in an export
}

// look opens the letters of the state directory without taking or making it.
func look(sys *system, args []string) (*box, error) {
	sys.config.Upload.DryRun = true
	st, err := openState(sys, sys.config, "")
	if err != nil {
		return nil, err
	}
	return openBox(sys, st, args)
}

func openBox(sys *system, st *state, args []string) (*box, error) {
	files, err := letterFiles(st, args)
	if err != nil {
		return nil, err
	}
	return &box{sys: sys, dir: st.dir, letters: deadletter.NewScanner(st.fs, files)}, nil
}

// each calls do with every letter that counts and matches. What cannot be read
// is named on stderr.
func (b *box) each(match func(deadletter.Letter) bool, do func(*deadletter.Entry) error) error {
	return b.scan(func(e *deadletter.Entry, err error) error {
		switch {
		case err != nil:
			if !errors.Is(err, deadletter.ErrTorn) {
				b.unread++
			}
			b.warn("%v", err)
		case !match(e.Letter):
		case e.Superseded():
			b.older++
		default:
			return do(e)
		}
		return nil
	})
}

// reread calls do with the letters that each called it with. What is wrong with
// the files was said by each.
func (b *box) reread(match func(deadletter.Letter) bool, do func(*deadletter.Entry) error) error {
	b.letters.Rewind()
	return b.scan(func(e *deadletter.Entry, err error) error {
		if err != nil || e.Superseded() || !match(e.Letter) {
			return nil
		}
		return do(e)
	})
}

// scan calls do with every letter, or with why there is none to be read, up to
// the end or do's first error.
func (b *box) scan(do func(*deadletter.Entry, error) error) error {
	for {
		e, err := b.letters.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err := do(&e, err); err != nil {
			_ = b.letters.Close()
			return err
		}
	}
}

func (b *box) warn(format string, a ...any) {
	fmt.Fprintf(b.sys.stderr, "trafficup: warning: %s\n", printable(fmt.Sprintf(format, a...)))
}

// end is how a command ends that read what it could.
func (b *box) end() error {
	switch {
	case b.unread > 0:
		return reported(exitInput)
	case b.leftOut > 0:
		return reported(exitPerson)
	}
	return nil
}

// unheard is how a command ends whose output nobody reads to its end, as head
// does: there is nobody to tell.
func unheard(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return reported(exitFailed)
	}
	return err
}

type dropOptions struct {
	filter filterOptions
	all    bool
	why    string
}

func newDropCommand(sys *system, asJSON *bool) *cobra.Command {
	var o dropOptions
	cmd := &cobra.Command{
		Use:   "drop --why TEXT [FILE...]",
		Short: "give letters up: move them to the archive, with the reason",
		Long: `Give letters up: move them to the archive, with the reason. Say which: those of
the files, those that the filters choose, or --all.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDrop(sys, cmd.Flags(), o, *asJSON, args)
		},
	}
	addStateFlags(cmd.Flags())
	o.filter.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.all, "all", false, "every letter; not with a filter")
	cmd.Flags().StringVar(&o.why, "why", "", "the reason, kept with the letters")
	return cmd
}

func runDrop(sys *system, fs *pflag.FlagSet, o dropOptions, asJSON bool, args []string) error {
	now := time.Now()
	filter, err := o.filter.filter(now)
	switch {
	case err != nil:
		return err
	case strings.TrimSpace(o.why) == "":
		return usageError("", "give the reason: --why TEXT")
	case o.all && !o.filter.none():
		return usageError("leave out --all to drop what the filter chooses", "--all does not go with a filter")
	case o.filter.none() && !o.all && len(args) == 0:
		return usageError("trafficup deadletters list"+repeatFlags(fs), "say which: files, --reason, --status, --station, --key, --spot, --since, --before or --all")
	}
	st, err := openState(sys, sys.config, "drop")
	if err != nil || st == nil {
		return err
	}
	defer st.close()
	b, err := openBox(sys, st, args)
	if err != nil {
		return err
	}
	chosen := map[deadletter.Ref]bool{}
	_ = b.each(filter.Match, func(e *deadletter.Entry) error {
		chosen[e.Ref] = true
		return nil
	})
	if len(chosen) > 0 {
		if _, err := b.letters.Settle(chosen, &deadletter.Note{At: now.UTC().Truncate(time.Second), Why: o.why}); err != nil {
			return err
		}
	}
	if asJSON {
		fmt.Fprintf(sys.stdout, `{"message_type":"summary","dropped":%d}`+"\n", len(chosen))
	} else {
		fmt.Fprintf(sys.stdout, "dropped %s\n", plural(len(chosen), "dead letter"))
	}
	return b.end()
}
