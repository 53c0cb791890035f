package ratelimit

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// crowd plays callers that always want to send, against a server with so many
// places, each of which serves one call at a time, in virtual time.
type crowd struct {
	cfg     AdaptiveConfig
	rtt     time.Duration
	service func(r *rand.Rand) time.Duration
	places  int
	calls   int
	mishap  func(r *rand.Rand, s *Sample) // what the link does to a call
}

type landing struct {
	at time.Time
	s  Sample
}
type landings []landing

func (a landings) Len() int           { return len(a) }
func (a landings) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a landings) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *landings) Push(x any)        { *a = append(*a, x.(landing)) }
func (a *landings) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// play returns the mean limit of the second half.
func (c crowd) play(seed uint64) float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	a := newClimb(NewAdaptive(c.cfg).climb.cfg)
	free := make([]time.Time, c.places) // when each place is free
	var under landings
	var sum float64
	now, inUse := t0, 0
	for n := range c.calls {
		for inUse < a.whole() {
			inUse++
			there := now.Add(c.rtt / 2)
			first := 0
			for i := range free {
				if free[i].Before(free[first]) {
					first = i
				}
			}
			if free[first].Before(there) {
				free[first] = there
			}
			free[first] = free[first].Add(c.service(r))
			s := Sample{Duration: free[first].Add(c.rtt / 2).Sub(now), RTT: c.rtt}
			if c.mishap != nil {
				c.mishap(r, &s)
			}
			heap.Push(&under, landing{now.Add(s.Duration), s})
		}
		l := heap.Pop(&under).(landing)
		now = l.at
		a.learn(l.s, inUse >= a.whole(), now)
		inUse--
		if 2*n >= c.calls {
			sum += a.limit
		}
	}
	return sum / float64(c.calls-c.calls/2)
}

func exponential(mean time.Duration) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return time.Duration(r.ExpFloat64() * float64(mean)) }
}
