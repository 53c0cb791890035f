package main

import (
	"cmp"
	"encoding/json/v2"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/deadletter"
	"trafficup/internal/uploader"
)

type listOptions struct {
	filter filterOptions
	long   bool
}

func newListCommand(sys *system, asJSON *bool) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list [FILE...]",
		Short: "count letters by reason, status and station, and print a line for each",
		Long: `Count letters by reason, status and station. With --long, or when a filter leaves
few, a line for each says where its record was read and what is wrong with it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runList(sys, cmd.Flags(), o, *asJSON, args)
		},
	}
	addStateFlags(cmd.Flags())
	o.filter.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.long, "long", false, "a line for each letter, however many there are")
	return cmd
}

// kind is what the letters of a group have in common.
type kind struct {
	reason  string
	status  int
	station string
}

// group is the letters of one kind.
type group struct {
	Type      string     `json:"message_type"`
	Reason    string     `json:"reason"`
	Status    int        `json:"status"`
	Station   string     `json:"station"`
	Count     int        `json:"count"`
	Oldest    time.Time  `json:"oldest"`
	Newest    time.Time  `json:"newest"`
	NotBefore *time.Time `json:"not_before"` // when the last of them may be sent; nil: all may
	example   string     // names one of them to show
}

func (g *group) add(l *deadletter.Letter, now time.Time) {
	at := l.Time()
	if g.Count == 0 || at.Before(g.Oldest) {
		g.Oldest = at
	}
	if at.After(g.Newest) {
		g.Newest = at
	}
	if n := l.NotBefore; n != nil && n.After(now) && (g.NotBefore == nil || n.After(*g.NotBefore)) {
		g.NotBefore = n
	}
	g.Count++
	g.example = cmp.Or(g.example, example(l))
}

// example names a letter as show takes it. A key that is missing or bad may be
// that of many.
func example(l *deadletter.Letter) string {
	if l.Reason == string(uploader.Invalids) && l.Source.File != "" {
		return fmt.Sprintf("%s:%d", l.Source.File, l.Source.Line)
	}
	return cmp.Or(l.Key, l.SpotID)
}

// maxRows is how many rows of a table a person looks at.
const maxRows = 20

func runList(sys *system, fs *pflag.FlagSet, o listOptions, asJSON bool, args []string) error {
	now := time.Now()
	filter, err := o.filter.filter(now)
	if err != nil {
		return err
	}
	b, err := look(sys, args)
	if err != nil {
		return err
	}
	kinds, total := map[kind]*group{}, 0
	_ = b.each(filter.Match, func(e *deadletter.Entry) error {
		k := kind{e.Reason, e.Status, e.Station()}
		if kinds[k] == nil {
			kinds[k] = &group{Type: "letters", Reason: printable(k.reason), Status: k.status, Station: printable(k.station)}
		}
		kinds[k].add(&e.Letter, now)
		total++
		return nil
	})
	groups := slices.SortedFunc(maps.Values(kinds), func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Station, b.Station))
	})
	switch {
	case asJSON:
		if o.long {
			_ = b.reread(filter.Match, func(e *deadletter.Entry) error { return showJSON(sys.stdout, e) })
		}
		b.listJSON(groups, total)
	case total == 0:
		fmt.Fprintln(sys.stdout, "no dead letters")
	default:
		b.table(groups, total)
		if o.long || total <= maxRows && !o.filter.none() {
			b.rows(filter.Match)
		}
		for _, h := range next(groups, o.filter.key+o.filter.spot != "", again(fs, args), b.replay(again(fs, args))) {
			fmt.Fprintf(sys.stdout, "hint: %s\n", h)
		}
	}
	return b.end()
}

func (b *box) listJSON(groups []*group, total int) {
	for _, g := range groups {
		if line, err := json.Marshal(g); err == nil {
			fmt.Fprintf(b.sys.stdout, "%s\n", line)
		}
	}
	fmt.Fprintf(b.sys.stdout, `{"message_type":"summary","letters":%d,"superseded":%d,"unreadable":%d}`+"\n", total, b.older, b.unread)
}

// table prints the groups, the largest first, and the sum of all.
func (b *box) table(groups []*group, total int) {
	w := tabwriter.NewWriter(b.sys.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "count\treason\tstatus\tstation\toldest\tnewest\tnot before")
	for _, g := range groups[:min(maxRows, len(groups))] {
		status, wait := "-", "-"
		if g.Status != 0 {
			status = strconv.Itoa(g.Status)
		}
		if g.NotBefore != nil {
			wait = stamp(*g.NotBefore)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", thousands(int64(g.Count)), orDash(g.Reason), status, orDash(g.Station), stamp(g.Oldest), stamp(g.Newest), wait)
	}
	_ = w.Flush()
	if more := len(groups) - maxRows; more > 0 {
		fmt.Fprintf(b.sys.stdout, "and %s\n", plural(more, "more group"))
	}
	fmt.Fprintf(b.sys.stdout, "%s\n", plural(total, "dead letter"))
	if b.older > 0 {
		fmt.Fprintf(b.sys.stdout, "%s of the same records not listed\n", plural(b.older, "older letter"))
	}
}

// rows prints a line for each letter, in columns that are made anew now and
// then: there may be many.
func (b *box) rows(match func(deadletter.Letter) bool) {
	w, n := tabwriter.NewWriter(b.sys.stdout, 0, 0, 2, ' ', 0), 0
	fmt.Fprintln(w, "\nreason\tread from\tspot id\tkey\tproblem")
	_ = b.reread(match, func(e *deadletter.Entry) error {
		from := "-"
		if e.Source.File != "" {
			from = fmt.Sprintf("%s:%d", printable(e.Source.File), e.Source.Line)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", printable(e.Reason), from, orDash(printable(e.SpotID)), orDash(printable(e.Key)), orDash(printable(e.Problem)))
		if n++; n%1000 == 0 {
			return w.Flush()
		}
		return nil
	})
	_ = w.Flush()
}

// next is what to type after a list: again repeats its arguments, replayed those
// that replay needs. Where the filter names a record, it is shown by it.
func next(groups []*group, named bool, again, replayed string) (hints []string) {
	replay := "settle those mended and delivered since: trafficup replay"
	example := ""
	for _, g := range groups {
		if r := uploader.Bucket(g.Reason); r != uploader.Invalids && r != uploader.Conflict {
			replay = "send them again: trafficup replay"
		}
		example = cmp.Or(example, g.example)
	}
	switch {
	case named:
		hints = append(hints, "look at one: trafficup deadletters show"+again)
	case example != "":
		hints = append(hints, "look at one: trafficup deadletters show "+quoted(example)+again)
	}
	return append(hints, "take the records out: trafficup deadletters export"+again, replay+replayed)
}

// again repeats the arguments that a command was given, for the next one.
func again(fs *pflag.FlagSet, args []string) string {
	var words strings.Builder
	fs.Visit(func(f *pflag.Flag) {
		if f.Name == "json" || f.Name == "long" {
			return
		}
		value := f.Value.String()
		if s, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(s.GetSlice(), ",")
		}
		words.WriteString(" --" + f.Name + "=" + quoted(value))
	})
	for _, a := range args {
		words.WriteString(" " + quoted(a))
	}
	return words.String()
}

// quoted is a word as a shell takes it.
func quoted(s string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:,=+@%", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(printable(s), "'", `'\''`) + "'"
}
