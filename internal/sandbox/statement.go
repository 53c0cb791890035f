package sandbox

import (
	"strconv"
	"strings"
	"time"
)

const wantStatement = `a statement: seed, forget keys, answer, reject, each record, lose, hold, reset, portal, limit or delay` +
	` (or a window before it: from, until, after, for the first)`

// statement parses one line into s.
func (l *line) statement(s *Scenario) error {
	when, windowed, err := l.window()
	if err != nil {
		return err
	}
	if windowed {
		if err := l.expect(":", `":" between the window and the statement`); err != nil {
			return err
		}
	}
	if !windowed && l.accept("seed") {
		w := l.take()
		if s.seed, err = strconv.ParseUint(w, 10, 64); err != nil {
			return l.wrong(w, "a whole number, 0 or more, after seed")
		}
		return l.end()
	}
	if !windowed && l.accept("forget", "keys") {
		s.forgetKeys = true
		return l.end()
	}
	r := rule{when: when, retryAfter: noRetryAfter}
	if err := l.action(&r); err != nil {
		return err
	}
	if err := l.clauses(&r, windowed); err != nil {
		return err
	}
	s.rules = append(s.rules, r)
	return nil
}

func (l *line) end() error {
	if l.peek() != "" {
		return l.wrong(l.peek(), "the end of the line")
	}
	return nil
}

// action reads the verb and what it cannot do without.
func (l *line) action(r *rule) (err error) {
	switch w := l.take(); w {
	case "answer":
		r.verb = verbAnswer
		r.status, err = l.status(300, 599, "a status from 300 to 599 (200 is what happens anyway)")
	case "reject":
		r.verb = verbReject
		r.status, err = l.status(400, 499, "a status from 400 to 499")
	case "each":
		r.verb = verbSteps
		if !l.accept("record", ":") {
			return l.wrong(l.peek(), `"each record: " and its steps`)
		}
		err = l.steps(r)
	case "lose":
		r.verb = verbLose
		r.share, err = l.share()
	case "reset":
		r.verb = verbReset
		r.share, err = l.share()
	case "hold":
		r.verb = verbHold
		if r.share, err = l.share(); err != nil {
			return err
		}
		if err = l.expect("for", `"for" and how long the answers are held`); err != nil {
			return err
		}
		r.delay, err = l.duration("how long")
	case "portal":
		r.verb = verbPortal
	case "limit":
		r.verb = verbLimit
		err = l.limit(r)
	case "delay":
		r.verb = verbDelay
		if r.delay, err = l.duration("the delay"); err == nil && l.accept("jitter") {
			r.jitter, err = l.duration("the jitter")
		}
	default:
		return l.wrong(w, wantStatement)
	}
	return err
}

func (l *line) steps(r *rule) error {
	const want = `steps such as "503, 200": statuses, lose, reset or portal`
	for {
		switch w := l.peek(); w {
		case "lose":
			r.steps = append(r.steps, step{verb: verbLose})
		case "reset":
			r.steps = append(r.steps, step{verb: verbReset})
		case "portal":
			r.steps = append(r.steps, step{verb: verbPortal})
		case "201", "ok":
			r.steps = append(r.steps, step{status: 200})
		default:
			n, err := strconv.Atoi(w)
			if err != nil || len(w) != 3 || n != 200 && (n < 300 || n > 599) {
				if len(r.steps) > 0 && err != nil {
					return nil // a clause, or the end of the line
				}
				return l.wrong(w, want)
			}
			r.steps = append(r.steps, step{status: n})
		}
		l.next++
		if len(r.steps) > maxSteps {
			return l.wrong(l.words[l.next-1], "at most "+strconv.Itoa(maxSteps)+" steps")
		}
	}
}

