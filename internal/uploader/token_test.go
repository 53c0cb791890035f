package uploader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var (
	stale   = Outcome{Class: ClassAuth, Verdict: VerdictNeutral, Status: 401, Renewed: true}
	noToken = Outcome{Class: ClassRetry, Verdict: VerdictNeutral, NoToken: true, RetryAfter: 10 * time.Second, Err: errors.New("token: server down")}
)

// A record that was refused for its token goes again with the new one: it costs
// neither a retry nor budget, and is no news about the path.
func TestStaleTokenIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(100), func(_ string, call int) Outcome {
			if call == 1 {
				return stale
			}
			return ok
		})
		b.budget.have = 0
		b.cfg.MaxAttempts = 1
		s, err := b.run(context.Background())
		if err != nil || s.Acked != 100 || s.Calls != 200 || b.br.opened != 0 {
			t.Fatalf("%+v, %v, opened %d", s, err, b.br.opened)
		}
	})
}

// Refused with the new token, too, the run ends: no letters, and at most one more
// call for each that was in flight.
func TestRefusedWithFreshToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(100), nil)
		b.server.answer = func(string, int) Outcome {
			if b.server.total() <= b.cfg.Concurrency {
				return stale
			}
			return Outcome{Class: ClassAuth, Verdict: VerdictNeutral, Status: 401, Err: errors.New("fresh token refused")}
		}
		s, err := b.run(context.Background())
		if !errors.Is(err, ErrAuth) || b.server.total() > 2*b.cfg.Concurrency || len(b.shelf.letters) != 0 || s.Halted != s.Read {
			t.Fatalf("%d calls, %+v, %v", b.server.total(), s, err)
		}
	})
}

// A source that always has another token does not keep a record going for ever.
func TestAlwaysAnotherToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(1), func(string, int) Outcome { return stale })
		if s, err := b.run(context.Background()); !errors.Is(err, ErrAuth) || s.Calls != 1+maxRenewals {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}

// Without a token nothing is sent and nothing condemned; when there is one again
// all goes on.
func TestNoTokenForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := newBench(records(50), func(string, int) Outcome {
			if time.Since(start) < 2*time.Minute {
				return noToken
			}
			return ok
		})
		b.cfg.HaltAfter, b.cfg.MaxAttempts = 5*time.Minute, 1
		s, err := b.run(context.Background())
		if err != nil || s.Acked != 50 || s.Calls != 50 || s.Retries != 0 {
			t.Fatalf("%+v, %v", s, err)
		}
		// Each record in the window asks once in ten seconds.
		if asked, most := b.server.total()-50, 13*(b.cfg.QueueSize+2*b.cfg.Concurrency+50); asked > most {
			t.Errorf("asked for a token %d times in two minutes, at most %d wanted", asked, most)
		}
	})
}

func TestNoTokenForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(50), func(string, int) Outcome { return noToken })
		b.cfg.HaltAfter = time.Minute
		start := time.Now()
		s, err := b.run(context.Background())
		if !errors.Is(err, ErrNoToken) || s.Calls != 0 || s.Halted != s.Read || len(b.shelf.letters) != 0 || !s.Balanced() {
			t.Fatalf("%+v, %v", s, err)
		}
		if d := time.Since(start); d > 2*time.Minute {
			t.Errorf("halted after %s", d)
		}
	})
}
