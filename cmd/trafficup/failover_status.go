package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"trafficup/internal/atomicfile"
	"trafficup/internal/edge"
)

func newFailoverStatusCommand(sys *system, asJSON *bool) *cobra.Command {
	var o failoverOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "which uplink carries, why, and what would have to happen for another one to",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			store, r, err := o.report(sys)
			if err != nil {
				return err
			}
			running, err := loopRuns(store)
			if err != nil { // not everybody may open the lock; but who runs writes
				running = time.Since(r.At).Abs() < 3*edge.SavedEvery
			}
			if *asJSON {
				return writeFailoverJSON(sys, r, running)
			}
			return unheard(writeFailover(sys, r, running))
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// probesOf says what it took to ask.
func probesOf(r edge.Report) string {
	var all []string
	for _, u := range r.Uplinks {
		text := fmt.Sprintf("%s %.1f MB", u.Name, float64(u.Probes.Today)/1e6)
		if since := u.Probes.Since; !since.IsZero() {
			text += " since " + since.Local().Format("15:04")
		}
		if u.Probes.PerDay > 0 {
			text += fmt.Sprintf(", %.1f MB a day at this rate", float64(u.Probes.PerDay)/1e6)
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// report is what the loop saved last.
func (o *failoverOptions) report(sys *system) (edge.Store, edge.Report, error) {
	store, err := o.store(sys)
	if err != nil {
		return store, edge.Report{}, &failure{exitFailed, "", err}
	}
	r, ok, err := store.Load()
	switch {
	case err != nil:
		return store, r, &failure{exitFailed, "a running failover writes it again within ten seconds", err}
	case !ok:
		return store, r, &failure{exitFailed, "start it: trafficup failover run, or give the --state-dir that it has", fmt.Errorf("no failover has run here: there is nothing in %s", store.Dir)}
	}
	return store, r, nil
}

// loopRuns reports whether a loop holds the directory. An error says that nobody can
// tell.
func loopRuns(store edge.Store) (bool, error) {
	holder, err := loopHolder(store)
	return holder != "", err
}

// loopHolder is the loop that holds the directory, for people; "": none does.
func loopHolder(store edge.Store) (string, error) {
	unlock, err := atomicfile.TryLock(store.LockPath(), "")
	if taken, ok := errors.AsType[*atomicfile.LockedError](err); ok {
		return printable(taken.Holder), nil
	}
	switch {
	case err == nil:
		return "", unlock()
	case errors.Is(err, fs.ErrNotExist): // there is no directory
		return "", nil
	}
	return "", err
}

// holdFailover keeps other loops from the directory. One that runs does not end
// soon, but status holds it for a moment.
func holdFailover(sys *system, store edge.Store) (unlock func() error, err error) {
	soon, cancel := context.WithTimeout(sys.soft, 2*time.Second)
	defer cancel()
	unlock, err = sys.lock(soon, store.LockPath(), "failover") // one word: else nobody can read who holds it
	if taken, ok := errors.AsType[*atomicfile.LockedError](err); ok {
		return nil, &failure{exitLocked, "trafficup failover status", fmt.Errorf("state directory %s is held by %s", store.Dir, printable(taken.Holder))}
	}
	if err != nil {
		return nil, &failure{exitFailed, "run it as root, or give --state-dir DIR", err}
	}
	return unlock, nil
}

// writeFailoverJSON leaves out what only the next run understands.
func writeFailoverJSON(sys *system, r edge.Report, running bool) error {
	return writeJSON(sys, struct {
		Type    string `json:"message_type"`
		Running bool   `json:"running"`
		AllDown bool   `json:"all_down"`
		edge.Report
		State  *struct{} `json:"state,omitzero"`
		Counts *struct{} `json:"counts,omitzero"`
	}{"status", running, r.State.AllDown, r, nil, nil})
}

func writeFailover(sys *system, r edge.Report, running bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "active   %s\n", printable(activeText(r)))
	if r.Astray != "" {
		fmt.Fprintf(&b, "         routes do not follow: %s\n", printable(r.Astray))
	}
	if text := notOfNow(r, running, time.Now()); text != "" {
		fmt.Fprintf(&b, "         %s\n", text)
	}
	writeUplinks(&b, r)
	fmt.Fprintf(&b, "probes   %s\n", probesOf(r))
	for _, line := range []struct{ about, text string }{{"queue", r.Shaped}, {"redis", r.Shared}} {
		if line.text != "" {
			fmt.Fprintf(&b, "%-8s %s\n", line.about, printable(line.text))
		}
	}
	for _, warning := range r.Warnings {
		fmt.Fprintln(&b, "warning:", printable(warning))
	}
	_, err := io.WriteString(sys.stdout, b.String())
	return err
}

// timeLayout is of times for people.
const timeLayout = "2006-01-02 15:04:05 MST"

// activeText says which uplink carries, and which one a person would have instead.
func activeText(r edge.Report) string {
	text := "none chosen yet: the machine's own routes decide"
	if r.Active != "" {
		text = fmt.Sprintf("%s since %s", r.Active, r.Since.Local().Format(timeLayout))
	}
	if r.Metered {
		text += ", metered"
	}
	if r.State.AllDown {
		text += ", but no uplink works"
	}
	switch f := r.State.Forced.Uplink; {
	case r.Forced == "":
	case f == r.State.Active:
		text += " (" + r.Forced + ")"
	case uint(f) < uint(len(r.Uplinks)):
		text += fmt.Sprintf("; %s is asked for (%s), and is %s", r.Uplinks[f].Name, r.Forced, r.Uplinks[f].Verdict)
	}
	return text
}

// notOfNow says of when a report is that may not be true any more; "": it is.
func notOfNow(r edge.Report, running bool, now time.Time) string {
	at := r.At.Local().Format(timeLayout)
	switch {
	case r.Removed:
		return "its routes were taken away at " + at
	case running && now.Sub(r.At) > 3*edge.SavedEvery:
		return "not saved since " + at + ": as it is may differ"
	case running:
		return ""
	case r.By == edge.ByOnce:
		return "last looked at " + at + " by once, and the routes are still so"
	}
	return "not running: this is how it was at " + at + ", and the routes are still so"
}

// writeUplinks writes a line for each.
func writeUplinks(to io.Writer, r edge.Report) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "uplink\tverdict\tsince\tusual\tlost\twhy, and what it needs")
	for i, u := range r.Uplinks {
		why := u.Why
		if u.Loaded {
			why = strings.TrimPrefix(why+"; its own load: latency not judged", "; ")
		}
		if needs := r.Outlook[i]; needs.Needs != "" {
			why = strings.TrimPrefix(why+"; needs "+needs.Needs, "; ")
			if needs.Earliest > 0 {
				why += fmt.Sprintf(", in %v at the earliest", time.Duration(needs.Earliest).Round(time.Second))
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.0f ms\t%.0f %%\t%s\n", u.Name, u.Verdict, u.Since.Local().Format("01-02 15:04:05"), u.RTTMS, u.LossPct, printable(why))
	}
	w.Flush()
}
