// Package verdict says what held a run up: the link, the service, or a limit.
//
// A [Collector] sums up attempts by path; [Judge] goes through a table of rules,
// top down, and takes the first that holds for any path. It is pure. What the
// rules rest on: the kernel measures the link's round trip on every connection,
// and what an answer takes beyond that is the service's time.
//
// docs/verdict.md explains the rules to users.
package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The words of a verdict.
const (
	AllWell         = "all well"
	PathMisset      = "path misconfigured"
	LinkSlow        = "link slow"
	LinkLossy       = "link lossy"
	LinkDown        = "link down"
	ServiceSlow     = "service slow"
	ServiceFailing  = "service failing"
	ThrottledByThem = "throttled by them"
	ThrottledByUs   = "throttled by us"
	Maintenance     = "held by maintenance"
	Paused          = "paused on a metered uplink"

	// What ended a run, or kept it from beginning, that is neither link nor service.
	LoginRefused   = "login refused"
	RecordsRefused = "records refused"
	InputUnread    = "input unreadable"
	LocalFault     = "local fault"
	NothingSent    = "nothing sent"
)

// Run is what became of the records.
type Run struct {
	Duration  time.Duration
	Stood     time.Duration // of Duration: no path could be used
	Closed    time.Duration // of Stood, for maintenance
	Paused    time.Duration // of Stood, for the sake of what a metered uplink costs
	PausedWhy string        // which uplink carried, and when
	Delivered int64         // records, in this run
	Waiting   int64         // records that another run has to deliver
	Unread    int           // files that could not be read to their end
	First     string        // the path that is wanted most; empty: all alike
	Stop      Stop
}

// Stop is what ended a run before its input did, where that is judgement enough.
// The zero Stop is none.
type Stop struct {
	Word string // one of the constants
	Why  string
}

// Verdict is the judgement on a run.
type Verdict struct {
	Word string // one of the constants
	Path string // that the figures are of; for AllWell the busiest, empty when nothing was sent
	Why  string // one sentence, without a full stop
}

// Judge returns the verdict on a run with these figures by path. Where one rule
// holds for several paths, the one with more attempts is named. A stop goes before
// all rules.
func Judge(f map[string]Figures, run Run) Verdict {
	few := run.Waiting == 0 && answered(f) < minAnswers // too little to go by, and nothing to explain
	ruled := !few && run.Stop.Word == ""
	path, at := "", len(rules)
	for _, p := range slices.Sorted(maps.Keys(f)) {
		r := len(rules)
		if ruled && !aside(p, f, run) {
			r = firstRule(f[p], run)
		}
		if path == "" || cmp.Or(cmp.Compare(r, at), cmp.Compare(f[path].Attempts, f[p].Attempts)) < 0 {
			path, at = p, r
		}
	}
	switch {
	case run.Stop.Word != "":
		return Verdict{run.Stop.Word, path, run.Stop.Why}
	case at == len(rules):
		word, why := unruled(f, run)
		return Verdict{word, path, why}
	}
	why := "on " + path + " " + rules[at].why(f[path], run)
	if f[path].outage(run) {
		why += fmt.Sprintf("; the run stood still for %s of %s because of that", round(f[path].out()), round(run.Duration))
	}
	return Verdict{rules[at].word, path, why}
}

// aside reports whether a path carried nearly nothing of a night that was delivered:
// how it fared, held nothing up. Of the path that is wanted most that cannot be said.
func aside(path string, f map[string]Figures, run Run) bool {
	if run.Waiting > 0 || run.First == "" || path == run.First {
		return false
	}
	var all int64
	for _, p := range f {
		all += p.carried()
	}
	return share(f[path].carried(), all) < asideShare
}

// carried counts answers that were no faults.
func (f Figures) carried() int64 { return max(0, f.Answered-f.Throttled-f.Failed) }

// round keeps what matters of a time that is told.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// firstRule returns the index of the first rule that holds, len(rules) if none.
func firstRule(f Figures, run Run) int {
	for i, r := range rules {
		if r.holds(f, run) {
			return i
		}
	}
	return len(rules)
}

func answered(f map[string]Figures) (n int64) {
	for _, p := range f {
		n += p.Answered
	}
	return n
}

// unruled is the verdict for which no rule speaks.
func unruled(f map[string]Figures, run Run) (word, why string) {
	word, why = AllWell, "nothing was sent"
	switch {
	case len(f) > 0:
		why = wellBecause(f, run)
	case run.Waiting > 0 && run.most(run.Closed):
		return Maintenance, fmt.Sprintf("nothing was sent, %d records wait", run.Waiting)
	case run.Waiting > 0 && run.most(run.Paused):
		return Paused, fmt.Sprintf("nothing was sent, %d records wait; %s", run.Waiting, run.PausedWhy)
	case run.Waiting > 0:
		word, why = NothingSent, fmt.Sprintf("%d records wait", run.Waiting)
		if run.Stood > 0 {
			why += fmt.Sprintf("; the run stood still for %s of %s", round(run.Stood), round(run.Duration))
		}
	}
	if run.Unread > 0 {
		word, why = InputUnread, fmt.Sprintf("%d of the files could not be read to the end; %s", run.Unread, why)
	}
	return word, why
}

func wellBecause(f map[string]Figures, run Run) string {
	why := fmt.Sprintf("%d records were delivered in %s", run.Delivered, run.Duration.Round(time.Millisecond))
	switch n := answered(f); {
	case run.Waiting > 0:
		why += fmt.Sprintf("; neither link nor service is why %d wait", run.Waiting)
	case n < minAnswers:
		why += fmt.Sprintf("; %d answers are too few to say more", n)
	}
	return why
}
