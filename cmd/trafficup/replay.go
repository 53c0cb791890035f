package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/deadletter"
	"trafficup/internal/disk"
	"trafficup/internal/envelope"
	"trafficup/internal/journal"
	"trafficup/internal/uploader"
)

type replayOptions struct {
	filter           filterOptions
	limit            int
	maxGenerations   int
	acceptDuplicates bool
}

func (o *replayOptions) addFlags(fs *pflag.FlagSet) {
	addRunFlags(fs)
	o.filter.addFlags(fs)
	fs.IntVar(&o.limit, "limit", 0, "send `N` letters at most, 0 for no limit")
	fs.IntVar(&o.maxGenerations, "max-generations", 5, "leave letters that were replayed `N` times already")
	fs.BoolVar(&o.acceptDuplicates, "accept-duplicates", false, "send letters also when the API may have forgotten that it took them (--key-ttl)")
}

func newReplayCommand(sys *system, asJSON *bool) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay [FILE...]",
		Short: "send dead letters again, with the same keys and bytes",
		Long: `Send dead letters again, with the same keys and bytes: those of the files, or all
that the state directory holds. A letter that was taken moves to archive/ beside
its file; what fails again gets a letter in a new file. The filters choose which
to send. Letters that cannot be sent now stay, and the run says why.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReplay(sys, repeatFlags(cmd.Flags()), o, *asJSON, args)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func runReplay(sys *system, repeat string, o replayOptions, asJSON bool, args []string) error {
	c := sys.config
	validator, err := newValidator(c)
	if err != nil {
		return err
	}
	now := time.Now()
	filter, err := o.filter.filter(now)
	if err != nil {
		return err
	}
	feed := &letterFeed{
		filter: filter, validator: validator, now: now,
		limit: o.limit, maxGenerations: o.maxGenerations, corrections: c.Upload.AcceptCorrections,
		done: map[deadletter.Ref]bool{},
	}
	if !o.acceptDuplicates {
		feed.keyTTL = c.Upload.KeyTTL
	}
	_, err = deliver(sys, c, asJSON, delivery{
		command: "replay", class: bulk, repeat: repeat,
		open: func(st *state, u *ui) (uploader.Feed, error) {
			files, err := letterFiles(st, args)
			if err == nil {
				err = ours(st, files)
			}
			if err != nil {
				return nil, err
			}
			if len(files) == 0 {
				if !c.Output.Quiet && !asJSON {
					fmt.Fprintln(sys.stdout, "no dead letters")
				}
				return nil, reported(exitOK)
			}
			feed.ledger = st.journal
			feed.warn, feed.note, feed.letters = u.warn, u.note, deadletter.NewScanner(st.fs, files)
			return feed, nil
		},
		observe: feed.ended,
		after:   func(_ *state, s uploader.Summary, _ *ui) (int, error) { return feed.settle(s) },
	})
	return err
}

// ours refuses letters of another state directory: its ledger, not this one,
// knows what became of their records.
func ours(st *state, files []string) error {
	here, err := filepath.Abs(st.letters())
	if err != nil {
		return err
	}
	for _, f := range files {
		dir, err := filepath.Abs(filepath.Dir(f))
		if err != nil {
			return err
		}
		if dir == here || filepath.Base(dir) != "deadletters" {
			continue
		}
		if other := filepath.Dir(dir); held(st.fs, filepath.Join(other, "ledger")) {
			return usageError("give --state-dir="+other, "%s belongs to the state directory %s, and only the ledger there knows what became of its records", f, other)
		}
	}
	return nil
}

func held(fsys disk.FS, dir string) bool {
	entries, err := fsys.ReadDir(dir)
	return err == nil && len(entries) > 0
}

// letterFeed yields the letters that can be sent now: the same records, one
// generation older. It keeps account of those that it leaves, and of those that
// are done.
type letterFeed struct {
	filter         deadletter.Filter
	validator      *envelope.Validator
	limit          int // 0: none
	maxGenerations int
	keyTTL         time.Duration // 0: an old key is sent, too
	corrections    bool
	ledger         *journal.Journal
	now            time.Time
	warn, note     func(string)

	// reading is held by Next and settle: a run that stops leaves a Next behind.
	reading sync.Mutex
	letters *deadletter.Scanner // guarded by reading; nil once settled
	left    [causes]int         // guarded by reading
	until   time.Time           // guarded by reading; when the last that waits may be sent

	mu   sync.Mutex
	refs []deadletter.Ref        // guarded by mu; where the letter with mark n+1 stands
	done map[deadletter.Ref]bool // guarded by mu

	gone int // guarded by mu; settled without being sent
}

func (f *letterFeed) Next(context.Context) (uploader.Item, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	for f.letters != nil {
		e, err := f.letters.Next()
		switch {
		case errors.Is(err, io.EOF):
			f.sayLeft()
			return uploader.Item{}, io.EOF
		case errors.Is(err, deadletter.ErrTorn):
			f.warn(err.Error())
		case err != nil:
			return uploader.Item{Fault: err}, nil
		case e.Superseded() || !f.filter.Match(e.Letter):
		default:
			item := decode(f.validator, e.Body == "envelope", e.Record(), uploader.Place(e.Source), e.Generation+1)
			if f.overtaken(&e.Letter, &item) {
				f.settled(e.Ref)
				continue
			}
			if why := f.judge(&e.Letter, item.Invalid != nil); why != none {
				f.left[why]++
				continue
			}
			item.Record.Before = tries(e.Attempts)
			item.Record.Ref = f.mark(e.Ref)
			return item, nil
		}
	}
	return uploader.Item{}, io.EOF
}

// overtaken reports whether the record of a letter was put right at its source
// since, and sent again: under its key with other content, or under another key.
// What is in the letter is not to be sent any more. For an invalid record only
// an ack of its key tells.
func (f *letterFeed) overtaken(l *deadletter.Letter, item *uploader.Item) bool {
	switch {
	case l.Reason == string(uploader.Conflict):
		return false
	case item.Invalid != nil:
		return l.Key != "" && f.ledger.Acked(l.Key)
	}
	item.Record.BodySum = sha256.Sum256(item.Record.Body)
	i := intentOf(&item.Record)
	return f.ledger.Overtaken(&i)
}

func (f *letterFeed) settled(r deadletter.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done[r] = true
	f.gone++
}

// cause is why a letter is left where it is.
type cause int

const (
	none cause = iota
	contradicts
	unfit
	tooOften
	tooOld
	tooEarly
	overLimit
	causes
)

// judge tells why a letter is not to be sent now. What only a person can change
// is named first. Requires reading.
func (f *letterFeed) judge(l *deadletter.Letter, invalid bool) cause {
	sent, ok := l.FirstSent()
	switch {
	case l.Reason == string(uploader.Conflict) && (!f.corrections || strings.HasPrefix(l.Problem, uploader.SameKeyProblem)):
		// Other content under one key is no correction an API can take. And what
		// a record contradicts was sent by another run, which this one need not
		// know of: it would pass for new, and be billed twice.
		return contradicts
	case invalid:
		return unfit
	case l.Generation >= f.maxGenerations:
		return tooOften
	case ok && f.keyTTL > 0 && f.now.Sub(sent) > f.keyTTL:
		return tooOld
	case l.NotBefore != nil && l.NotBefore.After(f.now):
		if l.NotBefore.After(f.until) {
			f.until = *l.NotBefore
		}
		return tooEarly
	case f.limit > 0 && f.sent() >= f.limit:
		return overLimit
	}
	return none
}

// sayLeft says what is left, a line for each cause. Requires reading.
func (f *letterFeed) sayLeft() {
	f.mu.Lock()
	n := f.gone
	f.mu.Unlock()
	if n > 0 {
		f.note(fmt.Sprintf("settled %s: their records were mended and sent again since", plural(n, "letter")))
	}
	for why, n := range f.left {
		if n == 0 {
			continue
		}
		var text string
		switch cause(why) {
		case contradicts:
			text = "they contradict records sent before; mend those with a key that stands for other content; if the others are corrections: --accept-corrections"
		case unfit:
			text = "their records are not valid; mend them at their source and upload them again"
		case tooOften:
			text = fmt.Sprintf("replayed %d times and more; to send them once more: --max-generations", f.maxGenerations)
		case tooOld:
			text = fmt.Sprintf("sent first more than %s ago (--key-ttl), the API may have forgotten that it took them; to send them all the same: --accept-duplicates", f.keyTTL)
		case tooEarly:
			text = "the API asked to wait, for the last of them until " + stamp(f.until)
		case overLimit:
			text = fmt.Sprintf("--limit %d is reached", f.limit)
		}
		f.warn(fmt.Sprintf("left %s: %s", plural(n, "letter"), text))
	}
}

// mark gives a letter that is sent the mark by which its end is known.
func (f *letterFeed) mark(r deadletter.Ref) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refs = append(f.refs, r)
	return int64(len(f.refs))
}

// sent is how many letters were given out.
func (f *letterFeed) sent() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.refs)
}

// ended hears of the end of a record. An error is the end of one whose outcome
// could not be written down.
func (f *letterFeed) ended(e uploader.Event) {
	if e.Ref == 0 || e.Bucket == "" || e.Bucket == uploader.Halted || e.Level >= uploader.Error {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done[f.refs[e.Ref-1]] = true
}

// settle moves the letters that are done to the archive, whatever became of the
// run, and returns the exit code that those which are left call for.
func (f *letterFeed) settle(s uploader.Summary) (code int, err error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for why, n := range f.left {
		switch {
		case n == 0:
		case cause(why) >= tooEarly:
			code = heavier(code, exitWaiting)
		default:
			code = heavier(code, exitPerson)
		}
	}
	if s.LettersLost == 0 { // else nobody knows which; the ledger knows who was acked
		_, err = f.letters.Settle(f.done, nil)
	}
	_ = f.letters.Close()
	f.letters = nil
	return code, err
}

// maxTries bounds the history of a letter: the first attempt, by which its age
// is known, and the last ones.
const maxTries = 50

func tries(all []deadletter.Attempt) []uploader.Try {
	if len(all) > maxTries {
		all = append(all[:1:1], all[len(all)-maxTries+1:]...)
	}
	var out []uploader.Try
	for _, a := range all {
		out = append(out, uploader.Try(a))
	}
	return out
}
