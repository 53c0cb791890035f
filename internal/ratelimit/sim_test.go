package ratelimit

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// night plays workers that send as fast as a Steer, and an Adaptive where there
// is one, let them, over a link to a server with a token bucket, in virtual time.
// They begin as those of a run do: one, and every 100 ms twice as many.
type night struct {
	workers int
	permits *AdaptiveConfig // nil: as many as there are workers
	rtt     time.Duration
	rate    float64 // the server's, calls per second
	burst   int
	length  time.Duration
	jitter  func(n int) time.Duration                              // of the n-th call on its way there
	change  func(at time.Duration, l *rate.Limiter, now time.Time) // the server's mood, before each call
	headers headers                                                // what it says with each answer
	after   time.Duration                                          // the Retry-After of a refusal; 0: none
	seed    uint64                                                 // of the spread behind the gate
	unlucky float64                                                // the part of the calls refused whatever the rate is
}

// answer is a call on its way back.
type answer struct {
	at, sent time.Time
	refused  bool
	header   http.Header
}

type answers []answer

func (a answers) Len() int           { return len(a) }
func (a answers) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a answers) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *answers) Push(x any)        { *a = append(*a, x.(answer)) }
func (a *answers) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// score counts calls by the second in which they were answered.
type score struct{ ok, refused []int }

// between returns the goodput and the refused part of all calls, in seconds.
func (s score) between(from, to int) (goodput, refused float64) {
	var ok, no int
	for i := from; i < to; i++ {
		ok, no = ok+s.ok[i], no+s.refused[i]
	}
	return float64(ok) / float64(to-from), float64(no) / max(float64(ok+no), 1)
}

func (n night) play() score {
	var (
		s       = NewSteer()
		server  = rate.NewLimiter(rate.Limit(n.rate), n.burst)
		end     = t0.Add(n.length)
		seconds = int(n.length / time.Second)
		result  = score{make([]int, seconds), make([]int, seconds)}
		begun   = 1
		idle    = 1
		line    = 0 // behind the gate, before the Steer
		let     = 0 // through by the Steer, and waiting for a permit
		climb   = newClimb(AdaptiveConfig{Min: n.workers, Max: n.workers})
		held    = false
		under   answers
		calls   int
		gate    Gate
		parked  []time.Time // workers that found the gate closed
		r       = rand.New(rand.NewPCG(n.seed, 2))
		luck    = rand.New(rand.NewPCG(n.seed, 3))
		now     = t0
		arrived time.Time
	)
	if n.permits != nil {
		climb = NewAdaptive(*n.permits).climb
	}
	for now.Before(end) {
		doubled := now.Sub(t0) / (100 * time.Millisecond)
		if more := min(n.workers, 1<<min(doubled, 20)) - begun; more > 0 {
			begun, idle = begun+more, idle+more
		}
		d := time.Duration(math.MaxInt64)
		if begun < n.workers {
			d = t0.Add((doubled + 1) * 100 * time.Millisecond).Sub(now)
		}
		// All who are free come to the gate; those it does not let pass come again.
		for idle > 0 {
			idle--
			parked = append(parked, now)
		}
		for i := 0; i < len(parked); i++ {
			if parked[i].After(now) {
				d = min(d, parked[i].Sub(now))
				continue
			}
			if wait := gate.Delay(now, r.Float64()); wait > 0 {
				parked[i] = now.Add(wait)
				d = min(d, wait)
				continue
			}
			parked = slices.Delete(parked, i, i+1)
			i--
			line++
		}
		if line > 0 {
			wait := s.ask(now, held)
			if held = wait > 0; !held {
				line, let = line-1, let+1
			}
			d = min(d, wait, look)
		}
		if let > 0 && len(under) < climb.whole() {
			d = 0
			let--
			calls++
			there := now.Add(n.rtt / 2)
			if n.jitter != nil {
				there = there.Add(n.jitter(calls))
				if there.Before(arrived) {
					there = arrived // no call overtakes another
				}
				arrived = there
			}
			if n.change != nil {
				n.change(there.Sub(t0), server, there)
			}
			a := answer{at: there.Add(n.rtt / 2), sent: now, refused: luck.Float64() < n.unlucky || !server.AllowN(there, 1)}
			if n.headers != nil {
				a.header = http.Header{}
				n.headers(a.header, server, there, a.refused)
			}
			heap.Push(&under, a)
		}
		if d == 0 {
			continue
		}
		next := end
		if d < math.MaxInt64 {
			next = now.Add(d)
		}
		if len(under) == 0 || next.Before(under[0].at) {
			now = next
			continue
		}
		a := under[0]
		now = a.at
		if !now.Before(end) {
			break
		}
		climb.learn(Sample{Duration: now.Sub(a.sent), RTT: n.rtt, Shrink: a.refused}, len(under) >= climb.whole(), now)
		heap.Pop(&under)
		idle++
		if a.header != nil {
			if h, ok := ParseHints(a.header, now); ok {
				s.Hint(h, now)
			}
		}
		second := int(now.Sub(t0) / time.Second)
		if a.refused {
			s.Throttled(a.sent, now, n.after)
			gate.Close(now.Add(n.after), now)
			result.refused[second]++
		} else {
			s.OK()
			result.ok[second]++
		}
	}
	return result
}

// asked is what the workers could send at most, of what the server bears.
func (n night) asked() float64 { return min(n.rate, float64(n.workers)/n.rtt.Seconds()) }

func (n night) String() string {
	return fmt.Sprintf("burst %d, %s, %d workers", n.burst, n.rtt, n.workers)
}

// linkTime is the round trip of post.
const linkTime = 50 * time.Millisecond

// post sends one record over a link in virtual time and tells whether it was
// refused.
func post(h http.Handler, key string) bool {
	time.Sleep(linkTime / 2)
	req := httptest.NewRequest(http.MethodPost, "/v1/logs", strings.NewReader("{}"))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	time.Sleep(linkTime / 2)
	return rec.Code == http.StatusTooManyRequests
}
