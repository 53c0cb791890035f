package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Probed is what one harmless request showed of a path.
type Probed struct {
	Connected bool                 // over TCP, to the proxy where there is one
	Handshake bool                 // TLS with the API was begun
	TLS       *tls.ConnectionState // nil: no TLS, or no answer
	Status    int                  // 0: no answer; Err says why
	Header    http.Header
	Sent      time.Time
	Took      time.Duration // from Sent to the answer, on a connection that stood
	RTT       time.Duration // as the kernel measured it, to the proxy where there is one; 0: it does not tell
	Err       error
}

// Login is what a probe shows of who asks.
type Login struct {
	Configured bool   // the Authorization among Config.Headers, if any
	Token      string // a bearer token, in its place; "": none
}

// Probe makes one HEAD request on a connection of its own, with everything that
// the client's requests have but the key, and no Authorization but that of l. It
// follows no redirect and returns within ConnectTimeout and RequestTimeout, one
// after the other. Safe for concurrent use.
func (c *Client) Probe(ctx context.Context, l Login) Probed {
	scheme := "http"
	if c.secure {
		scheme = "https"
	}
	line, _, _ := strings.Cut(string(c.head), "\r\n") // POST /path HTTP/1.1
	u, err := url.Parse(scheme + "://" + c.addr + strings.Fields(line)[1])
	if err != nil {
		return Probed{Err: err}
	}
	return probe(ctx, &Transport{target: c.target, url: u, connectTimeout: c.connectTimeout, timeout: c.timeout, tls: c.tls, dial: c.dial}, l)
}

// Probe does for a Transport what [Client.Probe] does.
func (t *Transport) Probe(ctx context.Context, l Login) Probed {
	return probe(ctx, &Transport{
		target: t.target, url: t.url, http2: t.http2, proxy: t.proxy, via: t.via,
		connectTimeout: t.connectTimeout, timeout: t.timeout, tls: t.tls, dial: t.dial,
	}, l)
}

// probe uses up t.
func probe(ctx context.Context, t *Transport, l Login) (p Probed) {
	// What is dialled and shaken may come to an end after ctx has.
	var connected, handshake atomic.Bool
	raw := make(chan net.Conn, 1)
	defer func() { p.Connected, p.Handshake = connected.Load(), handshake.Load() }()
	dial := t.dial
	t.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err == nil {
			connected.Store(true)
			raw <- c
		}
		return c, err
	}
	t.dials = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{TLSHandshakeStart: func() { handshake.Store(true) }})
	cc, err := t.connect()
	if err != nil {
		return Probed{Err: err}
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	req, err := t.harmless(ctx, l)
	if err != nil {
		return Probed{Err: err}
	}
	p.Sent = time.Now()
	resp, err := cc.RoundTrip(req)
	p.Took = time.Since(p.Sent)
	if err != nil {
		p.Err = explain(ctx, err, fmt.Sprintf("no answer%s within %v", t.via, t.timeout))
		return p
	}
	_ = resp.Body.Close() // an answer to HEAD has none
	p.Status, p.Header, p.TLS = resp.StatusCode, resp.Header, resp.TLS
	p.RTT = roundTrip(<-raw)
	return p
}

// roundTrip is the time to the other end of c and back; 0 where the kernel does
// not tell.
func roundTrip(c net.Conn) time.Duration {
	if t, ok := c.(*tls.Conn); ok { // with a proxy
		c = t.NetConn()
	}
	if s := (&conn{raw: newSocket(c)}).sample(); s != nil {
		return s.RTT
	}
	return 0
}

// harmless is the request of a run without what makes it one for a record.
func (t *Transport) harmless(ctx context.Context, l Login) (*http.Request, error) {
	if !fieldValue(l.Token) {
		return nil, fmt.Errorf("%w: token", ErrHeader)
	}
	req, err := t.request(ctx, Request{Token: l.Token}, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Method = http.MethodHead
	for _, h := range []string{"Idempotency-Key", "X-Trafficup-Attempt", "Content-Type"} {
		req.Header.Del(h)
	}
	if l.Token == "" && !l.Configured {
		req.Header.Del("Authorization")
	}
	return req, nil
}

// Built is when this program was made, or a time before that. No clock that is
// right shows an earlier one.
func Built() time.Time { return built() }
