package main

import (
	"fmt"
	"time"

	"trafficup/internal/sharedlimit"
)

// shared is what a report says of it.
type shared struct {
	Calls     sharedCalls `json:"redis_calls"`
	Away      string      `json:"redis_away,omitzero"` // why, at the end
	Ceiling   float64     `json:"ceiling,omitzero"`
	Uploaders int         `json:"uploaders,omitzero"` // that shared it last
	Expired   int64       `json:"calls_unused,omitzero"`
	Uplink    string      `json:"own_uplink,omitzero"`     // what is wrong with it
	Unsent    int64       `json:"latencies_lost,omitzero"` // of calls
}

// limited tells that one ceiling was shared.
func (s *shared) limited() bool { return s != nil && s.Ceiling > 0 }

type sharedCalls struct {
	OK      uint64 `json:"ok"`
	Timeout uint64 `json:"timeout"`
	Open    uint64 `json:"open"`
	Error   uint64 `json:"error"`
}

// report returns nil where nothing was shared.
func (s *sharing) report() *shared {
	if s == nil || s.client == nil {
		return nil
	}
	r := &shared{Calls: sharedCalls(s.client.Calls()), Unsent: s.latency.Dropped()}
	if err := s.client.Paused(); err != nil {
		r.Away = printable(err.Error())
	}
	if s.limit != nil {
		st := s.limit.Stats()
		r.Ceiling, r.Uploaders, r.Expired = st.Ceiling, st.Nodes, st.Expired
	}
	if s.uplink != nil {
		r.Uplink, _ = s.uplink.Bad(time.Now())
		r.Uplink = printable(r.Uplink)
	}
	return r
}

// skewS is the clock's offset in seconds for a report; nil: not known.
func (s *sharing) skewS() *float64 {
	if s == nil || s.clock == nil {
		return nil
	}
	j := s.clock.Judge()
	if !j.Known {
		return nil
	}
	seconds := j.Offset.Round(time.Millisecond).Seconds()
	return &seconds
}

// skewWords say how far the clock is off; "": not surely wrong.
func (s *sharing) skewWords() string {
	if s == nil || s.clock == nil {
		return ""
	}
	j := s.clock.Judge()
	switch {
	case j.Apart:
		return fmt.Sprintf("clocks of %s and %s disagree: ours is off by %s and by %s", j.Sources[0].Name, j.Sources[1].Name, -j.Sources[0].Offset.Round(time.Millisecond), -j.Sources[1].Offset.Round(time.Millisecond))
	case j.Skew() && j.Offset > 0:
		return fmt.Sprintf("clock of this machine is %s slow", j.Offset.Round(time.Second))
	case j.Skew():
		return fmt.Sprintf("clock of this machine is %s fast", -j.Offset.Round(time.Second))
	}
	return ""
}

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
