package uploader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// between holds a run from one time to another.
type between struct{ from, to time.Time }

func (b between) Held(now time.Time) (string, bool) {
	return "paused: it is dear", !now.Before(b.from) && now.Before(b.to)
}

// stamps notes when intents are entered.
type stamps struct {
	*notebook
	at []time.Time
}

func (s *stamps) Intend(records []*Record) error {
	s.at = append(s.at, time.Now())
	return s.notebook.Intend(records)
}

// While it is held a run starts nothing and puts no record in doubt, also of those
// that waited for the rate when it began; it costs no attempt, no budget and no
// patience with the paths.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := between{start.Add(5 * time.Second), start.Add(time.Hour)}
		b := newBench(records(200), func(_ string, call int) Outcome {
			if call == 1 && time.Now().Before(h.from.Add(time.Second)) {
				return busy
			}
			return ok
		})
		j := &stamps{notebook: b.journal}
		parts := b.parts(j)
		parts.Hold, parts.Limiter = h, every(200*time.Millisecond)
		s, err := Run(context.Background(), context.Background(), b.cfg, parts)
		if err != nil || s.Acked != 200 || s.Retries == 0 || len(b.journal.wrong) > 0 {
			t.Fatalf("%+v, %v, %v", s.Counts, err, b.journal.wrong)
		}
		inside := func(all []time.Time) (n int) {
			for _, at := range all {
				if _, held := h.Held(at); held {
					n++
				}
			}
			return n
		}
		if calls, intents := inside(b.server.times), inside(j.at); calls != 0 || intents != 0 || len(j.at) < 2 {
			t.Errorf("%d calls and %d intents while it was held", calls, intents)
		}
		next := slices.IndexFunc(b.server.times, func(at time.Time) bool { return !at.Before(h.to) })
		if wait := b.server.times[next].Sub(h.to); wait > 2*time.Second {
			t.Errorf("goes on %s after it", wait)
		}
	})
}

// every is a Limiter that lets one through at a time, so long after the one before.
type every time.Duration

func (e every) Wait(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(e)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// What the deadline catches in a hold is left to another run, and says what held it;
// a stop by hand leaves it as always.
func TestHoldAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		deadline, stop time.Duration
		want           error
	}{
		"deadline": {deadline: 10 * time.Minute, stop: time.Hour, want: ErrDeadline},
		"signal":   {deadline: time.Hour, stop: time.Minute, want: ErrStopped},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(records(100), func(string, int) Outcome { return ok })
				b.cfg.Deadline, b.cfg.Reserve = time.Now().Add(c.deadline), 2*time.Second
				j := &stamps{notebook: b.journal}
				parts := b.parts(j)
				parts.Hold = between{time.Now(), time.Now().Add(2 * time.Hour)}
				soft, stop := context.WithTimeout(context.Background(), c.stop)
				defer stop()
				s, err := Run(context.Background(), soft, b.cfg, parts)
				if !errors.Is(err, c.want) || b.server.total() != 0 || len(j.at) != 0 || !s.Balanced() || s.Deferred+s.Halted != s.Read {
					t.Fatalf("%+v, %v", s.Counts, err)
				}
				if (s.Deferred > 0) != (c.want == ErrDeadline) {
					t.Errorf("%+v", s.Counts)
				}
				for _, r := range s.Reasons {
					if r.Bucket == Deferred && !strings.HasPrefix(r.Text, "deadline reached; paused: it is dear") {
						t.Errorf("%+v", r)
					}
				}
			})
		})
	}
}
