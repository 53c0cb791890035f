package verdict

import (
	"sync"
	"time"

	"trafficup/internal/histogram"
)

// Attempt is one request that was made, or could not be made, by one path. One
// that was given up by this side has neither a status nor a fault.
type Attempt struct {
	Path     string
	Duration time.Duration // from the first byte written to the answer read

	// What the kernel measured on the connection since its last sample.
	HasLink     bool
	RTT, RTTVar time.Duration
	MinRTT      time.Duration // 0: unknown
	Segments    uint64        // with data, sent; those sent again included
	Retransmits uint64
	Lost        uint64 // of Retransmits, those not reported as needless; told, not judged by

	Status  int    // 0: no answer
	Misset  bool   // the path cannot work as it is set up: certificate, TLS version, redirect, proxy login
	Foreign bool   // the answer is not from the API: a captive portal
	Dial    bool   // no connection; together with Reset: it was refused
	Proxy   string // no connection was got through this proxy; together with Reset: it refused one itself
	Timeout bool
	Reset   bool // the connection broke, or the answer made no sense
	Wrote   bool // a part of the request was written

	Throttled    bool          // 429, or 503 with Retry-After
	WaitedByRate time.Duration // before the attempt, for the configured rate
	GateWait     time.Duration // before the attempt, for whatever the server asked: Retry-After, published or learnt ceilings
}

// Spread is a median and a 95th percentile, each at most 5 % too high.
type Spread struct{ P50, P95 time.Duration }

// Figures sums up the attempts of one path. An attempt counts at most once among
// Misset, NoDial, Foreign, Refused, Throttled, Failed, Resets and Timeouts.
type Figures struct {
	Attempts  int64
	Answered  int64 // by the API
	Measured  int64 // with a sample of the link
	Misset    int64 // that the path's settings do not allow
	NoDial    int64 // without a connection
	NoProxy   int64 // of these, got none through Proxy
	NotTaken  int64 // of these, the proxy refused
	Foreign   int64 // answered by something that is not the API
	Refused   int64 // connections
	Throttled int64 // told to come back later
	Away      int64 // of these, by 503
	Failed    int64 // answered 5xx
	Resets    int64
	Timeouts  int64 // requests that were written

	Proxy string // the last that an attempt did not get through; empty: none
	// For how long the run stood still while the breaker was open, and because the
	// server asked it to. Not summed up here: Judge's caller knows.
	Down, Asked time.Duration

	RTT, RTTVar                 Spread // RTT without delayed acknowledgements
	Service                     Spread // duration less the link's round trip, of answers that are no throttles
	Segments, Retransmits, Lost uint64

	// Sums over all attempts, also over those that went on at the same time.
	Busy, RateWait, GateWait time.Duration
}

// Collector sums up attempts by path, in some 10 KB a path. The zero value is
// ready for use. Safe for concurrent use.
type Collector struct {
	mu    sync.Mutex
	paths map[string]*sums // guarded by mu
}

type sums struct {
	f                    Figures // all but the spreads
	rtt, rttVar, service histogram.Histogram
}

// Add counts one attempt.
func (c *Collector) Add(a Attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(a.Path).add(a)
}

// Waited counts waits that no attempt followed: the run ended first.
func (c *Collector) Waited(path string, byRate, byGate time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &c.of(path).f
	f.RateWait += byRate
	f.GateWait += byGate
}

// of returns the sums of a path. Requires mu.
func (c *Collector) of(path string) *sums {
	s := c.paths[path]
	if s == nil {
		if c.paths == nil {
			c.paths = map[string]*sums{}
		}
		s = &sums{}
		c.paths[path] = s
	}
	return s
}

// Figures returns what has been counted so far, by path.
func (c *Collector) Figures() map[string]Figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]Figures, len(c.paths))
	for path, s := range c.paths {
		f := s.f
		f.RTT, f.RTTVar, f.Service = spread(&s.rtt), spread(&s.rttVar), spread(&s.service)
		all[path] = f
	}
	return all
}

func spread(h *histogram.Histogram) Spread { return Spread{h.Quantile(.5), h.Quantile(.95)} }

func (s *sums) add(a Attempt) {
	f := &s.f
	f.Attempts++
	f.Busy += a.Duration
	f.RateWait += a.WaitedByRate
	f.GateWait += a.GateWait
	s.outcome(a)
	// Whoever answered in the API's place may sit at the near end of the link.
	if a.HasLink && !foreign(a) {
		f.Measured++
		f.Segments += a.Segments
		f.Retransmits += a.Retransmits
		f.Lost += a.Lost
		s.rtt.Add(a.link())
		s.rttVar.Add(a.RTTVar)
	}
}

// outcome counts a as exactly one thing. A status outranks a fault: an answer
// that was cut off is one.
func (s *sums) outcome(a Attempt) {
	f := &s.f
	switch {
	case a.Misset:
		f.Misset++
	case foreign(a):
		f.Foreign++
	case a.Status != 0:
		s.answer(a)
	case a.Proxy != "":
		f.NoDial++
		f.NoProxy++
		f.Proxy = a.Proxy
		if a.Reset {
			f.NotTaken++
		}
	case a.Dial && a.Reset:
		f.Refused++
	case a.Dial, a.Timeout && !a.Wrote:
		f.NoDial++
	case a.Timeout:
		f.Timeouts++
	case a.Reset:
		f.Resets++
	}
}

func (s *sums) answer(a Attempt) {
	s.f.Answered++
	if a.Throttled {
		s.f.Throttled++ // said by a doorkeeper: no measure of the service's time
		if a.Status == 503 {
			s.f.Away++
		}
		return
	}
	s.service.Add(a.Duration - a.link())
	if a.Status/100 == 5 {
		s.f.Failed++
	}
}

// delayedAck is how long a receiver usually puts off an acknowledgement that
// could ride on an answer.
const delayedAck = 40 * time.Millisecond

// link returns the round trip of the link, 0 when unknown. The kernel's RTT ends
// with the acknowledgement, which a quick service sends along with its answer: up
// to 40 ms of the service's time are in it. What is above MinRTT by no more than
// that is not counted.
func (a Attempt) link() time.Duration {
	switch {
	case !a.HasLink:
		return 0
	case a.MinRTT <= 0 || a.MinRTT > a.RTT: // before its first sample the kernel says 4295 s
		return a.RTT
	}
	return max(a.MinRTT, a.RTT-delayedAck)
}

// foreign finds answers of others; 511 is a captive portal that admits it
// (RFC 6585 §6).
func foreign(a Attempt) bool { return a.Foreign || a.Status == 511 }
