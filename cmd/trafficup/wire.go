package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"trafficup/internal/api"
	"trafficup/internal/breaker"
	"trafficup/internal/envelope"
	"trafficup/internal/oauth"
	"trafficup/internal/ratelimit"
	"trafficup/internal/redis"
	"trafficup/internal/retry"
	"trafficup/internal/secret"
	"trafficup/internal/uploader"
)

// maxThrottles is how often one record may be told to wait before it is left
// to another run. It is generous: a throttle says nothing about the record.
const maxThrottles = 30

// rampStep is how long the requests in flight take to double at the start.
const rampStep = 100 * time.Millisecond

// newRunID names a run so that names sort by time, to the millisecond.
func newRunID(now time.Time) string {
	now = now.UTC()
	return fmt.Sprintf("%s-%03d%s", now.Format("20060102T150405Z"), now.Nanosecond()/1e6, strings.ToLower(rand.Text()[:4]))
}

func newValidator(c Config) (*envelope.Validator, error) {
	return envelope.NewValidator(c.rules())
}

func (c Config) rules() envelope.Rules {
	return envelope.Rules{IgnoreExtra: c.Envelope.ExtraFields == "ignore", Require: c.Envelope.Require, Fields: c.Envelope.Fields}
}

// workers is how many requests may be in flight at most.
func (c Config) workers() int {
	if c.Upload.Concurrency.Auto() {
		return c.Upload.MaxConcurrency
	}
	return int(c.Upload.Concurrency)
}

func uploaderConfig(c Config, now, deadline time.Time) uploader.Config {
	waits := retry.Default()
	waits.Base, waits.Cap = c.Retry.Base, c.Retry.Cap
	u := uploader.Config{
		Concurrency: c.workers(), QueueSize: c.Upload.QueueSize,
		MaxAttempts: c.Retry.MaxAttempts, MaxThrottles: maxThrottles,
		RequestTimeout: c.Upload.RequestTimeout, RetryAfterCap: c.Retry.RetryAfterCap,
		HaltAfter: c.Breaker.HaltAfter, IntakeGap: c.Retry.Base / time.Duration(c.workers()),
		Waits: waits, AcceptCorrections: c.Upload.AcceptCorrections, PoisonStop: c.Upload.PoisonStop, Ramp: rampStep,
	}
	if u.Deadline = deadline; !deadline.IsZero() {
		u.Reserve, u.NearEnd = winding(deadline.Sub(now), c.Upload.RequestTimeout)
	}
	return u
}

// limiter holds a configured rate that may change: those who wait by the old one
// ask again. It is safe for concurrent use.
type limiter struct {
	mu      sync.Mutex
	rate    *rate.Limiter
	changed chan struct{} // guarded by mu; closed when rate has changed
}

// newLimiter takes calls per second, 0 for any number, and how many at once, 0 for
// a tenth of a second's worth.
func newLimiter(perSecond float64, burst int) *limiter {
	return &limiter{rate: rate.NewLimiter(limits(perSecond, burst)), changed: make(chan struct{})}
}

func (l *limiter) set(perSecond float64, burst int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit, burst := limits(perSecond, burst)
	l.rate.SetLimit(limit)
	l.rate.SetBurst(burst)
	close(l.changed)
	l.changed = make(chan struct{})
}