func (l *line) limit(r *rule) (err error) {
	if r.rate, err = l.count("a number of calls"); err != nil {
		return err
	}
	if err = l.expect("per", `"per second", "per minute" or "per hour"`); err != nil {
		return err
	}
	switch r.per = l.take(); r.per {
	case "second", "minute", "hour":
	default:
		return l.wrong(r.per, `"second", "minute" or "hour"`)
	}
	if r.burst = r.rate; l.accept("burst") {
		r.burst, err = l.count("a burst")
	}
	return err
}

// clauses reads what may follow an action, in any order, each at most once.
func (l *line) clauses(r *rule, windowed bool) error {
	shared, closed := false, false
	for l.peek() != "" {
		got := l.peek()
		if !windowed {
			when, ok, err := l.window()
			if err != nil {
				return err
			}
			if ok {
				r.when, windowed = when, true
				continue
			}
		}
		var err error
		switch {
		case !shared && r.takesShare() && l.accept("for"):
			shared = true
			closed, err = l.forClause(r)
		case r.takesRetryAfter() && r.retryAfter == noRetryAfter && l.accept("retry", "after"):
			err = l.retryAfter(r)
		case r.verb == verbLimit && !r.published && l.accept("published"):
			r.published = true
		case !closed && r.takesProblem() && r.problem == "" && l.accept("as"):
			err = l.problem(r)
		default:
			return l.wrong(got, r.wantClause(windowed))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *rule) takesShare() bool {
	return r.verb == verbAnswer || r.verb == verbReject || r.verb == verbPortal || r.verb == verbDelay
}

func (r *rule) takesRetryAfter() bool {
	return r.verb == verbAnswer || r.verb == verbLimit || r.verb == verbSteps
}

func (r *rule) takesProblem() bool { return r.verb == verbAnswer || r.verb == verbReject }

func (r *rule) wantClause(windowed bool) string {
	var may []string
	if r.takesShare() {
		may = append(may, `"for 2% of calls"`)
	}
	if r.takesRetryAfter() {
		may = append(may, `"retry after 1s"`)
	}
	if r.verb == verbLimit {
		may = append(may, `"published"`)
	}
	if r.takesProblem() {
		may = append(may, `"as word"`)
	}
	if !windowed {
		may = append(may, `a window such as "from 5s to 8s"`)
	}
	return strings.Join(append(may, "the end of the line"), ", ") + " (each once)"
}

// forClause reads a share, or "2 calls then 200", which turns an answer into
// steps.
func (l *line) forClause(r *rule) (steps bool, err error) {
	if _, e := strconv.Atoi(l.peek()); e != nil || r.verb != verbAnswer {
		r.share, err = l.share()
		return false, err
	}
	n, err := l.calls()
	if err != nil {
		return false, err
	}
	if n >= maxSteps {
		return false, l.wrong(strconv.FormatUint(n, 10), "fewer than "+strconv.Itoa(maxSteps)+" calls")
	}
	if !l.accept("then", "200") && !l.accept("then", "201") {
		return false, l.wrong(l.peek(), `"then 200" (or, for all records together, "for the first N calls: answer …")`)
	}
	if r.problem != "" {
		return false, l.wrong("as "+r.problem, `no "as" together with "then 200"`)
	}
	for range n {
		r.steps = append(r.steps, step{status: r.status})
	}
	r.steps = append(r.steps, step{status: 200})
	r.verb, r.status = verbSteps, 0
	return true, nil
}

// retryAfter reads whole seconds, the only unit of the header's number form
// (RFC 9110 §10.2.3).
func (l *line) retryAfter(r *rule) error {
	d, err := l.duration("retry after")
	if err != nil {
		return err
	}
	if d%time.Second != 0 {
		return l.wrong(d.String(), "whole seconds, since Retry-After has no smaller unit")
	}
	r.retryAfter = d
	return nil
}

func (l *line) problem(r *rule) error {
	w := l.take()
	if w == "" || len(w) > 64 || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return l.wrong(w, "a problem name of letters, digits and hyphens")
	}
	r.problem = w
	return nil
}
