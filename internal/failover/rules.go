package failover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Rules are the thresholds of a decision. Times are positive, counts at least 1.
type Rules struct {
	Interval time.Duration // between rounds of the active uplink
	Timeout  time.Duration // of a probe

	// An uplink is down after Down bad rounds in a row, or BadOf bad ones among the
	// last Of, or without carrier or address for Debounce.
	Down, BadOf, Of int
	Debounce        time.Duration

	// It is degraded when the share Loss of the rounds of LossOver was bad, or Slow
	// rounds more than not took longer than its usual time times SlowFactor, and
	// longer than that plus SlowBy. A fixed limit would condemn a satellite far away.
	Loss       float64
	LossOver   time.Duration
	Slow       int
	SlowFactor float64
	SlowBy     time.Duration

	// It is up again, also from degraded, after Up good rounds in a row that took UpFor.
	// Where all others are down, Rescue good rounds in a row are enough.
	Up     int
	UpFor  time.Duration
	Rescue int

	// Suspect bad rounds of the active uplink in a row have the others looked at as
	// often as it; Fresh is the age of the last good round of one to switch to.
	Suspect int
	Fresh   time.Duration

	// An uplink that is preferred has to wait for Dwell after a switch, twice as long
	// with each failover, DwellMax at most; half as long after each Calm without one.
	Dwell, DwellMax, Calm time.Duration

	// Start is how long the first decision waits for the verdict on all.
	Start time.Duration

	// Standby is the time between rounds of an uplink that is not active,
	// StandbyMetered of one whose traffic is paid for.
	Standby, StandbyMetered time.Duration

	// Lead is how long before a window its uplink is left, Grace how long after it
	// failures are still expected.
	Lead, Grace time.Duration
}

// leo fits low satellites: their handovers and short obstructions are no outage.
// Measured against a model of such a link: 0.4 needless switches a day, an outage
// is seen after 12.5 s.
var leo = Rules{
	Interval: time.Second, Timeout: time.Second,
	Down: 12, BadOf: 12, Of: 20, Debounce: 2 * time.Second,
	Loss: 0.4, LossOver: time.Minute, Slow: 30, SlowFactor: 3, SlowBy: 300 * time.Millisecond,
	Up: 30, UpFor: time.Minute, Rescue: 3,
	Suspect: 3, Fresh: time.Minute,
	Dwell: 2 * time.Minute, DwellMax: 30 * time.Minute, Calm: 6 * time.Hour,
	Start: 15 * time.Second, Standby: 5 * time.Second, StandbyMetered: 30 * time.Second,
	Lead: time.Minute, Grace: 10 * time.Minute,
}

var presets = map[string]func() Rules{
	"leo": func() Rules { return leo },
	"geo": func() Rules { r := leo; r.Timeout = 4 * time.Second; return r },
	"lte": func() Rules { r := leo; r.Timeout = 3 * time.Second; return r },
	// strict is the rule that many scripts have: three failures, five seconds apart.
	"strict": func() Rules {
		r := leo
		r.Interval, r.Down, r.BadOf, r.Of, r.Suspect = 5*time.Second, 3, 3, 3, 1
		r.Up, r.UpFor, r.Dwell, r.DwellMax = 3, 15*time.Second, 0, 0
		return r
	},
}

// Preset returns the rules of a name: leo, geo, lte or strict.
func Preset(name string) (Rules, error) {
	if f, ok := presets[name]; ok {
		return f(), nil
	}
	return Rules{}, fmt.Errorf("preset %q: want %s", name, strings.Join(slices.Sorted(maps.Keys(presets)), ", "))
}

// Dwell is how long an uplink that is preferred has to wait after a switch, as things
// stand.
func (c Config) Dwell(s State) time.Duration { return c.Rules.dwell(s.Level) }

// dwell is that at a level of damping.
func (r Rules) dwell(level int) time.Duration {
	d := r.Dwell
	for range level - 1 {
		if d >= r.DwellMax {
			break
		}
		d *= 2
	}
	return min(d, max(r.DwellMax, r.Dwell))
}