// Wait returns when a call may be made, or with ctx's error.
func (l *limiter) Wait(ctx context.Context) error {
	for {
		l.mu.Lock()
		turn, changed := l.rate.Reserve(), l.changed
		l.mu.Unlock()
		wait := turn.Delay()
		if wait == 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			return nil
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
		turn.Cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func limits(perSecond float64, burst int) (rate.Limit, int) {
	if perSecond == 0 {
		return rate.Inf, burst
	}
	if burst == 0 {
		burst = max(1, int(math.Ceil(perSecond/10)))
	}
	return rate.Limit(perSecond), burst
}

// sender is a path's client with what is the same for every request of a run.
type sender struct {
	path   string // its name
	client client
	runID  string
	tokens oauth.Source     // nil: requests carry none
	steer  *ratelimit.Steer // nil: none
	shared *sharing
	masks  *secret.Redactor // tokens; what a server says may repeat them
	warn   func(string)
	picky  sync.Once // done when a warning said that the path refuses what others take
}

var classes = map[api.Class]uploader.Class{
	api.Acked: uploader.ClassAcked, api.Retry: uploader.ClassRetry, api.Rejected: uploader.ClassRejected,
	api.AuthFailed: uploader.ClassAuth, api.ConfigFault: uploader.ClassConfig,
}

func (s *sender) Send(ctx context.Context, a uploader.Attempt) uploader.Outcome {
	var token oauth.Token
	if s.tokens != nil {
		var err error
		if token, err = s.tokens.Token(ctx); err != nil {
			return noToken(err)
		}
		s.masks.AddToken(token.Value)
	}
	sent := time.Now()
	o := s.client.Send(ctx, api.Request{Key: a.Key, Body: a.Body, RunID: s.runID, Attempt: a.Number, Token: token.Value.Reveal()})
	class, ok := classes[o.Class]
	if !ok {
		class = uploader.ClassRetry
	}
	out := uploader.Outcome{
		Class: class, Verdict: fromBreaker[o.Breaker], Status: o.Status, Receipt: s.masks.Redact(secret.RedactURL(o.Receipt)), Problem: s.masks.Redact(o.Problem),
		RetryAfter: o.RetryAfter, HasRetryAfter: o.HasRetryAfter, Throttled: o.Throttled, Wrote: o.Wrote, Err: s.masked(o.Err), Duration: o.Duration,
	}
	if l := o.Link; l != nil {
		out.Link = &uploader.Link{RTT: l.RTT, RTTVar: l.RTTVar, MinRTT: l.MinRTT, Segments: l.Segments, Retransmits: l.Retransmits, Lost: l.Lost}
	}
	out.Local, out.NoNetwork = errors.Is(o.Err, api.ErrLocalLimit), errors.Is(o.Err, api.ErrNoNetwork)
	s.shared.hear(s.path, o, sent, time.Now())
	s.tell(o, sent)
	switch {
	case s.tokens == nil:
	case class == uploader.ClassAuth:
		return s.renew(ctx, token, out)
	case o.Status != 0:
		s.tokens.Accept(token.Generation, s.path, class == uploader.ClassAcked)
	}
	return out
}

// masked is err without the secrets that its words may repeat.
func (s *sender) masked(err error) error {
	if err == nil {
		return nil
	}
	if text := s.masks.Redact(err.Error()); text != err.Error() {
		return maskedError{text, err}
	}
	return err
}

type maskedError struct {
	text string
	err  error
}

func (m maskedError) Error() string { return m.text }
func (m maskedError) Unwrap() error { return m.err }

// tell lets the answer steer the path's rate. A Retry-After goes before all else
// and closes the gate. A 503 says that the server is away or has too much to do,
// not that this run is too fast: that is for the gate and the breaker.
func (s *sender) tell(o api.Outcome, sent time.Time) {
	if s.steer == nil {
		return
	}
	now := time.Now()
	if h, ok := ratelimit.ParseHints(o.Header, now); ok && !o.HasRetryAfter {
		s.steer.Hint(h, now)
	}
	switch {
	case o.Status == http.StatusTooManyRequests:
		s.steer.Throttled(sent, now, o.RetryAfter)
	case o.Status != 0:
		s.steer.OK()
	}
}

var fromBreaker = map[breaker.Verdict]uploader.Verdict{
	breaker.OK: uploader.VerdictOK, breaker.Fail: uploader.VerdictFail, breaker.Neutral: uploader.VerdictNeutral,
}

var toBreaker = map[uploader.Verdict]breaker.Verdict{
	uploader.VerdictOK: breaker.OK, uploader.VerdictFail: breaker.Fail, uploader.VerdictNeutral: breaker.Neutral,
}

// pathBreaker gives a breaker the uploader's shape. A store that cannot be
// written does not stop the upload: the breaker goes on in memory, and says so
// once.
type pathBreaker struct {
	b      *breaker.Breaker
	judged func(v breaker.Verdict, is breaker.State) // hears what became of each verdict; nil: nobody
	warn   func(string)
	once   sync.Once
}

func (p *pathBreaker) Allow(now time.Time) (func(uploader.Verdict, time.Time), time.Time, bool) {
	permit, retryAt, ok, err := p.b.Allow(now)
	p.report(err)
	if !ok {
		return nil, retryAt, false
	}
	return func(v uploader.Verdict, at time.Time) {
		p.report(p.b.Record(permit, toBreaker[v], at))
		if p.judged != nil {
			p.judged(toBreaker[v], p.b.State())
		}
	}, time.Time{}, true
}

func (p *pathBreaker) report(err error) {
	if _, says := errors.AsType[*redis.Error](err); err == nil || says { // it says so itself
		return
	}
	p.once.Do(func() { p.warn("the breaker's state is kept in memory only: " + err.Error()) })
}
