package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"trafficup/internal/breaker"
)

// ErrNotHTTP2 is found in Outcome.Err with errors.Is.
var ErrNotHTTP2 = errors.New("server does not speak HTTP/2, which the path's setting http: 2 asks for")

// TransportConfig is what a Transport can do beyond a Client.
type TransportConfig struct {
	// HTTP2 speaks HTTP/2 and nothing else: chosen in the TLS handshake (ALPN), or
	// by prior knowledge where the URL is http.
	HTTP2 bool
	Proxy *url.URL // as from [ProxyFor]; nil: none
}

// Transport sends to one path by means of net/http: over HTTP/2, through a
// proxy, or both. It keeps connections of its own ([http.ClientConn]) and not
// those of [http.Transport], which sends again by itself and cannot be told to
// drop one. It is safe for concurrent use.
//
// Requests share HTTP/2 connections, sixteen each up to four connections, so
// that one that loses packets does not hold up all.
type Transport struct {
	target
	policy                  Policy
	url                     *url.URL
	http2                   bool
	proxy                   *url.URL    // as net/http is to see it
	via                     string      // " through proxy host:port", or nothing
	unnamed                 atomic.Bool // the proxy passes answers on without a Via
	connectTimeout, timeout time.Duration
	maxIdle                 int
	maxIdleTime, maxAge     time.Duration
	tls                     *tls.Config
	dial                    dialFunc
	dials                   context.Context // ended by Close: dials outlive the Send that began them
	stopDials               context.CancelFunc

	mu     sync.Mutex
	conns  []*hconn // guarded by mu
	closed bool     // guarded by mu
}

// NewTransport checks cfg and t. It connects to nothing.
func NewTransport(cfg Config, t TransportConfig) (*Transport, error) {
	to, err := newTarget(cfg)
	if err != nil {
		return nil, err
	}
	if t.HTTP2 && !to.secure && t.Proxy != nil {
		return nil, errors.New("http: 2 cannot pass a proxy without TLS; use https in the url, or proxy: none")
	}
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("api url: %w", err)
	}
	tr := &Transport{
		target: to, policy: cfg.Policy, url: u, http2: t.HTTP2,
		connectTimeout: positive(cfg.ConnectTimeout, 2*time.Second), timeout: positive(cfg.RequestTimeout, 10*time.Second),
		maxIdle: positive(cfg.MaxIdle, 64), maxIdleTime: positive(cfg.MaxIdleTime, 50*time.Second), maxAge: positive(cfg.MaxAge, 5*time.Minute),
	}
	if tr.dial, err = NewDialer(cfg); err != nil {
		return nil, err
	}
	if to.secure {
		// HTTP/1.1 is offered beside HTTP/2 to learn that it is the former the
		// server speaks, and not that the handshake failed.
		protos := []string{"h2", "http/1.1"}
		if !t.HTTP2 {
			protos = protos[1:]
		}
		tr.tls = cfg.tlsConfig(to.host, protos...)
	}
	if t.Proxy != nil {
		tr.useProxy(cfg, *t.Proxy)
	}
	tr.dials, tr.stopDials = context.WithCancel(context.Background())
	return tr, nil
}

func (t *Transport) useProxy(cfg Config, proxy url.URL) {
	t.via = " through proxy " + proxy.Host
	if proxy.Scheme == "https" {
		t.dial = secureDial(t.dial, cfg, &proxy)
		if proxy.Port() == "" {
			proxy.Host += ":443"
		}
		proxy.Scheme = "http" // over the TLS connection that dial makes
	}
	t.proxy = &proxy
}

