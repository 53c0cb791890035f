package main

import (
	"cmp"
	"encoding/json/v2"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/deadletter"
)

func newShowCommand(sys *system, asJSON *bool) *cobra.Command {
	var o filterOptions
	cmd := &cobra.Command{
		Use:   "show KEY|SPOT_ID|FILE:LINE [FILE...]",
		Short: "print all that is known of a letter",
		Long: `Print all that is known of the letters of a record. It is named by its key, its
spot id, or the file and line it was read from; where no file has the name given,
the last part of it is enough. With --key or --spot all arguments are files of
letters.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runShow(sys, cmd.Flags(), o, *asJSON, args)
		},
	}
	addStateFlags(cmd.Flags())
	o.addFlags(cmd.Flags())
	return cmd
}

func runShow(sys *system, fs *pflag.FlagSet, o filterOptions, asJSON bool, args []string) error {
	what := cmp.Or(o.key, o.spot)
	if what == "" {
		if len(args) == 0 || args[0] == "" {
			return usageError("trafficup deadletters list"+repeatFlags(fs), "give the key, the spot id, or FILE:LINE of a record")
		}
		what, args = args[0], args[1:]
	}
	filter, err := o.filter(time.Now())
	if err != nil {
		return err
	}
	b, err := look(sys, args)
	if err != nil {
		return err
	}
	w := newWanted(what)
	if w.line > 0 {
		b.search(w)
	}
	print := showLetter
	if asJSON {
		print = showJSON
	}
	found := 0
	match := func(l deadletter.Letter) bool {
		return w.matches(l.Key, l.SpotID, l.Source.File, l.Source.Line) && filter.Match(l)
	}
	err = b.each(match, func(e *deadletter.Entry) error {
		if found++; found > 1 && !asJSON {
			fmt.Fprintln(sys.stdout)
		}
		return print(sys.stdout, e)
	})
	if s := w.ambiguous(); s != "" {
		b.warn("%s", s)
	}
	switch {
	case err != nil:
		return unheard(err)
	case found == 0 && b.older > 0:
		return usageError("show it by its key", "%s is in an older letter alone; a newer one of the same record counts", what)
	case found == 0:
		return usageError(w.otherwise(repeatFlags(fs)), "no dead letter of %s in %s", what, cmp.Or(strings.Join(args, ", "), b.dir))
	case b.older > 0 && !asJSON:
		fmt.Fprintf(sys.stdout, "\n%s of the same record not shown\n", plural(b.older, "older letter"))
	}
	return b.end()
}

// search finds out whether a file of exactly the name that is wanted has
// letters, before they are read for good.
func (b *box) search(w *wanted) {
	found := false
	_ = b.reread(func(l deadletter.Letter) bool {
		found = w.matches(l.Key, l.SpotID, l.Source.File, l.Source.Line) || found
		return false
	}, nil)
	if !found {
		w.widen()
	}
	b.letters.Rewind()
}

func showJSON(w io.Writer, e *deadletter.Entry) error {
	file, err := json.Marshal(printable(e.Ref.File))
	if err != nil {
		return err
	}
	line, err := e.Encode()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `{"message_type":"letter","file":%s,"line":%d,"letter":%s}`+"\n", file, e.Ref.Line, line[:len(line)-1])
	return err
}

func showLetter(w io.Writer, e *deadletter.Entry) error {
	var b strings.Builder
	row := func(name, format string, a ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, printable(fmt.Sprintf(format, a...)))
	}
	row("Letter", "%s:%d", e.Ref.File, e.Ref.Line)
	row("Spot", "%s", orDash(e.SpotID))
	row("Key", "%s", orDash(e.Key))
	row("Station", "%s", orDash(e.Station()))
	row("Reason", "%s", e.Reason)
	if e.Status != 0 {
		row("Status", "%d", e.Status)
	}
	row("Problem", "%s", orDash(e.Problem))
	if e.OutcomeUnknown {
		row("Outcome", "unknown: the API may have taken it")
	}
	if e.NotBefore != nil {
		row("Not before", "%s", stamp(*e.NotBefore))
	}
	row("Source", "%s:%d, byte %d, sha256 %s", orDash(e.Source.File), e.Source.Line, e.Source.Offset, orDash(e.Source.SHA256))
	row("Run", "%s, generation %d, version %s", orDash(e.Run), e.Generation, orDash(e.Version))
	if e.Dropped != nil {
		row("Dropped", "%s: %s", stamp(e.Dropped.At), e.Dropped.Why)
	}
	for i, a := range e.Attempts {
		wait := time.Duration(a.WaitMS) * time.Millisecond
		row(fmt.Sprintf("Attempt %d", i+1), "%s", strings.TrimSpace(fmt.Sprintf("%s  %s  status %d  waited %s  %s", stamp(a.At), a.Path, a.Status, wait, a.Error)))
	}
	fmt.Fprintf(&b, "Record       %s\n", readable(e.Record()))
	_, err := io.WriteString(w, b.String())
	return err
}

// readable is a record as it is where a terminal can show it, else quoted.
func readable(raw []byte) string {
	unfit := func(r rune) bool { return r != '\n' && r != '\t' && unsafeRune(r) }
	if s := string(raw); utf8.Valid(raw) && !strings.ContainsFunc(s, unfit) {
		return s
	}
	return strconv.Quote(string(raw))
}
