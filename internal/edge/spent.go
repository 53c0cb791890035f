package edge

import "time"

// Spent is what the probes of an uplink sent and received, IP headers included.
type Spent struct {
	Boot   int64     `json:"boot_bytes"`  // in this boot
	Today  int64     `json:"today_bytes"` // by the calendar of this machine
	Since  time.Time `json:"since"`       // the time from which Today is
	PerDay int64     `json:"bytes_a_day"` // at the rate of today; 0: it is too early to say
}

// tooEarly is how long nothing is said of a day: at the start all is asked at once.
const tooEarly = 10 * time.Minute

// add counts bytes at a time, which begins another day as it comes.
func (s Spent) add(bytes int, now time.Time) Spent {
	y, m, d := now.Date()
	midnight := time.Date(y, m, d, 0, 0, 0, 0, now.Location())
	switch {
	case s.Since.IsZero() || s.Since.After(now):
		s.Today, s.Since = 0, now
	case s.Since.Before(midnight):
		s.Today, s.Since = 0, midnight
	}
	s.Boot += int64(bytes)
	s.Today += int64(bytes)
	s.PerDay = 0
	if past := now.Sub(s.Since); past >= tooEarly {
		s.PerDay = int64(float64(s.Today) * float64(24*time.Hour) / float64(past))
	}
	return s
}

// Spending counts for all uplinks. It is of one goroutine.
type Spending struct{ of map[string]Spent }

// NewSpending goes on from a report, where that is of this boot.
func NewSpending(r Report, boot string) *Spending {
	s := &Spending{of: map[string]Spent{}}
	for _, u := range r.Uplinks {
		if r.Boot == boot {
			s.of[u.Name] = u.Probes
		}
	}
	return s
}

// Add counts what a probe of an uplink cost.
func (s *Spending) Add(uplink string, bytes int, now time.Time) {
	s.of[uplink] = s.of[uplink].add(bytes, now)
}

// Report adds it to a report.
func (s *Spending) Report(r *Report) {
	for i, u := range r.Uplinks {
		r.Uplinks[i].Probes = s.of[u.Name]
	}
}