// Send makes one attempt and writes at most one request, as [Client.Send] does.
func (t *Transport) Send(ctx context.Context, r Request) (o Outcome) {
	start := time.Now()
	defer func() { o.Duration = time.Since(start) }()
	policy := t.judging(t.policy, r)
	if err := t.check(r); err != nil {
		return t.judge(Answer{}, err, false, policy)
	}
	timeout := t.timeout
	if r.Timeout > 0 {
		timeout = min(timeout, r.Timeout)
	}
	attempt, cancel := context.WithDeadline(ctx, start.Add(timeout))
	defer cancel()
	cn, err := t.take(attempt)
	if err != nil {
		if err == attempt.Err() {
			err = explain(ctx, err, fmt.Sprintf("no connection to %s%s within %v", t.addr, t.via, timeout))
		}
		return t.judge(Answer{}, err, false, policy)
	}
	var begun atomic.Bool
	a, reusable, err := t.exchange(attempt, cn, r, &begun)
	if err != nil {
		err = explain(ctx, err, fmt.Sprintf("no full answer%s within %v", t.via, timeout))
	}
	silent := errors.Is(err, ErrTimeout)
	lost := err != nil && !errors.Is(err, ErrCancelled) && !unprocessed(err) && cn.cc.Err() != nil
	t.release(cn, a.Status != 0, reusable && !silent)
	if silent || lost {
		t.distrust(start.Add(time.Since(start) / 2))
	}
	return t.judge(a, err, begun.Load() || a.Status != 0, policy)
}

// judge adds to Classify what only HTTP/2 and proxies can answer.
func (t *Transport) judge(a Answer, err error, wrote bool, p Policy) Outcome {
	turnedAway := err != nil && a.Status == 0 && unprocessed(err)
	o := Classify(a, err, wrote && !turnedAway, time.Now(), p)
	switch {
	case turnedAway:
		o.Breaker = breaker.Neutral
	case errors.Is(err, ErrProxyLogin), errors.Is(err, ErrNotHTTP2):
		o.Class, o.Breaker = ConfigFault, breaker.Neutral
	case a.Status == http.StatusProxyAuthRequired && t.proxy != nil:
		o.Err, o.Problem = ErrProxyLogin, ErrProxyLogin.Error()
	case t.relayed() && o.Class == Acked:
		t.unnamed.CompareAndSwap(false, a.Header["Via"] == nil)
	case t.relayed() && a.Status != 0 && ownAnswer(a, t.unnamed.Load()):
		o.Class, o.Breaker = Retry, breaker.Fail
		o.Err = fmt.Errorf("%w: the proxy %s gave it", ErrNotAPI, t.proxy.Host)
		o.Problem = clip(fmt.Sprintf("the proxy's own answer: %s", o.Problem), maxProblem)
	}
	return o
}

// h2StreamError takes the shape of net/http's own, which has no name outside but
// lets itself be found by a struct of the same fields.
type h2StreamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e h2StreamError) Error() string { return fmt.Sprintf("stream %d: code %d", e.StreamID, e.Code) }

const (
	refusedStream  = 0x7 // RFC 9113 §7
	http11Required = 0xd
	goneAway       = "http2: Transport received Server's graceful shutdown GOAWAY"
	drivenAway     = "http2: Transport received GOAWAY from server ErrCode:" // the first stream, after the last that counts
	goingAway      = "http2: client conn not usable"
	goneBefore     = "http2: client conn could not be established" // closed before its first stream
)

// unprocessed reports that the server says, or that it is sure, that the request
// was not looked at: its stream was refused, or came after the last that a
// GOAWAY admits (RFC 9113 §8.7), or the connection was closing before it was
// written. net/http has no values for the latter, only these words.
func unprocessed(err error) bool {
	if se, ok := errors.AsType[h2StreamError](err); ok {
		return se.Code == refusedStream
	}
	text := err.Error()
	return strings.HasSuffix(text, goneAway) || strings.HasSuffix(text, goingAway) || strings.HasSuffix(text, goneBefore) || strings.HasPrefix(text, drivenAway)
}

// wantsHTTP1 reports that the server refuses to answer over HTTP/2.
func wantsHTTP1(err error) bool {
	se, ok := errors.AsType[h2StreamError](err)
	return ok && se.Code == http11Required
}
