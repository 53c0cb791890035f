package edge

import (
	"testing"
	"time"
)

// As long as no uplink works connections are left as they are.
func TestNothingIsCutWhileAllIsDown(t *testing.T) {
	before, down, after := 0, 0, 0
	play(t, 10*time.Minute, func(m *machine, r *Runner) {
		m.answer = func(_, _ int, t time.Duration) bool { return t < 2*time.Minute || t > 6*time.Minute }
		m.cutting = func(t time.Duration) {
			switch {
			case t < 2*time.Minute:
				before++
			case t > 150*time.Second && t < 6*time.Minute:
				down++
			case t > 6*time.Minute:
				after++
			}
		}
	})
	if before == 0 || down > 0 || after == 0 {
		t.Errorf("cut was called %d times before, %d times while all was down, and %d after", before, down, after)
	}
}
