//go:build linux

package redislab

import (
	"maps"
	"slices"
	"testing"
	"time"

	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
)

const eight = 8 // uploads

// TestCeiling holds that eight uploads reach one ceiling together, and do not pass it.
func TestCeiling(t *testing.T) {
	program(t)
	f := newFleet(t, redis.Config{URL: redistest.Start(t).URL()}, "  shared_rate: 200\n")
	for range eight {
		f.add(30 * ceiling / eight)
	}
	f.startAll()
	f.wait()
	calls, stalls := f.answered(), f.stalls.seen()
	from, to := time.Duration(0), calls[len(calls)-1].at
	for _, c := range firsts(calls) {
		from = max(from, c.at+time.Second)
	}
	for _, c := range lasts(calls) {
		to = min(to, c.at)
	}
	f.paced(calls, stalls, from, to)
	if to-from < 20*time.Second {
		t.Errorf("the steady time is no more than %s", to-from)
	}
	share := map[string]int{}
	for _, c := range between(calls, from, to) {
		share[c.from()]++
	}
	t.Logf("calls of each: %d", slices.Sorted(maps.Values(share)))
	f.finish()
}

// paced holds that the calls in a time reach the ceiling, and that none of its
// seconds passes it.
func (f *fleet) paced(calls []call, stalls []stall, from, to time.Duration) float64 {
	f.t.Helper()
	got, span := rate(calls, stalls, from, to), to-from
	f.t.Logf("%.1f to %.1f s: %d calls, %.1f %% of the ceiling; the machine stood still for %s", from.Seconds(), to.Seconds(),
		len(between(calls, from, to)), 100*got/ceiling, lost(stalls, from, to).Round(time.Millisecond))
	if got < 0.95*ceiling && f.tells(stalls, from, to) {
		f.t.Errorf("%.1f calls a second, want at least 95 %% of %v", got, ceiling)
	}
	// Where the time begins and ends within a lease is chance.
	if n, most := len(between(calls, from, to)), ceiling*(span+lease).Seconds(); float64(n) > most {
		f.t.Errorf("%d calls in %s, want at most %.0f", n, span, most)
	}
	f.below(calls, stalls, from, to)
	return got
}

// tells reports whether a time says something about what can be reached in it. One
// in which the machine stood still for more than a tenth does not.
func (f *fleet) tells(stalls []stall, from, to time.Duration) bool {
	if lost(stalls, from, to) <= (to-from)/10 {
		return true
	}
	f.busy = true
	return false
}

// below holds that no second of a time passes the ceiling by more than a tenth.
func (f *fleet) below(calls []call, stalls []stall, from, to time.Duration) {
	f.t.Helper()
	most, at := busiest(calls, stalls, from, to)
	f.t.Logf("%.1f to %.1f s: %.1f %% in the second with the most calls, at %.2f s", from.Seconds(), to.Seconds(), 100*most/ceiling, at.Seconds())
	if most > 1.1*ceiling {
		f.t.Errorf("%.1f calls in the second at %s, want at most 110 %% of %v", most, at, ceiling)
	}
}
