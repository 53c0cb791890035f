package ical

import (
	"slices"
	"sort"
	"time"
)

// Span is a time, half-open.
type Span struct{ Start, End time.Time }

// Spans are times in their order, of which no two touch.
type Spans []Span

// Spans are the times of all events that lie at least partly within two moments.
func (c Calendar) Spans(from, to time.Time) (Spans, error) {
	var all Spans
	steps := 0
	for _, e := range c.events {
		starts, err := e.starts(from.Add(-longest), to, &steps)
		if err != nil {
			return nil, err
		}
		except := e.except
		if e.of == nil {
			except = append(slices.Clip(except), c.moved[e.uid]...)
		}
		for _, m := range starts {
			s := Span{m.at().UTC(), e.until(m).UTC()}
			if s.Start.Before(s.End) && s.End.After(from) && s.Start.Before(to) && !without(m, except) {
				all = append(all, s)
			}
		}
	}
	return all.joined(), nil
}

// starts are the instances of an event.
func (e event) starts(from, to time.Time, steps *int) ([]moment, error) {
	if e.rule == nil {
		return append([]moment{e.start}, e.more...), nil
	}
	all, err := e.rule.starts(e.start, from, to, steps)
	return append(all, e.more...), err
}

// joined has those that touch be one.
func (s Spans) joined() (all Spans) {
	slices.SortFunc(s, func(a, b Span) int { return a.Start.Compare(b.Start) })
	for _, next := range s {
		if n := len(all) - 1; n >= 0 && !next.Start.After(all[n].End) {
			if next.End.After(all[n].End) {
				all[n].End = next.End
			}
			continue
		}
		all = append(all, next)
	}
	return all
}

// Span returns the beginning and the end of the one t lies in, or else of the next
// one after t. Where there is none, it is one that nobody will see.
func (s Spans) Span(t time.Time) (start, end time.Time) {
	i := sort.Search(len(s), func(i int) bool { return s[i].End.After(t) })
	if i == len(s) {
		never := t.AddDate(100, 0, 0)
		return never, never
	}
	return s[i].Start, s[i].End
}
