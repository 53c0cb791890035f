package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"path/filepath"
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

func uploaderConfig(c Config, now time.Time) uploader.Config {
	waits := retry.Default()
	waits.Base, waits.Cap = c.Retry.Base, c.Retry.Cap
	u := uploader.Config{
		Concurrency: c.Upload.Concurrency, QueueSize: c.Upload.QueueSize,
		MaxAttempts: c.Retry.MaxAttempts, MaxThrottles: maxThrottles,
		RequestTimeout: c.Upload.RequestTimeout, RetryAfterCap: c.Retry.RetryAfterCap,
		HaltAfter: c.Breaker.HaltAfter, IntakeGap: c.Retry.Base / time.Duration(c.Upload.Concurrency),
		Waits: waits, AcceptCorrections: c.Upload.AcceptCorrections,
	}
	if c.Upload.Deadline > 0 {
		u.Deadline = now.Add(c.Upload.Deadline)
	}
	return u
}

// newPaths builds the ways to the API. close releases their connections.
func newPaths(sys *system, c Config, dir, runID, token string, u *ui) (paths []uploader.Path, closeAll func(), err error) {
	var store breaker.Store = breaker.NewMemory()
	if c.Breaker.Store == "file" {
		store = breaker.NewFile(filepath.Join(dir, "breaker.json"))
	}
	var clients []*api.Client
	closeAll = func() {
		for _, cl := range clients {
			cl.Close()
		}
	}
	for _, p := range []struct{ name, url string }{{"primary", c.API.Primary}, {"fallback", c.API.Fallback}} {
		if p.url == "" {
			continue
		}
		cl, err := api.NewClient(api.Config{
			URL: p.url, UserAgent: "trafficup/" + versionString(), KeyForm: c.API.KeyForm, Headers: c.API.Headers,
			ConnectTimeout: c.Upload.ConnectTimeout, RequestTimeout: c.Upload.RequestTimeout, MaxIdle: c.Upload.Concurrency, Dial: sys.dial,
			Policy: api.Policy{RetryStatus: c.Retry.Status, AcceptTypes: c.API.Accept},
		})
		if err != nil {
			closeAll()
			return nil, nil, usageError("", "path %s: %w", p.name, err)
		}
		clients = append(clients, cl)
		br := breaker.New(breaker.Config{
			Threshold: c.Breaker.Threshold, Window: c.Breaker.Window, Open: c.Breaker.Open, OpenMax: c.Breaker.OpenMax,
			ProbeLease: c.Upload.ConnectTimeout + c.Upload.RequestTimeout, Jitter: c.Breaker.Jitter,
		}, store, p.name+" "+p.url, func(from, to breaker.Phase, s breaker.State) { u.breakerChanged(p.name, from, to, s) })
		paths = append(paths, uploader.Path{
			Name: p.name, Sender: sender{cl, runID, token}, Breaker: &pathBreaker{b: br, warn: u.warn},
			Gate: new(ratelimit.Gate), Budget: retry.NewBudget(c.Retry.Budget, c.Retry.BudgetMin),
		})
	}
	return paths, closeAll, nil
}

func newLimiter(c Config) uploader.Limiter {
	if c.Upload.Rate == 0 {
		return nil
	}
	burst := c.Upload.Burst
	if burst == 0 {
		burst = max(1, int(math.Ceil(c.Upload.Rate/10)))
	}
	return rate.NewLimiter(rate.Limit(c.Upload.Rate), burst)
}

// sender is a path's client with what is the same for every request of a run.
type sender struct {
	client       *api.Client
	runID, token string
}

var classes = map[api.Class]uploader.Class{
	api.Acked: uploader.ClassAcked, api.Retry: uploader.ClassRetry, api.Rejected: uploader.ClassRejected,
	api.AuthFailed: uploader.ClassAuth, api.ConfigFault: uploader.ClassConfig,
}

func (s sender) Send(ctx context.Context, a uploader.Attempt) uploader.Outcome {
	o := s.client.Send(ctx, api.Request{Key: a.Key, Body: a.Body, RunID: s.runID, Attempt: a.Number, Token: s.token})
	class, ok := classes[o.Class]
	if !ok {
		class = uploader.ClassRetry
	}
	return uploader.Outcome{
		Class: class, Verdict: fromBreaker[o.Breaker], Status: o.Status, Receipt: o.Receipt, Problem: o.Problem,
		RetryAfter: o.RetryAfter, HasRetryAfter: o.HasRetryAfter, Throttled: o.Throttled, Wrote: o.Wrote, Err: o.Err, Duration: o.Duration,
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
