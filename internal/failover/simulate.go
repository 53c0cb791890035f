package failover

import "time"

// Path is what a simulation sends its rounds by: the rounds of a recording, or
// those of a model of a link.
type Path interface {
	// At is the round of a moment.
	At(t time.Duration) Round
	// Outage is the real outage that t lies in, which a failover is for; ok is false
	// outside.
	Outage(t time.Duration) (start time.Duration, ok bool)
}

// Simulated is what decisions led to.
type Simulated struct {
	Switches  int             // all
	Failovers int             // away from what is preferred, unexpected
	Needless  int             // of them, outside an outage
	Detected  []time.Duration // from the start of an outage to the failover for it
	Missed    int             // outages of the active uplink without one
	Metered   time.Duration   // on uplinks that are paid for
	Down      time.Duration   // with an active uplink that was in an outage
	Rounds    []int           // by uplink
	Span      time.Duration   // of which something was known
}

// gapped is a Path that says nothing of some moments: nobody recorded then.
type gapped interface {
	Path
	// Known is the first moment from t on of which it says something.
	Known(t time.Duration) (from time.Duration, ok bool)
}

// known is the first moment from t on of which any path says something.
func known(paths []Path, t, span time.Duration) time.Duration {
	first := span
	for _, p := range paths {
		if from, ok := knownOf(p, t); ok {
			first = min(first, from)
		}
	}
	return first
}

func knownOf(p Path, t time.Duration) (from time.Duration, ok bool) {
	if g, ok := p.(gapped); ok {
		return g.Known(t)
	}
	return t, true
}

// Simulate runs the decision over paths, one for each uplink. wall is the time of day
// at the start. Where no path says anything, the decision does not run either.
func (c Config) Simulate(paths []Path, span time.Duration, wall time.Time) Simulated {
	r := Simulated{Rounds: make([]int, len(paths))}
	at := func(t time.Duration) Now { return Now{t, wall.Add(t)} }
	s := c.New(at(0))
	next := make([]time.Duration, len(paths))
	last := make([]time.Duration, len(paths))
	waiting := make([][]Round, len(paths)) // sent, and nothing is known of them yet
	outage, handled := time.Duration(-1), true
	for t := known(paths, 0, span); t < span; t = known(paths, t+c.Rules.Interval, span) {
		r.Span += c.Rules.Interval
		for i, p := range paths {
			for len(waiting[i]) > 0 && t >= waiting[i][0].At+c.Rules.Timeout {
				s = c.Saw(s, i, waiting[i][0])
				waiting[i] = waiting[i][1:]
			}
			from, ok := knownOf(p, t)
			if t < next[i] || !ok || t < from {
				continue
			}
			r.Rounds[i]++
			last[i] = t
			d := p.At(t)
			s = c.Link(s, i, d.Gone, at(t))
			if d.OK {
				s = c.Saw(s, i, d)
			} else {
				waiting[i] = append(waiting[i], d)
			}
		}
		var d Decision
		was := s.Active
		s, d = c.Decide(s, at(t))
		for i, every := range d.Every {
			next[i] = last[i] + every
		}
		r.count(c, paths, d, was, t, &outage, &handled)
	}
	return r
}

// count adds a round to r. outage is the last one that the active uplink was in,
// handled that it was left for it.
func (r *Simulated) count(c Config, paths []Path, d Decision, was int, t time.Duration, outage *time.Duration, handled *bool) {
	if was >= 0 {
		start, in := paths[was].Outage(t)
		if in && start != *outage {
			if !*handled {
				r.Missed++
			}
			*outage, *handled = start, false
		}
		if in {
			r.Down += c.Rules.Interval
		}
		if c.Uplinks[was].Metered {
			r.Metered += c.Rules.Interval
		}
	}
	for _, e := range d.Events {
		if e.What != EventSwitch || e.From == "" {
			continue
		}
		r.Switches++
		if d.Active < was || e.Expected {
			continue
		}
		r.Failovers++
		if start, in := paths[was].Outage(t); in {
			r.Detected = append(r.Detected, t-start)
			*handled = true
		} else {
			r.Needless++
		}
	}
}
