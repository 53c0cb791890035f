package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// hconn is one connection of a Transport, or the attempt at one.
type hconn struct {
	ready chan struct{} // closed when cc or err is set
	cc    *http.ClientConn
	err   error

	// Guarded by Transport.mu.
	users   int
	retired bool      // no longer in Transport.conns; closed after its last user
	rested  time.Time // when a user left last
	heard   time.Time // the last sign of life
	expires time.Time
}

// connect dials, passes the proxy and shakes hands within ConnectTimeout.
func (t *Transport) connect() (*http.ClientConn, error) {
	ctx, cancel := context.WithTimeout(t.dials, t.connectTimeout)
	defer cancel()
	scheme := "http"
	if t.secure {
		scheme = "https"
	}
	hs := &handshake{first: make(chan byte, 1)}
	rt, traced := t.roundTripper(ctx, hs)
	cc, err := rt.NewClientConn(traced, scheme, t.addr)
	if err == nil && t.http2 {
		if err = hs.http2(ctx, t.secure); err != nil {
			cc.Close()
		}
	}
	switch {
	case err == nil:
		return cc, nil
	case t.dials.Err() != nil:
		return nil, ErrClosed
	}
	return nil, explain(ctx, fmt.Errorf("connect%s: %w", t.via, err), fmt.Sprintf("no connection to %s%s within %v", t.addr, t.via, t.connectTimeout))
}

// handshake is what the beginning of a connection shows of the other side.
type handshake struct {
	tls   tls.ConnectionState
	first chan byte // the first byte read without TLS; closed where none came
}

// http2 returns nil when the other side speaks HTTP/2. Without TLS it shows by
// the first frame, which a server sends unasked (RFC 9113 §3.4); waiting for it
// costs a round trip.
func (hs *handshake) http2(ctx context.Context, secure bool) error {
	if secure {
		if hs.tls.NegotiatedProtocol != "h2" {
			return ErrNotHTTP2
		}
		return nil
	}
	select {
	case b, ok := <-hs.first:
		if !ok {
			return io.ErrUnexpectedEOF
		}
		if b != 0 { // where a frame begins with its length, HTTP/1.1 begins with an H
			return ErrNotHTTP2
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listened passes on the first byte read.
type listened struct {
	net.Conn
	once  sync.Once
	first chan byte
}

func (l *listened) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.once.Do(func() {
		if n > 0 {
			l.first <- p[0]
		}
		close(l.first)
	})
	return n, err
}

// roundTripper returns what makes one connection, with pings that suit its round
// trip: the time of its slowest step until net/http begins to speak HTTP/2.
func (t *Transport) roundTripper(ctx context.Context, hs *handshake) (*http.Transport, context.Context) {
	h2 := &http.HTTP2Config{}
	h2.SendPingTimeout, h2.PingTimeout = pings(0)
	var began time.Time
	var rtt time.Duration
	took := func(since time.Time) {
		rtt = max(rtt, time.Since(since))
		h2.SendPingTimeout, h2.PingTimeout = pings(rtt)
	}
	rt := &http.Transport{
		Protocols: t.protocols(), HTTP2: h2, DisableCompression: true, MaxResponseHeaderBytes: maxHeader, IdleConnTimeout: t.maxIdleTime,
		OnProxyConnectResponse: connected,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			defer took(time.Now())
			c, err := t.dial(ctx, network, addr)
			if err == nil && t.http2 && !t.secure {
				c = &listened{Conn: c, first: hs.first}
			}
			return c, err
		},
	}
	if t.secure {
		rt.TLSClientConfig = t.tls.Clone()
	}
	if t.proxy != nil {
		rt.Proxy = http.ProxyURL(t.proxy)
	}
	return rt, httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeStart: func() { began = time.Now() },
		TLSHandshakeDone: func(s tls.ConnectionState, _ error) {
			hs.tls = s
			took(began)
		},
	})
}

func (t *Transport) protocols() *http.Protocols {
	p := new(http.Protocols)
	switch {
	case !t.http2:
		p.SetHTTP1(true)
	case t.secure:
		p.SetHTTP1(true)
		p.SetHTTP2(true)
	default:
		p.SetUnencryptedHTTP2(true)
	}
	return p
}

// pings says after which silence a connection is asked for a sign of life, and
// how long that may take before it counts as dead.
func pings(rtt time.Duration) (silence, answer time.Duration) {
	return min(max(2*time.Second, 10*rtt), 15*time.Second), max(time.Second, 5*rtt)
}

// exchange writes r and reads the answer. Status is set once its header is in,
// even if reading the body fails. reusable tells that cn can take another. begun is
// set when the header has left: a request that waits for a stream, or is more than
// the server takes, stays here. One that leaves after exchange has returned
// finds no record to follow it.
func (t *Transport) exchange(ctx context.Context, cn *hconn, r Request, begun *atomic.Bool) (a Answer, reusable bool, err error) {
	wrote := make(chan error, 1)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { begun.Store(true) },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			select {
			case wrote <- i.Err:
			default: // it was said before
			}
		},
	})
	body := &payload{rest: r.Body}
	defer body.Close()
	req, err := t.request(ctx, r, body)
	if err != nil {
		return Answer{}, true, err
	}
	resp, err := cn.cc.RoundTrip(req)
	if err != nil {
		if wantsHTTP1(err) {
			err = fmt.Errorf("%w: %w", ErrNotHTTP2, err)
		}
		return Answer{}, t.http2, err
	}
	defer resp.Body.Close()
	a = Answer{Status: resp.StatusCode, Header: resp.Header}
	a.Body, a.BodyComplete, err = readBody(nil, resp.Body)
	reusable = a.Status != http.StatusMisdirectedRequest
	if !t.http2 {
		reusable = err == nil && reusable && a.BodyComplete && !resp.Close && a.Status != http.StatusRequestTimeout && body.drained()
	}
	if err != nil {
		return a, reusable, fmt.Errorf("read answer: %w", err)
	}
	if a.Status/100 == 2 {
		// A success before the record has left cannot mean all of it.
		select {
		case err = <-wrote:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return a, false, fmt.Errorf("write request: %w", err)
		}
	}
	return a, reusable, nil
}

// request builds the same request that a Client writes, from the same bytes.
// Without GetBody nothing can be sent twice.
func (t *Transport) request(ctx context.Context, r Request, body io.ReadCloser) (*http.Request, error) {
	n := int64(len(r.Body))
	r.Body = nil
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(t.appendTo(nil, r))))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	req.URL, req.RequestURI = t.url, ""
	req.Header.Del("Content-Length")
	req.ContentLength, req.Body = n, body
	if n == 0 {
		req.Body = http.NoBody
	}
	return req.WithContext(ctx), nil
}

// payload hands out a record until it is closed: net/http may still be about to
// read when the answer is in.
type payload struct {
	mu     sync.Mutex
	rest   []byte // guarded by mu
	closed bool   // guarded by mu
}

var errPayloadClosed = errors.New("record is no longer being sent")

func (p *payload) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, errPayloadClosed
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	if len(p.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (p *payload) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	return nil
}

func (p *payload) drained() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.rest) == 0
}
