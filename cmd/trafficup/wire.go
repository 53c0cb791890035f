package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"trafficup/internal/api"
	"trafficup/internal/breaker"
	"trafficup/internal/envelope"
	"trafficup/internal/ratelimit"
	"trafficup/internal/retry"
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
	v, err := envelope.NewValidator(envelope.Rules{
		IgnoreExtra: c.Envelope.ExtraFields == "ignore", Require: c.Envelope.Require, Fields: c.Envelope.Fields,
	})
	if err != nil {
		return nil, usageError("", "envelope: %w", err)
	}
	return v, nil
}

// workers is how many requests may be in flight at most.
func (c Config) workers() int {
	if n, err := strconv.Atoi(c.Upload.Concurrency); err == nil {
		return n
	}
	return c.Upload.MaxConcurrency
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

// newLimiter holds a configured rate; nil: there is none.
func newLimiter(perSecond float64, burst int) uploader.Limiter {
	if perSecond == 0 {
		return nil
	}
	if burst == 0 {
		burst = max(1, int(math.Ceil(perSecond/10)))
	}
	return rate.NewLimiter(rate.Limit(perSecond), burst)
}

// sender is a path's client with what is the same for every request of a run.
type sender struct {
	client       client
	runID, token string
	steer        *ratelimit.Steer // nil: none
}

var classes = map[api.Class]uploader.Class{
	api.Acked: uploader.ClassAcked, api.Retry: uploader.ClassRetry, api.Rejected: uploader.ClassRejected,
	api.AuthFailed: uploader.ClassAuth, api.ConfigFault: uploader.ClassConfig,
}

func (s *sender) Send(ctx context.Context, a uploader.Attempt) uploader.Outcome {
	sent := time.Now()
	o := s.client.Send(ctx, api.Request{Key: a.Key, Body: a.Body, RunID: s.runID, Attempt: a.Number, Token: s.token})
	class, ok := classes[o.Class]
	if !ok {
		class = uploader.ClassRetry
	}
	out := uploader.Outcome{
		Class: class, Verdict: fromBreaker[o.Breaker], Status: o.Status, Receipt: o.Receipt, Problem: o.Problem,
		RetryAfter: o.RetryAfter, HasRetryAfter: o.HasRetryAfter, Throttled: o.Throttled, Wrote: o.Wrote, Err: o.Err, Duration: o.Duration,
	}
	if l := o.Link; l != nil {
		out.Link = &uploader.Link{RTT: l.RTT, RTTVar: l.RTTVar, MinRTT: l.MinRTT, Segments: l.Segments, Retransmits: l.Retransmits, Lost: l.Lost}
	}
	s.tell(o, sent)
	return out
}

// tell lets the answer steer the path's rate. A Retry-After goes before all else
// and closes the gate.
func (s *sender) tell(o api.Outcome, sent time.Time) {
	if s.steer == nil {
		return
	}
	now := time.Now()
	if h, ok := ratelimit.ParseHints(o.Header, now); ok && !o.HasRetryAfter {
		s.steer.Hint(h, now)
	}
	switch {
	case o.Throttled:
		s.steer.Throttled(sent, now)
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
	b    *breaker.Breaker
	warn func(string)
	once sync.Once
}

func (p *pathBreaker) Allow(now time.Time) (func(uploader.Verdict, time.Time), time.Time, bool) {
	permit, retryAt, ok, err := p.b.Allow(now)
	p.report(err)
	if !ok {
		return nil, retryAt, false
	}
	return func(v uploader.Verdict, at time.Time) { p.report(p.b.Record(permit, toBreaker[v], at)) }, time.Time{}, true
}

func (p *pathBreaker) report(err error) {
	if err != nil {
		p.once.Do(func() { p.warn("the breaker's state is kept in memory only: " + err.Error()) })
	}
}

// readToken returns the bearer token, without the line end an editor left.
func readToken(c Config) (string, error) {
	token := c.API.Auth.Token
	if f := c.API.Auth.TokenFile; f != "" {
		b, err := readSmall(f)
		if err != nil {
			return "", usageError("", "token file: %w", err)
		}
		if token = strings.TrimSpace(strings.TrimPrefix(string(b), "\ufeff")); token == "" {
			return "", usageError("", "token file %s is empty", f)
		}
	}
	for _, r := range token {
		if r <= ' ' || r > '~' {
			return "", usageError("", "the token holds a character that no header may carry (its value is not shown)")
		}
	}
	return token, nil
}
