package main

import (
	"fmt"

	"trafficup/internal/sharedlimit"
)

// lines tell of the ceiling that was shared, and that Redis was not there for it.
func (s *shared) lines() (all []string) {
	if s == nil {
		return nil
	}
	switch {
	case !s.limited():
	case s.Calls.OK == 0:
		all = append(all, fmt.Sprintf("ceiling of %g calls per second was not shared: each uploader had its part, this one %.3g (redis.uploaders: %d)",
			s.Ceiling, s.Ceiling/float64(max(s.Uploaders, 1)), s.Uploaders))
	default:
		all = append(all, fmt.Sprintf("ceiling of %g calls per second shared by %s", s.Ceiling, plural(s.Uploaders, "uploader")))
	}
	switch {
	case s.Away != "":
		all = append(all, "redis away at the end: "+s.Away)
	case s.Calls.OK == 0:
		all = append(all, "redis never answered")
	case s.Calls.Open > 0:
		all = append(all, fmt.Sprintf("redis gave no answer for a part of the run: %s not made", plural(int(s.Calls.Open), "call")))
	}
	return all
}

// throttled continues the words for a run that its own limits held back, where one
// of these is the shared ceiling. class is that of its calls.
func (s *shared) throttled(class string) string {
	if !s.limited() {
		return ""
	}
	words := fmt.Sprintf("; --shared-rate %g is for all uploaders together, %d by now", s.Ceiling, s.Uploaders)
	switch priorities[class] {
	case sharedlimit.Replay:
		words += ", and the calls of uploads go before those of a replay (--priority)"
	case sharedlimit.Backfill:
		words += ", and the calls of uploads and replays go before those of a back-fill (--priority)"
	}
	return words
}
