package clockskew

import "time"

const (
	step   = 500 * time.Millisecond // that the clock takes when it is set
	steady = 500 * time.Millisecond // by which a correction may be wrong
	quiet  = time.Minute            // between two tellings
)

// state is all an estimator knows. Times in it count from the first look.
type state struct {
	start time.Time
	lead  time.Duration // of the wall over the time that has passed since start

	api, redis source
	doubt      doubt
	used       time.Duration // the correction

	told struct {
		any   bool
		at    time.Duration
		used  time.Duration
		apart bool
	}
}

// doubt is an answer of the API that is not believed alone.
type doubt struct {
	date  time.Time // zero: there is none
	where interval
}

// look returns how much time has passed, and forgets what was measured on a clock
// that was set since.
func (s *state) look(now time.Time) time.Duration {
	if s.start.IsZero() {
		s.start = now
	}
	passed := now.Sub(s.start)
	s.leads(now.Round(0).Sub(s.start.Round(0)) - passed)
	return passed
}

// leads notes by how much the wall leads. A machine that slept looks like one
// whose clock was set; so the old offset cannot be moved, only forgotten.
func (s *state) leads(lead time.Duration) {
	if (lead - s.lead).Abs() > step {
		s.lead, s.api, s.redis, s.doubt, s.used = lead, source{}, source{}, doubt{}, 0
	}
}

// heard takes in an answer of the API, and returns what to tell.
func (s *state) heard(date time.Time, iv interval, at time.Duration) string {
	if !s.believes(date, iv) {
		return ""
	}
	s.api.add(iv, at)
	return s.settle(at)
}

// believes says whether an answer counts. The Date of an old copy is too early,
// never too late: an answer that puts the API's clock further back than it is
// known to be waits for the next to say the same, with another Date. Copies that
// grow older do not.
func (s *state) believes(date time.Time, iv interval) bool {
	var known time.Duration
	if s.api.known {
		known = s.api.where().lo
	}
	was := s.doubt
	s.doubt = doubt{}
	if iv.hi >= known {
		return true
	}
	if _, ok := was.where.and(iv); ok && !was.date.IsZero() && !was.date.Equal(date) {
		return true
	}
	s.doubt = doubt{date, iv}
	return false
}

// settle brings the correction up to date, and returns what to tell, "" for nothing.
func (s *state) settle(at time.Duration) string {
	j := s.judge()
	s.used = j.correction(s.used)
	t := &s.told
	same := t.apart == j.Apart && (s.used-t.used).Abs() <= Limit
	if same || t.any && at-t.at < quiet {
		return ""
	}
	t.any, t.at, t.used, t.apart = true, at, s.used, j.Apart
	return j.text(s.used)
}

// judge sums up the sources.
func (s *state) judge() (j Judgement) {
	add := func(name string, of source) {
		if of.known {
			offset, within := of.where().mid()
			j.Sources = append(j.Sources, Source{name, offset, within})
		}
	}
	add("API", s.api)
	add("Redis", s.redis)
	if j.Known = len(j.Sources) > 0; !j.Known {
		return j
	}
	j.Offset, j.Within = j.Sources[0].Offset, j.Sources[0].Within
	if len(j.Sources) == 1 {
		return j
	}
	a, r := s.api.where(), s.redis.where()
	both, ok := a.and(r)
	if !ok {
		if j.Apart = both.lo-both.hi > Limit; j.Apart {
			return j
		}
		both = interval{min(a.lo, r.lo), max(a.hi, r.hi)}
	}
	j.Offset, j.Within = both.mid()
	return j
}
