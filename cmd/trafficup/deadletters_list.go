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

func newListCommand(sys *system, asJSON *bool) *cobra.Command {
	var o filterOptions
	cmd := &cobra.Command{
		Use:   "list [FILE...]",
		Short: "count letters by reason, status and station",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runList(sys, cmd.Flags(), o, *asJSON, args)
		},
	}
	addStateFlags(cmd.Flags())
	o.addFlags(cmd.Flags())
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
	example   string     // key or spot_id of one
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
	g.example = cmp.Or(g.example, l.Key, l.SpotID)
}

func runList(sys *system, fs *pflag.FlagSet, o filterOptions, asJSON bool, args []string) error {
	now := time.Now()
	filter, err := o.filter(now)
	if err != nil {
		return err
	}
	st, err := look(sys, fs)
	if err != nil {
		return err
	}
	b, err := openBox(sys, st, args)
	if err != nil {
		return err
	}
	kinds := map[kind]*group{}
	_ = b.each(filter.Match, func(e *deadletter.Entry) error {
		k := kind{e.Reason, e.Status, e.Station()}
		if kinds[k] == nil {
			kinds[k] = &group{Type: "letters", Reason: printable(k.reason), Status: k.status, Station: printable(k.station)}
		}
		kinds[k].add(&e.Letter, now)
		return nil
	})
	groups := slices.SortedFunc(maps.Values(kinds), func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Station, b.Station))
	})
	if asJSON {
		b.listJSON(groups)
	} else {
		b.list(groups, again(fs, args))
	}
	return b.end()
}

func (b *box) listJSON(groups []*group) {
	total := 0
	for _, g := range groups {
		total += g.Count
		if line, err := json.Marshal(g); err == nil {
			fmt.Fprintf(b.sys.stdout, "%s\n", line)
		}
	}
	fmt.Fprintf(b.sys.stdout, `{"message_type":"summary","letters":%d,"superseded":%d,"unreadable":%d}`+"\n", total, b.older, b.unread)
}

// list prints the table; the last line is what to type next.
func (b *box) list(groups []*group, again string) {
	if len(groups) == 0 {
		fmt.Fprintln(b.sys.stdout, "no dead letters")
		return
	}
	total := 0
	w := tabwriter.NewWriter(b.sys.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "count\treason\tstatus\tstation\toldest\tnewest\tnot before")
	for _, g := range groups {
		total += g.Count
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
	fmt.Fprintf(b.sys.stdout, "%s\n", plural(total, "dead letter"))
	if b.older > 0 {
		fmt.Fprintf(b.sys.stdout, "%s of the same records not listed\n", plural(b.older, "older letter"))
	}
	fmt.Fprintf(b.sys.stdout, "hint: %s\n", next(groups, again))
}

// next is what to type after a list: a replay where time may have helped.
func next(groups []*group, again string) string {
	for _, g := range groups {
		switch uploader.Bucket(g.Reason) {
		case uploader.Exhausted, uploader.Deferred, uploader.Unknown:
			return "trafficup replay" + again
		}
	}
	for _, g := range groups {
		if g.example != "" {
			return "look at one: trafficup deadletters show " + quoted(g.example) + again
		}
	}
	return "look at them: trafficup deadletters export" + again
}

// again repeats the arguments that a command was given, for the next one.
func again(fs *pflag.FlagSet, args []string) string {
	var words strings.Builder
	fs.Visit(func(f *pflag.Flag) {
		if f.Name == "json" {
			return
		}
		value := f.Value.String()
		if s, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(s.GetSlice(), ",")
		}
		words.WriteString(" --" + f.Name + " " + quoted(value))
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
