package uplink

import (
	"fmt"
	"time"
)

const (
	minTargets = 2 // one alone may be down itself
	tryEvery   = 5 * time.Second
)

// reach is what is known of the targets. It is a value: begin and found return
// the next one.
type reach struct {
	targets int       // 0: they are not tried
	tried   time.Time // when the last try began; zero: none
	trying  bool      // one is under way that began when they were well
	missed  int       // targets that the last one did not reach
}

// due reports whether an attempt without an answer is a reason to try the targets.
// While they are bad they are tried in any case.
func (r reach) due(now time.Time) bool {
	return r.targets >= minTargets && !r.trying && !r.bad() && now.Sub(r.tried) >= tryEvery
}

func (r reach) begin(now time.Time) reach {
	r.tried, r.trying = now, true
	return r
}

// found takes the result of the try that began at the given time.
func (r reach) found(began time.Time, missed int) reach {
	r.tried, r.trying, r.missed = began, false, missed
	return r
}

func (r reach) bad() bool { return 2*r.missed > r.targets }

func (r reach) judge() (Standing, string) {
	switch {
	case r.bad():
		return Bad, fmt.Sprintf("%d of %d targets cannot be reached", r.missed, r.targets)
	case r.trying:
		return Unsure, "no answer, and not known yet whether the targets can be reached"
	}
	return Well, ""
}
