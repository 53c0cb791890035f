// Package clockskew finds out how far this machine's clock is off those of the API
// and of Redis.
//
// No answer tells a clock exactly: each leaves an interval for the offset, which
// the next ones narrow. A clock is called wrong when it is off by more than
// [Limit], and the interval leaves no doubt of it.
package clockskew

import (
	"net/http"
	"sync"
	"time"
)

// Limit is how far off a clock may be.
const Limit = 2 * time.Second

// Estimator compares this machine's clock with others'. Times given to it should
// carry a monotonic reading: without one, a clock that is set goes unseen. When it
// is set, by more than half a second, all that was measured is forgotten. The zero
// value is ready; it is safe for concurrent use.
type Estimator struct {
	// Notify hears that the clock is wrong or right again, that it is off by
	// another [Limit], or that the other clocks disagree; once each, and at most
	// once a minute. It is called outside the lock, by whoever brought the
	// measurement, and must return at once. nil: nobody. It is set before use.
	Notify func(text string)

	mu    sync.Mutex
	state state // guarded by mu
}

// Date takes in an answer of the API to a request that was sent and whose answer
// was received at these times. Answers of a portal or a proxy are not for it. One
// without a Date of its own is passed over.
func (e *Estimator) Date(h http.Header, sent, received time.Time) {
	date, iv, ok := measure(h, sent, received)
	if !ok {
		return
	}
	e.mu.Lock()
	at := e.state.look(received)
	text := e.state.heard(date, iv, at)
	e.mu.Unlock()
	e.tell(text)
}

// Redis takes in that at a time the clock of Redis was ahead of ours by so much,
// behind when negative, give or take within.
func (e *Estimator) Redis(ahead, within time.Duration, at time.Time) {
	iv := interval{ahead - within, ahead + within}
	if !iv.sane() {
		return
	}
	e.mu.Lock()
	since := e.state.look(at)
	e.state.redis.add(iv, since)
	text := e.state.settle(since)
	e.mu.Unlock()
	e.tell(text)
}

func (e *Estimator) tell(text string) {
	if text != "" && e.Notify != nil {
		e.Notify(text)
	}
}

// Judge returns what is known now.
func (e *Estimator) Judge() Judgement {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.look(time.Now())
	return e.state.judge()
}

// Correction returns what to add to our clock to have the right time; 0 while the
// clock is not known to be wrong, and when the others disagree. It stays the same
// until it is surely wrong by half a second, so that times made with it are steady.
func (e *Estimator) Correction() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.look(time.Now())
	return e.state.used
}
