package sandbox

import (
	"encoding/binary"
	"time"
)

// fate is what becomes of one call.
type fate struct {
	verb       verb // verbAnswer with status 0: nothing goes wrong
	status     int
	problem    string
	retryAfter time.Duration
	wait       time.Duration // before the call is handled
	hold       time.Duration // between applying and answering
}

// decide tries the rules from top to bottom. Apart from the tokens of the
// limits it changes nothing.
func (s *Server) decide(c call) fate {
	f := fate{retryAfter: noRetryAfter}
	decided := false
	for i, r := range s.scenario.rules {
		if !r.when.covers(c.elapsed, c.number) || !s.strikes(i, r.share, c) {
			continue
		}
		if r.verb == verbDelay {
			f.wait += r.delay + time.Duration(s.uniform(i, c, 1)*float64(r.jitter))
			continue
		}
		if !decided {
			decided = s.apply(i, r, c, &f)
		}
	}
	return f
}

// apply lets a rule that strikes decide; false when it has nothing to say.
func (s *Server) apply(i int, r rule, c call, f *fate) bool {
	switch r.verb {
	case verbLimit:
		if s.limits[i].AllowN(c.now, 1) {
			return false
		}
		f.status = 429
	case verbSteps:
		at := r.steps[min(c.attempt, uint64(len(r.steps)))-1]
		if at.verb == verbAnswer && at.status == 200 {
			return false
		}
		f.verb, f.status = at.verb, at.status
	case verbHold:
		f.hold = r.delay
	case verbAnswer, verbReject:
		f.status, f.problem = r.status, r.problem
	default:
		f.verb = r.verb
	}
	f.retryAfter = r.retryAfter
	return true
}

func (s *Server) strikes(i int, sh share, c call) bool {
	if sh.percent == 0 {
		return true
	}
	if sh.byRecord && c.key != "" {
		c.attempt = 0
	}
	return s.uniform(i, c, 0)*100 < sh.percent
}

// uniform returns a number in [0, 1) that depends on seed, rule, key and
// attempt alone; salt tells apart two draws of one rule.
func (s *Server) uniform(i int, c call, salt uint64) float64 {
	x := s.scenario.seed
	for _, v := range [...]uint64{
		uint64(i), salt, c.attempt,
		binary.LittleEndian.Uint64(c.hash[:8]), binary.LittleEndian.Uint64(c.hash[8:]),
	} {
		x = mix(x ^ v)
	}
	return float64(x>>11) / (1 << 53)
}

// mix is the step and finaliser of SplitMix64 (Steele, Lea, Flood: Fast
// Splittable Pseudorandom Number Generators, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
