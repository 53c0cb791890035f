package sandbox

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrScenario is what every error of [ParseScenario] wraps.
var ErrScenario = errors.New("scenario")

// SyntaxError is one line of a scenario that cannot be understood.
type SyntaxError struct {
	Line int    // from 1
	Got  string // the word or phrase at fault; "" when the line ends too early
	Want string // what would be right there
}

func (e *SyntaxError) Error() string {
	got := "the line ends"
	if e.Got != "" {
		got = "found " + strconv.Quote(e.Got)
	}
	return fmt.Sprintf("scenario line %d: %s, want %s", e.Line, got, e.Want)
}

func (e *SyntaxError) Unwrap() error { return ErrScenario }

// Bounds of a script; far beyond any story worth telling.
const (
	maxScript = 64 << 10
	maxRules  = 500
	maxSteps  = 100
	maxCount  = 1_000_000_000
	maxWait   = 24 * time.Hour
)

// ParseScenario reads a script (see [Scenario]). All lines are looked at: the
// error joins one *[SyntaxError] for each line that is wrong, and wraps
// [ErrScenario].
func ParseScenario(data []byte) (Scenario, error) {
	s := Scenario{seed: 1}
	if len(data) > maxScript {
		return Scenario{}, fmt.Errorf("%w: %d bytes, at most %d are read", ErrScenario, len(data), maxScript)
	}
	var errs []error
	for i, text := range strings.Split(string(data), "\n") {
		l := line{number: i + 1, words: split(text)}
		if len(l.words) == 0 {
			continue
		}
		if err := l.statement(&s); err != nil {
			errs = append(errs, err)
		}
		if len(s.rules) > maxRules {
			errs = append(errs, fmt.Errorf("%w: line %d: more than %d statements", ErrScenario, l.number, maxRules))
			break
		}
	}
	if len(errs) > 0 {
		return Scenario{}, errors.Join(errs...)
	}
	return s, nil
}

// split cuts a line into lower-case words; a colon at the end of a word is a
// word of its own, commas vanish, and # hides the rest.
func split(text string) []string {
	text, _, _ = strings.Cut(text, "#")
	text = strings.ToLower(strings.ReplaceAll(text, ",", " "))
	return strings.Fields(strings.ReplaceAll(text, ":", " : "))
}

// line is a cursor over the words of one line.
type line struct {
	number int
	words  []string
	next   int
}

func (l *line) peek() string {
	if l.next < len(l.words) {
		return l.words[l.next]
	}
	return ""
}

func (l *line) take() string {
	w := l.peek()
	if w != "" {
		l.next++
	}
	return w
}

// accept consumes these words if they come next, all of them or none.
func (l *line) accept(words ...string) bool {
	rest := l.words[l.next:]
	if len(rest) < len(words) || !slices.Equal(rest[:len(words)], words) {
		return false
	}
	l.next += len(words)
	return true
}

func (l *line) wrong(got, want string) error {
	return &SyntaxError{Line: l.number, Got: got, Want: want}
}

func (l *line) expect(word, want string) error {
	if l.peek() != word {
		return l.wrong(l.peek(), want)
	}
	l.next++
	return nil
}

func (l *line) count(want string) (int, error) {
	w := l.take()
	n, err := strconv.ParseUint(w, 10, 32)
	if err != nil || n < 1 || n > maxCount {
		return 0, l.wrong(w, want+fmt.Sprintf(" from 1 to %d", maxCount))
	}
	return int(n), nil
}

func (l *line) duration(want string) (time.Duration, error) {
	w := l.take()
	d, err := time.ParseDuration(w)
	if err != nil || d < 0 || d > maxWait {
		return 0, l.wrong(w, want+` as a duration with a unit, such as "250ms" or "10s", at most 24h`)
	}
	return d, nil
}

func (l *line) status(low, high int, want string) (int, error) {
	w := l.take()
	n, err := strconv.Atoi(w)
	if err != nil || len(w) != 3 || n < low || n > high {
		return 0, l.wrong(w, want)
	}
	return n, nil
}

// share reads "2% of calls" or "all records".
func (l *line) share() (share, error) {
	const want = `a share such as "2% of calls", "1% of records" or "all calls"`
	var s share
	w := l.take()
	if number, ok := strings.CutSuffix(w, "%"); ok {
		p, err := strconv.ParseFloat(number, 64)
		if err != nil || math.IsNaN(p) || p <= 0 || p > 100 {
			return s, l.wrong(w, "a percentage above 0% and up to 100%")
		}
		if s.percent = p; p == 100 {
			s.percent = 0
		}
		if err := l.expect("of", `"of calls" or "of records" after the percentage`); err != nil {
			return s, err
		}
	} else if w != "all" {
		return s, l.wrong(w, want)
	}
	switch unit := l.take(); unit {
	case "calls", "answers":
	case "records":
		s.byRecord = true
	default:
		return s, l.wrong(unit, `"calls", "answers" or "records"`)
	}
	return s, nil
}

// window reads a window if one comes next.
func (l *line) window() (w window, ok bool, err error) {
	switch {
	case l.accept("from"):
		if w.from, err = l.duration("a start"); err != nil {
			return w, true, err
		}
		if l.accept("to") {
			w.to, err = l.duration("an end")
			if err == nil && w.to <= w.from {
				err = l.wrong(w.to.String(), fmt.Sprintf("an end later than %v", w.from))
			}
		}
	case l.accept("until"):
		w.to, err = l.duration("an end")
		if err == nil && w.to == 0 {
			err = l.wrong("0s", "an end later than 0s")
		}
	case l.accept("after"):
		w.afterCalls, err = l.calls()
	case l.accept("for", "the", "first"):
		w.firstCalls, err = l.calls()
	default:
		return w, false, nil
	}
	return w, true, err
}

// calls reads "100 calls".
func (l *line) calls() (uint64, error) {
	n, err := l.count("a number of calls")
	if err != nil {
		return 0, err
	}
	if !l.accept("calls") && !l.accept("call") {
		return 0, l.wrong(l.peek(), `"calls" after the number`)
	}
	return uint64(n), nil
}
