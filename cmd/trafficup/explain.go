package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/deadletter"
	"trafficup/internal/journal"
)

func newExplainCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain KEY|SPOT_ID|FILE:LINE",
		Short: "tell the whole life of a record: attempts, paths, waits and what is known",
		Long: `Tell the whole life of a record: when it was sent, by which path, what came back,
how long it waited, and what is known of it now. It is found by its key, its spot
id, or the file and line it was read from; where no file has the name given, the
last part of it is enough. Several records may match; the newest comes last. Only
reads, also beside a running upload.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExplain(sys, cmd.Flags(), *asJSON, args[0])
		},
	}
	addStateFlags(cmd.Flags())
	return cmd
}

func runExplain(sys *system, flags *pflag.FlagSet, asJSON bool, what string) error {
	if what == "" {
		return usageError("trafficup explain --help", "give the key, the spot id, or FILE:LINE of a record")
	}
	_, st, err := lookAt(sys)
	if err != nil {
		return err
	}
	w := newWanted(what)
	t, err := tell(st, w)
	if err == nil && len(t.lives) == 0 && w.widen() {
		t, err = tell(st, w)
	}
	if err != nil {
		return err
	}
	if s := w.ambiguous(); s != "" {
		t.warnings = append(t.warnings, s)
	}
	for _, w := range t.warnings {
		fmt.Fprintf(sys.stderr, "trafficup: warning: %s\n", printable(w))
	}
	if len(t.lives) == 0 {
		return usageError(w.otherwise(repeatFlags(flags)), "nothing is known of %s in %s", what, st.dir)
	}
	t.sort()
	if asJSON {
		return unheard(printFacts(sys.stdout, t.lives))
	}
	return unheard(printLives(sys.stdout, t.lives))
}

// lookAt names the state directory without taking or making it.
func lookAt(sys *system) (Config, *state, error) {
	dir, err := stateDir(sys.config, sys.getenv)
	return sys.config, &state{fs: sys.fs, dir: dir}, err
}

// life is all that is known of one record.
type life struct {
	key    string
	stages []*stage // one a run, oldest first
}

// stage is what one run did with a record.
type stage struct {
	run     journal.Run
	intent  journal.Intent   // At is zero when the ledger has none; then the rest comes from a letter
	answers []journal.Answer // those of a letter have no AnsweredAt and no Class
	end     *journal.End
	letters []filed
}

// filed is a dead letter and where it is.
type filed struct {
	deadletter.Letter // without the record's bytes
	ref               deadletter.Ref
	archived          bool
}

// teller collects the lives of the records that match, and nothing else.
type teller struct {
	*wanted
	run      journal.Run
	runs     map[string]journal.Run
	open     map[string]*stage // of the run being read, by key
	byKey    map[string][]*life
	lives    []*life
	warnings []string
}

// tell reads all that is known of what is wanted.
func tell(st *state, w *wanted) (*teller, error) {
	t := &teller{wanted: w, runs: map[string]journal.Run{}, open: map[string]*stage{}, byKey: map[string][]*life{}}
	if err := t.readLedger(st); err != nil {
		return nil, err
	}
	return t, t.readLetters(st)
}

func (t *teller) readLedger(st *state) error {
	report, bad, err := journal.Read(st.fs, st.ledger(), func(entry any) error {
		t.entry(entry)
		return nil
	})
	if n := len(report.Damaged); n > 0 || bad > 0 {
		t.warnings = append(t.warnings, fmt.Sprintf("the ledger is damaged in %s, so something may be missing here; trafficup state check says where", plural(max(n, bad), "place")))
	}
	return err
}

// entry takes what the ledger says of a record that is wanted. Answers and ends
// belong to the last intent of their key.
func (t *teller) entry(entry any) {
	switch e := entry.(type) {
	case journal.Run:
		t.run, t.runs[e.ID] = e, e
		clear(t.open)
	case journal.Intent:
		delete(t.open, e.Key)
		if t.matches(e.Key, e.SpotID, e.File, e.Line) {
			t.begin(e)
		}
	case journal.Answer:
		if s := t.stage(e.Key); s != nil {
			s.answers = append(s.answers, e)
		}
	case journal.End:
		if s := t.stage(e.Key); s != nil {
			s.end = &e
		}
	}
}

func (t *teller) begin(i journal.Intent) *stage {
	s := &stage{run: t.run, intent: i}
	t.open[i.Key] = s
	l := t.of(i.Key)
	l.stages = append(l.stages, s)
	return s
}

// stage is the one that an answer or an end goes to. That of a key that was
// asked for is told also when its intent is lost.
func (t *teller) stage(key string) *stage {
	if s := t.open[key]; s != nil || key != t.name {
		return s
	}
	return t.begin(journal.Intent{Key: key})
}

// of returns the life of a key.
func (t *teller) of(key string) *life {
	if known := t.byKey[key]; len(known) > 0 {
		return known[0]
	}
	return t.another(key)
}

// another begins a life, although its key may have one.
func (t *teller) another(key string) *life {
	l := &life{key: key}
	t.byKey[key] = append(t.byKey[key], l)
	t.lives = append(t.lives, l)
	return l
}

// sort brings the newest record last. Runs of one moment stay in the order of
// the ledger.
func (t *teller) sort() {
	byTime := func(a, b *stage) int { return a.at().Compare(b.at()) }
	for _, l := range t.lives {
		slices.SortStableFunc(l.stages, byTime)
	}
	slices.SortStableFunc(t.lives, func(a, b *life) int { return byTime(a.newest(), b.newest()) })
}

// at is when a stage began, as exactly as it is known.
func (s *stage) at() time.Time {
	switch {
	case !s.run.Started.IsZero():
		return s.run.Started
	case !s.intent.At.IsZero():
		return s.intent.At
	case len(s.answers) > 0:
		return s.answers[0].SentAt
	case len(s.letters) > 0:
		return s.letters[0].Time() // in seconds: it has no attempts here
	}
	return time.Time{}
}

func (l *life) newest() *stage { return l.stages[len(l.stages)-1] }
