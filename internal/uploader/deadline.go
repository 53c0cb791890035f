package uploader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrCut tells that an attempt was ended by the run's deadline, and not by the path.
var ErrCut = errors.New("cut off by the deadline")

// noTime is said of a record for which there was no time for an attempt, and what
// took it where that is known.
func (r *run) noTime() string {
	words := ErrDeadline.Error()
	if why, held := r.held(time.Now()); held {
		words += "; " + why
	}
	return words
}

// slice is the time an attempt may take: what it wants, or what is left.
func (r *run) slice(now time.Time) (time.Duration, bool) {
	want := r.cfg.RequestTimeout
	if r.cfg.Deadline.IsZero() {
		return want, true
	}
	left := r.cfg.Deadline.Sub(now) - r.cfg.Reserve
	return min(want, left), left > 0
}

// sliceOn is the slice for an attempt on p, on which it has to suffice for a usual
// answer: less would only leave a record behind of which nobody knows.
func (r *run) sliceOn(p *Path, now time.Time) (time.Duration, bool) {
	d, ok := r.slice(now)
	if ok && d < r.cfg.RequestTimeout {
		ok = d >= r.paths[p].usual()
	}
	return d, ok
}

// late leaves a record to another run. With it ends this one, unless there is a path
// that is known to answer in the time left: what would be read now were put down
// as it comes.
func (r *run) late(j *job) {
	left, _ := r.slice(time.Now())
	if !slices.ContainsFunc(r.asGiven, func(i int) bool {
		usual := r.paths[&r.parts.Paths[i]].usual()
		return usual > 0 && usual <= left
	}) {
		r.stop(ErrDeadline)
	}
	r.finish(j, Deferred, r.noTime(), time.Time{})
}

// enoughAnswers is how many answers tell what is usual.
const enoughAnswers = 20

// answered notes how long an answer took. What a doorkeeper says is quicker than
// the service, and none.
func (s *pathState) answered(out Outcome, took time.Duration) {
	if out.Status == 0 || out.Throttled {
		return
	}
	s.mu.Lock()
	s.answers.Add(took)
	s.count++
	s.mu.Unlock()
}

// usual is how long an answer usually takes, the median; 0: not known yet.
func (s *pathState) usual() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count < enoughAnswers {
		return 0
	}
	return s.answers.Quantile(.5)
}

// cut says whether the deadline ended an attempt: it got less time than the path is
// given elsewhere, took all of it, and had no answer then. One that was abandoned
// with the run is another matter.
func (r *run) cut(ctx context.Context, out Outcome, timeout, took time.Duration) bool {
	return timeout < r.cfg.RequestTimeout && took >= timeout && ctx.Err() == nil && out.Class == ClassRetry && out.Status == 0
}

// neutral is out of an attempt that was cut: no news of the path, in words that do
// not accuse it.
func (out Outcome) neutral(took time.Duration) Outcome {
	words := fmt.Sprintf("%s after %s", ErrCut, max(took.Round(time.Millisecond), time.Millisecond))
	out.Verdict, out.Problem, out.Err = VerdictNeutral, "", told{words, errors.Join(ErrCut, out.Err)}
	return out
}

// cutOff ends a record whose attempt was cut: unknown if it may have arrived, and
// left to another run.
func (r *run) cutOff(j *job, p *Path, a Attempted) {
	r.parts.Journal.Answer(&j.rec, a, nil)
	j.remember(p, a.SentAt, a.Outcome, 0)
	// Without the duration, which would make every reason its own.
	r.finish(j, Deferred, ErrCut.Error(), time.Time{})
}
