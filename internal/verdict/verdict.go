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
)

// Run is what became of the records.
type Run struct {
	Duration  time.Duration
	Delivered int64 // records, in this run
	Waiting   int64 // records that another run has to deliver
}

// Verdict is the judgement on a run.
type Verdict struct {
	Word string // one of the constants
	Path string // that the figures are of; for AllWell the busiest, empty when nothing was sent
	Why  string // one sentence, without a full stop
}

// Judge returns the verdict on a run with these figures by path. Where one rule
// holds for several paths, the one with more attempts is named.
func Judge(f map[string]Figures, run Run) Verdict {
	least := len(rules)
	if run.Waiting == 0 && answered(f) < minAnswers {
		least = 0 // too little to go by, and nothing to explain
	}
	path, at := "", len(rules)
	for _, p := range slices.Sorted(maps.Keys(f)) {
		r := len(rules)
		if least > 0 {
			r = firstRule(f[p], run)
		}
		if path == "" || cmp.Or(cmp.Compare(r, at), cmp.Compare(f[path].Attempts, f[p].Attempts)) < 0 {
			path, at = p, r
		}
	}
	if at == len(rules) {
		return Verdict{AllWell, path, wellBecause(f, run)}
	}
	return Verdict{rules[at].word, path, "on " + path + " " + rules[at].why(f[path])}
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

func wellBecause(f map[string]Figures, run Run) string {
	if len(f) == 0 {
		return "nothing was sent"
	}
	why := fmt.Sprintf("%d records were delivered in %s", run.Delivered, run.Duration.Round(time.Millisecond))
	switch n := answered(f); {
	case run.Waiting > 0:
		why += fmt.Sprintf("; neither link nor service is why %d wait", run.Waiting)
	case n < minAnswers:
		why += fmt.Sprintf("; %d answers are too few to say more", n)
	}
	return why
}
