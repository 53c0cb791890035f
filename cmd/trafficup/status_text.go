package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/uploader"
)

// text is the overview for people: what needs doing stands beside what it is about.
func (o overview) text(w io.Writer) error {
	var b bytes.Buffer
	if o.Used {
		fmt.Fprintf(&b, "State         %s\n", o.Dir)
		o.runText(&b)
		o.clockText(&b)
		o.letterText(&b)
		o.ledgerText(&b)
		o.breakerText(&b)
	} else {
		fmt.Fprintf(&b, "nothing has run here yet: %s\n", o.Dir)
		if o.Sandbox != "" {
			fmt.Fprintf(&b, "runs against the stand-in are in its sandbox/: trafficup status --state-dir=%s\n", quoted(o.Sandbox))
		}
	}
	o.Shared.text(&b)
	o.Uplink.text(&b)
	for _, f := range o.firstFaults() {
		fmt.Fprintf(&b, "warning: %s\n", f)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (o overview) runText(b *bytes.Buffer) {
	fmt.Fprintf(b, "\nLast runs     [run, command, read, acked, refused, waiting, duration, code, result]\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, r := range o.Runs {
		fmt.Fprintf(t, "  %s\t%s\t", r.Run, orDash(r.Command))
		switch {
		case r.Report != nil:
			s, d := uploader.Summary{Counts: r.Report.Counts}, time.Duration(r.Report.DurationS*float64(time.Second))
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", thousands(s.Read), thousands(s.Acked), thousands(s.Refused()), thousands(s.Waiting()),
				short(d), r.Report.ExitCode, printable(r.Report.Result))
		case r.bad:
			fmt.Fprint(t, "-\t-\t-\t-\t-\t-\tits report cannot be read\n")
		default:
			fmt.Fprint(t, "-\t-\t-\t-\t-\t-\tno report: under way, or it was cut off\n")
		}
	}
	_ = t.Flush() // into memory
}

func (o overview) letterText(b *bytes.Buffer) {
	if len(o.Letters) == 0 {
		fmt.Fprint(b, "\nDead letters  none\n")
		return
	}
	fmt.Fprint(b, "\nDead letters  [reason, count, oldest, what to do]\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, g := range o.Letters {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", g.Reason, thousands(int64(g.Count)), stamp(g.Oldest), o.remedy(g))
	}
	_ = t.Flush() // into memory
}

// remedy is what helps the letters of a reason.
func (o overview) remedy(g waiting) string {
	replay := "trafficup replay --reason " + g.Reason + o.replay
	if g.Taken == g.Count {
		return "delivered since; to clear them: " + replay
	}
	text := replay
	switch uploader.Bucket(g.Reason) {
	case uploader.Invalids, uploader.Conflict:
		text = "mend at the source and upload again; trafficup deadletters list --reason " + g.Reason + o.flag
	case uploader.Rejected:
		text = "mend and upload again, or, if the API was wrong: " + replay
	}
	if g.Taken > 0 {
		text = thousands(int64(g.Taken)) + " of them delivered since; the others: " + text
	}
	return text
}

// shownFiles is how many are named of those that records of unknown fate came from.
const shownFiles = 5

func (o overview) ledgerText(b *bytes.Buffer) {
	l := o.Ledger
	fmt.Fprintf(b, "\nLedger        %s acked in the last %s, %s of unknown fate, %s, %s on disk\n", thousands(int64(l.Acked)), inDays(o.keyTTL),
		thousands(int64(l.Unknown)), plural(l.Segments, "segment"), inBytes(l.Bytes))
	if l.Unknown > 0 {
		var names []string
		for _, f := range l.UnknownFrom[:min(shownFiles, len(l.UnknownFrom))] {
			names = append(names, quoteIfBlank(f.File))
		}
		fmt.Fprintf(b, "  unknown: sent without an answer, or, while a run is under way, also those that it is about to send or to try again; when none is, upload them again with the same command: %s\n", strings.Join(names, ", "))
		if more := len(l.UnknownFrom) - shownFiles; more > 0 {
			fmt.Fprintf(b, "  and %s more\n", plural(more, "file"))
		}
	}
	if l.Damaged > 0 {
		fmt.Fprintf(b, "  damaged in %s: trafficup state check%s\n", plural(l.Damaged, "place"), o.flag)
	}
}

func (o overview) breakerText(b *bytes.Buffer) {
	switch {
	case o.Shared != nil && o.Shared.shares:
		return // they are shown there
	case len(o.Breakers) == 0:
		fmt.Fprint(b, "\nBreakers      none has failed yet\n")
		return
	}
	fmt.Fprint(b, "\nBreakers\n")
	for _, p := range o.Breakers {
		fmt.Fprintf(b, "  %s: %s\n", p.Path, standing(p.State, o.now))
	}
}

// standing says how a breaker stands, and whether that is for long.
func standing(s breaker.State, now time.Time) string {
	words := phaseWords(s, now)
	if s.Changes.Thrashing(now) {
		words += "; thrashing: it changed " + changeWords(s.Changes, now) + " in the last hour"
	}
	return words
}

func phaseWords(s breaker.State, now time.Time) string {
	switch {
	case s.Force.Holds(now):
		return "forced " + forceWords(s.Force)
	case s.Phase == breaker.Open && s.OpenUntil.After(now):
		return fmt.Sprintf("open until %s (in %s), since %s", stamp(s.OpenUntil), short(s.OpenUntil.Sub(now)), stamp(s.Since))
	case s.Phase == breaker.Open:
		return fmt.Sprintf("open since %s; the next request is a probe", stamp(s.Since))
	case s.Phase == breaker.HalfOpen:
		return fmt.Sprintf("half-open since %s: a probe is under way, or was cut off", stamp(s.Since))
	case s.Failures > 0:
		return fmt.Sprintf("%s, %s in a row", s.Phase, plural(s.Failures, "failure"))
	}
	return s.Phase.String()
}

func (o overview) firstFaults() []string {
	if len(o.Faults) <= maxShown {
		return o.Faults
	}
	return append(o.Faults[:maxShown:maxShown], fmt.Sprintf("and %d more: trafficup state check%s", len(o.Faults)-maxShown, o.flag))
}

// inDays writes whole days as such.
func inDays(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 && d > 0 {
		return plural(int(d/day), "day")
	}
	return d.String()
}

func inBytes(n int64) string {
	for _, u := range []string{"B", "KiB", "MiB"} {
		if n < 10_000 {
			return thousands(n) + " " + u
		}
		n /= 1024
	}
	return thousands(n) + " GiB"
}
