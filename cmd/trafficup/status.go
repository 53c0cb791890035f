package main

import (
	"cmp"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/breaker"
	"trafficup/internal/deadletter"
	"trafficup/internal/disk"
	"trafficup/internal/journal"
	"trafficup/internal/uploader"
)

func newStatusCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show the last runs, what waits, the ledger and the breakers",
		Long: `Show on one screen the last runs, the dead letters that wait, the ledger and the
breakers, and, where a Redis is configured or given, what machines share. Only
reads, also beside a running upload. The code is 0 whatever there is to see, Redis
or not, and 1 when the state directory cannot be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runStatus(sys, cmd.Flags(), *asJSON)
		},
	}
	addBreakerFlags(cmd.Flags())
	return cmd
}

func runStatus(sys *system, flags *pflag.FlagSet, asJSON bool) error {
	c, st, err := lookAt(sys)
	if err != nil {
		return err
	}
	o, err := survey(st, c.Upload.KeyTTL, time.Now())
	if err != nil {
		return &failure{exitFailed, "trafficup state check says more", fmt.Errorf("state directory: %w", err)}
	}
	if o.Shared = c.askShared(sys, st); o.Shared != nil && o.Shared.shares {
		o.Breakers = []pathStatus{} // those of the file are not used
	}
	o.Uplink = c.askUplink(sys, func(text string) { o.fault(errors.New(text)) })
	o.flag = repeatFlags(only(flags, "config", "state-dir"))
	o.replay = replayFlags(repeatFlags(flags), c, st, o.urls)
	if !asJSON {
		return unheard(o.text(sys.stdout))
	}
	line, err := json.Marshal(o)
	if err == nil {
		_, err = sys.stdout.Write(append(line, '\n'))
	}
	return unheard(err)
}

// only are some of the flags.
func only(flags *pflag.FlagSet, names ...string) *pflag.FlagSet {
	some := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range names {
		some.AddFlag(flags.Lookup(name))
	}
	return some
}

// overview is what status shows. Texts in it are printable.
type overview struct {
	Type     string        `json:"message_type"`
	Dir      string        `json:"state_dir"`
	Used     bool          `json:"used"`                 // a run was here
	Sandbox  string        `json:"sandbox_dir,omitzero"` // of runs against the stand-in, if there were any
	Runs     []pastRun     `json:"runs"`                 // the last ones, newest last
	Letters  []waiting     `json:"dead_letters"`
	Ledger   ledgerStatus  `json:"ledger"`
	Breakers []pathStatus  `json:"breakers"`        // of the file, if that is where they are kept
	Shared   *sharedStatus `json:"shared,omitzero"` // with other machines
	Uplink   *uplinkStatus `json:"uplink,omitzero"` // that carries, where the failover of this machine says it
	Faults   []string      `json:"faults"`          // what could not be read
	keyTTL   time.Duration
	now      time.Time
	flag     string   // that commands need to find the directory
	replay   string   // that replay needs
	urls     []string // of the last run that had any
}

// pastRun is a run by its report, or by the ledger alone.
type pastRun struct {
	Run     string    `json:"run"`
	Command string    `json:"command,omitzero"` // empty: the ledger does not know
	Started time.Time `json:"started,omitzero"`
	Report  *result   `json:"report"` // nil: under way, or it was cut off
	bad     bool      // it has a report that cannot be read
}

// waiting counts the letters of one reason.
type waiting struct {
	Reason string    `json:"reason"`
	Count  int       `json:"count"`
	Taken  int       `json:"delivered_since"` // those whose key was acked since
	Oldest time.Time `json:"oldest,omitzero"` // since when the first of them waits
}

type ledgerStatus struct {
	Acked       int                 `json:"acked"` // within the life of a key
	Unknown     int                 `json:"unknown"`
	UnknownFrom []journal.FileCount `json:"unknown_from"`
	Segments    int                 `json:"segments"`
	Bytes       int64               `json:"bytes"` // on disk
	Damaged     int                 `json:"damaged"`
}

type pathStatus struct {
	Path      string        `json:"path"`
	Phase     string        `json:"phase"`
	Forced    bool          `json:"forced"`    // as its state says
	Thrashing bool          `json:"thrashing"` // it changed too often in the last hour
	State     breaker.State `json:"state"`
}

// survey collects it. The error is about the directory as a whole; what else
// cannot be read is named in Faults.
func survey(st *state, keyTTL time.Duration, now time.Time) (overview, error) {
	o := overview{
		Type: "status", Dir: printable(st.dir), keyTTL: keyTTL, now: now,
		Runs: []pastRun{}, Letters: []waiting{}, Breakers: []pathStatus{}, Faults: []string{},
	}
	entries, err := st.fs.ReadDir(st.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	o.Used = used(entries)
	if inside, _ := st.fs.ReadDir(st.sandbox()); used(inside) {
		o.Sandbox = printable(st.sandbox())
	}
	stock, err := journal.Survey(st.fs, st.ledger(), now.Add(-keyTTL))
	o.fault(err)
	o.ledger(st, stock)
	o.runs(st, stock.Runs)
	o.letters(st, stock.Took)
	o.breakers(st)
	o.urls = lastURLs(stock.Runs)
	return o, nil
}

// used tells a state directory in which something was run from an empty one.
func used(entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return slices.Contains([]string{"lock", "ledger", "deadletters", "runs"}, e.Name())
	})
}

func (o *overview) fault(err error) {
	if err != nil {
		o.Faults = append(o.Faults, printable(err.Error()))
	}
}

func (o *overview) ledger(st *state, s journal.Stock) {
	o.Ledger = ledgerStatus{
		Acked: s.Acked, Unknown: s.Unknown, Segments: s.Segments, Damaged: len(s.Damaged) + s.Bad,
		UnknownFrom: s.UnknownFrom,
	}
	for i, f := range s.UnknownFrom {
		o.Ledger.UnknownFrom[i].File = printable(f.File)
	}
	entries, _ := st.fs.ReadDir(st.ledger()) // whether it can be read was told by the survey
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it has just expired
			o.Ledger.Bytes += info.Size()
		}
	}
}

// lastRuns is how many are shown.
const lastRuns = 5

// runs lists those that left a report and those that the ledger knows of: one
// without a report is under way, or did not live to write it.
func (o *overview) runs(st *state, known []journal.Run) {
	ledger := map[string]journal.Run{}
	for _, r := range known {
		ledger[r.ID] = r
	}
	names := slices.Collect(maps.Keys(ledger))
	entries, err := st.fs.ReadDir(st.runs())
	if !errors.Is(err, fs.ErrNotExist) {
		o.fault(err)
	}
	for _, e := range entries {
		if _, twice := ledger[e.Name()]; !twice && e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { // they begin with their second
		return cmp.Or(cmp.Compare(second(a), second(b)), ledger[a].Started.Compare(ledger[b].Started), cmp.Compare(a, b))
	})
	for _, name := range names[max(0, len(names)-lastRuns):] {
		run := pastRun{Run: printable(name), Command: printable(ledger[name].Command), Started: ledger[name].Started}
		report, err := readReport(st, name)
		switch {
		case err == nil:
			run.Report = &report
		case !errors.Is(err, fs.ErrNotExist):
			run.bad = true
			o.fault(fmt.Errorf("%s: %w", st.report(name), err))
		}
		o.Runs = append(o.Runs, run)
	}
}

func second(run string) string {
	second, _, _ := strings.Cut(run, "-")
	return second
}

func (s *state) report(run string) string { return filepath.Join(s.runs(), run, "report.json") }

func readReport(st *state, run string) (result, error) {
	var r result
	data, err := disk.ReadFile(st.fs, st.report(run))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("no report: %w", err)
	}
	return r, nil
}

// letters counts the letters that count, by reason. took tells the keys that were
// acked.
func (o *overview) letters(st *state, took func(key string) bool) {
	files, err := deadletter.Pending(st.fs, st.letters())
	o.fault(err)
	groups := map[string]*waiting{}
	repeated := map[deadletter.Ref]time.Time{} // since when the records of older letters wait
	letters := deadletter.NewScanner(st.fs, files)
	for {
		e, err := letters.Next()
		switch {
		case errors.Is(err, io.EOF):
			for _, g := range groups {
				o.Letters = append(o.Letters, *g)
			}
			slices.SortFunc(o.Letters, func(a, b waiting) int {
				return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
			})
			return
		case errors.Is(err, fs.ErrNotExist): // settled meanwhile
		case err != nil:
			o.fault(err)
		case e.Superseded():
			repeated[e.Newest] = earlier(repeated[e.Newest], waitsSince(&e.Letter))
		default:
			g := groups[e.Reason]
			if g == nil {
				g = &waiting{Reason: printable(e.Reason)}
				groups[e.Reason] = g
			}
			g.Count++
			if e.Reason != string(uploader.Conflict) && took(e.Key) { // the key of a conflict is another record's
				g.Taken++
			}
			g.Oldest = earlier(g.Oldest, earlier(repeated[e.Ref], waitsSince(&e.Letter)))
		}
	}
}

// waitsSince is when a record was sent first: a letter that was replayed goes on
// with the history of the one before.
func waitsSince(l *deadletter.Letter) time.Time {
	if at, ok := l.FirstSent(); ok {
		return at.UTC()
	}
	return l.Time().UTC()
}

// earlier is the earlier of two times; the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// breakers shows the shared states; a missing file has none.
func (o *overview) breakers(st *state) {
	states, err := readBreakers(st)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.fault(fmt.Errorf("%s: %w", st.breakers(), err))
	}
	for _, path := range slices.Sorted(maps.Keys(states)) {
		o.Breakers = append(o.Breakers, newPathStatus(path, states[path], o.now))
	}
}

func newPathStatus(path string, s breaker.State, now time.Time) pathStatus {
	s.Force.Reason, s.Force.By = printable(s.Force.Reason), printable(s.Force.By)
	return pathStatus{printable(path), s.Phase.String(), s.Force.Holds(now), s.Changes.Thrashing(now), s}
}

func (s *state) breakers() string { return filepath.Join(s.dir, "breaker.json") }

func readBreakers(st *state) (map[string]breaker.State, error) {
	data, err := disk.ReadFile(st.fs, st.breakers())
	if err != nil {
		return nil, err
	}
	var doc struct {
		Version  int                      `json:"v"`
		Breakers map[string]breaker.State `json:"breakers"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("no breaker state: %w", err)
	}
	if doc.Version != 1 {
		return nil, fmt.Errorf("no breaker state: version %d, this program reads version 1", doc.Version)
	}
	return doc.Breakers, nil
}
