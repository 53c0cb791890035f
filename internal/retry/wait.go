// Package retry decides how long to wait before another attempt and how many
// retries a run may afford. It makes no requests, starts no timers and reads no
// clock: [Policy.Wait] and [ParseRetryAfter] are pure, [Budget] is a counter.
package retry

import "time"

// Policy bounds the waits and attempts of one record. The zero value waits
// nothing; start from [Default].
type Policy struct {
	Base          time.Duration // ceiling of the wait after the first failure; doubles with each further one
	Cap           time.Duration // the ceiling grows no further than this
	Floor         time.Duration // no wait is shorter, whatever the draw; it wins over a smaller Cap
	RetryAfterCap time.Duration // the longest wait a server may ask for before the record is deferred
	MaxAttempts   int           // calls for one record, the first included
}

// Default returns the policy the command's defaults stand for.
func Default() Policy {
	return Policy{
		Base:          500 * time.Millisecond,
		Cap:           20 * time.Second,
		Floor:         100 * time.Millisecond,
		RetryAfterCap: time.Minute,
		MaxAttempts:   5,
	}
}

// Wait returns the wait after the attempt-th failure (from 1; less counts as 1):
//
//	max(Floor, u * min(Cap, Base * 2^(attempt-1)))
//
// with u uniform in [0, 1): full jitter, so that senders that failed together do
// not come back together. Values of u outside the range are moved to its ends.
// The doubling saturates: no attempt number makes the wait wrap round.
func (p Policy) Wait(attempt int, u float64) time.Duration {
	ceiling := max(min(p.Base, p.Cap), 0)
	for n := 1; n < attempt && 0 < ceiling && ceiling < p.Cap; n++ {
		// Compared by subtraction: ceiling*2 may not fit.
		if ceiling >= p.Cap-ceiling {
			ceiling = p.Cap
			break
		}
		ceiling *= 2
	}
	return max(p.Floor, scale(ceiling, u), 0)
}

// scale returns u*d, held in [0, d]. Written so that NaN ends at 0, and so that
// a d near the largest int64 (which a float64 rounds up) does not overflow.
func scale(d time.Duration, u float64) time.Duration {
	if !(u > 0) {
		return 0
	}
	f := u * float64(d)
	if f >= float64(d) {
		return d
	}
	return time.Duration(f)
}
