package netpath

import "time"

// Windows are the maintenance windows of all paths. Windows of a path that
// overlap or meet count as one.
type Windows []Window

// endless is how far ahead an end is looked for. Windows come back every week,
// so those that leave no gap for so long never leave one.
const endless = 8 * day

// In reports whether path is in a window at t, and when that ends. For windows
// that never end, until is more than a week ahead.
func (ws Windows) In(path string, t time.Time) (until time.Time, in bool) {
	start, end, ok := ws.span(path, t)
	if !ok || t.Before(start) {
		return time.Time{}, false
	}
	return end, true
}

// Closing returns the windows in which nothing starts.
func (ws Windows) Closing() Windows {
	var closing Windows
	for _, w := range ws {
		if w.closed {
			closing = append(closing, w)
		}
	}
	return closing
}

// Past returns when work of some length is done that begins at from and rests
// inside the windows of path; of windows that never end, a time more than a week
// ahead.
func (ws Windows) Past(path string, from time.Time, work time.Duration) time.Time {
	for {
		start, end, ok := ws.span(path, from)
		if free := max(0, start.Sub(from)); !ok || work <= free {
			return from.Add(work)
		} else if work -= free; !start.After(from) && end.Sub(from) >= endless {
			return end
		}
		from = end
	}
}

func (ws Windows) spanAt(path string, t time.Time) span {
	start, end, _ := ws.span(path, t)
	return span{t, start, end}
}

// span is Window.Span over all windows of path. ok is false if it has none.
func (ws Windows) span(path string, t time.Time) (start, end time.Time, ok bool) {
	for _, w := range ws {
		if w.path != path {
			continue
		}
		if s, e := w.Span(t); !ok || s.Before(start) {
			start, end, ok = s, e, true
		}
	}
	for grown := ok; grown && end.Sub(t) < endless; {
		grown = false
		for _, w := range ws {
			if w.path != path {
				continue
			}
			if s, e := w.Span(end); !s.After(end) {
				end, grown = e, true
			}
		}
	}
	return start, end, ok
}
