//go:build linux

package redislab

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	ceiling = 200. // calls a second of the fleet
	lease   = 250 * time.Millisecond
)

const (
	tick   = 5 * time.Millisecond  // how often the machine is looked at
	slight = 20 * time.Millisecond // late by less is not late
	settle = 50 * time.Millisecond // in which what was held up by a stall comes after it
	unlost = 80 * time.Millisecond // after its time a call of a lease may still be made
)

// stall is a time in which nothing ran here though something was to.
type stall struct{ from, to time.Duration }

// stalls are those of the machine, as a timer of this process meets them.
type stalls struct {
	begin time.Time
	mu    sync.Mutex
	all   []stall // guarded by mu
}

// watchStalls looks until the test ends. Times are counted from begin.
func watchStalls(t *testing.T, begin time.Time) *stalls {
	s := &stalls{begin: begin}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			due := time.Since(begin) + tick
			select {
			case <-stop:
				return
			case <-time.After(tick):
			}
			if now := time.Since(begin); now-due > slight {
				s.mu.Lock()
				s.all = append(s.all, stall{due, now})
				s.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
	})
	return s
}

func (s *stalls) seen() []stall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// lost is how much of a time was lost by stalls: calls that were due then and could
// not be made when it was over.
func lost(all []stall, from, to time.Duration) (d time.Duration) {
	for _, s := range all {
		d += max(0, min(s.to-unlost, to)-max(s.from, from))
	}
	return d
}

// rate is that of the calls in a time, without what was lost of it.
func rate(calls []call, all []stall, from, to time.Duration) float64 {
	return float64(len(between(calls, from, to))) / (to - from - lost(all, from, to)).Seconds()
}

// busiest returns the second with the most calls, of all that begin with a call
// in a time, in calls a second. What comes at the end of a stall may have been sent
// at any time in it, so a second that begins there or just after is longer by that.
func busiest(calls []call, all []stall, from, to time.Duration) (most float64, at time.Duration) {
	calls = between(calls, from, to)
	end := 0
	for n, c := range calls {
		for end < len(calls) && calls[end].at < c.at+time.Second {
			end++
		}
		second := time.Second
		for _, s := range all {
			if s.from < c.at && c.at < s.to+settle {
				second += min(c.at, s.to) - s.from
			}
		}
		if r := float64(end-n) / second.Seconds(); r > most {
			most, at = r, c.at
		}
	}
	return most, at
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// every returns calls in a time, one after the other.
func every(step, from, to time.Duration) (calls []call) {
	for at := from; at < to; at += step {
		calls = append(calls, call{at: at})
	}
	return calls
}

func TestPace(t *testing.T) {
	even := every(ms(5), 0, ms(4000))
	paused := append(every(ms(5), 0, ms(1000)), every(ms(5), ms(2000), ms(4000))...)
	// Forty that were due in a stall come after it, and the others as ever.
	lump := slices.Concat(every(ms(5), 0, ms(800)), every(ms(1), ms(1000), ms(1040)), every(ms(5), ms(1040), ms(4000)))
	for name, c := range map[string]struct {
		calls         []call
		stalls        []stall
		rate, busiest float64
	}{
		"none":                           {nil, nil, 0, 0},
		"even":                           {even, nil, 200, 200},
		"a lump":                         {lump, nil, 198, 232},
		"a lump after a stall":           {lump, []stall{{ms(800), ms(1000)}}, 792 / 3.88, 200},
		"a lump long after a stall":      {lump, []stall{{ms(700), ms(900)}}, 792 / 3.88, 232},
		"a pause":                        {paused, nil, 150, 200},
		"a pause that was the machine's": {paused, []stall{{ms(1000), ms(2080)}}, 200, 200},
		"stalls before and after":        {even, []stall{{ms(-500), ms(80)}, {ms(4000), ms(5000)}}, 200, 200},
		"a stall that begins before":     {even, []stall{{ms(-500), ms(1080)}}, 800. / 3, 200},
		"short stalls":                   {even, []stall{{ms(500), ms(580)}, {ms(700), ms(740)}}, 200, 200},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rate(c.calls, c.stalls, 0, ms(4000)); math.Abs(got-c.rate) > 1e-9 {
				t.Errorf("%.3f a second, want %.3f", got, c.rate)
			}
			if got, at := busiest(c.calls, c.stalls, 0, ms(4000)); math.Abs(got-c.busiest) > 1e-9 {
				t.Errorf("%.3f in the second at %s, want %.3f", got, at, c.busiest)
			}
		})
	}
}
