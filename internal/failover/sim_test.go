package failover

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var days = flag.Int("failover.days", 20, "how long a link is simulated")

func mean(all []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(max(len(all), 1))
}

// The rules for low satellites leave such a link less than once a day without need,
// and see an outage in 13 s; the rule that many scripts have is slower, and needless
// more often.
func TestSimulateLEO(t *testing.T) {
	span := time.Duration(*days) * 24 * time.Hour
	got := map[string]Simulated{}
	for _, preset := range []string{"leo", "strict"} {
		rules, err := Preset(preset)
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Uplinks: []Uplink{{Name: "leo"}, {Name: "lte", Metered: true}}, Rules: rules}
		rng := rand.New(rand.NewPCG(1, 2))
		r := c.Simulate([]Path{Models["leo"].Path(span, rng), Models["lte"].Path(span, rng)}, span, midnight)
		got[preset] = r
		t.Logf("%s: %d switches, %d failovers, %d needless, %.2f a day; detection %v on average, %v at most; %d outages missed; metered %v; no service %v",
			preset, r.Switches, r.Failovers, r.Needless, float64(r.Needless)/(span.Hours()/24), mean(r.Detected), slices.Max(r.Detected), r.Missed, r.Metered, r.Down)
	}
	leo, strict := got["leo"], got["strict"]
	if needless := float64(leo.Needless) / (span.Hours() / 24); needless > 1 || mean(leo.Detected) > 13*time.Second || slices.Max(leo.Detected) > 14*time.Second || leo.Missed > 0 {
		t.Errorf("leo: %.2f needless a day, %v on average, %v at most, %d missed", needless, mean(leo.Detected), slices.Max(leo.Detected), leo.Missed)
	}
	if mean(strict.Detected) < mean(leo.Detected) || len(leo.Detected) < 5 {
		t.Errorf("strict is faster, or nothing was detected: %v and %v", strict.Detected, leo.Detected)
	}
}
