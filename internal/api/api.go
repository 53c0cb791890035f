// Package api speaks to one path of the ingestion API: it builds a request,
// writes it once, reads the answer and says what the answer means for the
// record and for the path.
//
// The invariant: one call of [Client.Send] writes at most one request. Nothing
// here resends, follows a redirect or retries a stale connection; whoever calls
// decides about the next attempt, under its own budget.
//
// [Classify] is the table of answers and is pure. [Client] is the wire: one
// request in flight has a TCP or TLS connection of its own, taken from a pool
// of idle ones.
package api

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"trafficup/internal/breaker"
)

// Errors found in Outcome.Err with errors.Is.
var (
	ErrCancelled = errors.New("cancelled")                  // the caller's context was cancelled
	ErrTimeout   = errors.New("timed out")                  // ConnectTimeout, RequestTimeout or the context's deadline passed
	ErrClosed    = errors.New("client is closed")           // Send after Close
	ErrKey       = errors.New("idempotency key unfit")      // cannot be a header value
	ErrHeader    = errors.New("header value unfit")         // run id or token cannot be a header value
	ErrAnswer    = errors.New("answer not understood")      // malformed, or endless headers
	ErrNotAPI    = errors.New("answer is not from the API") // a captive portal, or a failure dressed as 2xx
	ErrSocket    = errors.New("socket option refused")      // by the system; SocketOptions asks for what it cannot or must not do
	ErrClock     = errors.New("the clock is wrong")         // a certificate was refused while the clock is before the build date

	// Faults of this machine, met before anything was sent. The first says nothing of
	// the path: its verdict is neutral. The second is of the path's own way out, by
	// interface, source address or name server; another path may have a better one.
	ErrLocalLimit = errors.New("this machine has no socket, port or buffer left: raise ulimit -n, or lower --concurrency")
	ErrNoNetwork  = errors.New("no network on this machine")

	// Faults of the path's configuration, ConfigFault. Outcome.Problem holds their words.
	ErrRedirect    = errors.New("redirected")
	ErrCertificate = errors.New("certificate refused") // by either side
	ErrTLSVersion  = errors.New("the other side speaks only versions of TLS that are no longer safe")
)

// Class is what an answer means for the record.
type Class int

// The classes. Only Rejected condemns the record; AuthFailed and ConfigFault
// are faults of this side and stop the run instead.
const (
	Unknown     Class = iota // the zero value; Classify never returns it
	Acked                    // delivered
	Retry                    // same key, same bytes, later
	Rejected                 // this record, for good
	AuthFailed               // 401
	ConfigFault              // redirect, proxy login, certificate, socket option
)

func (c Class) String() string {
	switch c {
	case Acked:
		return "acked"
	case Retry:
		return "retry"
	case Rejected:
		return "rejected"
	case AuthFailed:
		return "auth"
	case ConfigFault:
		return "config"
	}
	return "unknown"
}

// Request is one attempt for one record.
type Request struct {
	Key     string // idempotency key
	Body    []byte // sent as it is
	RunID   string // X-Trafficup-Run, left out when empty
	Attempt int    // X-Trafficup-Attempt, from 1
	Token   string // bearer token, left out when empty
	// Timeout bounds this attempt where it is shorter than
	// Config.RequestTimeout; 0 means the latter.
	Timeout time.Duration
}

// Answer is what came back.
type Answer struct {
	Status       int
	Header       http.Header
	Body         []byte // at most 64 KiB; valid only until the connection is used again
	BodyComplete bool   // Body is all of it
}

// Outcome is the end of one attempt. Nothing in it points into a connection.
type Outcome struct {
	Class         Class
	Breaker       breaker.Verdict
	Status        int    // 0: no answer, or none that can be relied on
	Receipt       string // printable, at most 256 bytes
	Problem       string // printable, at most 1 KiB
	RetryAfter    time.Duration
	HasRetryAfter bool
	Wrote         bool // the request may have reached the server
	Throttled     bool // 429, or 503 with Retry-After
	Err           error
	Duration      time.Duration
	// Header holds what the answer says of rate limits and of the server's clock:
	// RateLimit and RateLimit-*, X-RateLimit-*, Retry-After, Date and Age. nil
	// where it says nothing.
	Header http.Header
	Link   *LinkSample // nil where the kernel does not tell, and without a connection
}

// LinkSample is what the kernel has measured on the attempt's connection.
type LinkSample struct {
	RTT, RTTVar, MinRTT time.Duration // smoothed, its variation, the least lately
	// Since this connection's last sample: data segments sent, repeats included;
	// repeats; and repeats less those the other side reports to have had
	// already (RFC 2883).
	Segments, Retransmits, Lost uint64
	DeliveryRate                uint64 // bytes/s, measured lately; 0 when not yet
}

// Policy adjusts the table. The zero value is the default.
type Policy struct {
	// RetryStatus are 4xx statuses to be retried beyond 408, 421, 425 and 429.
	// 5xx are retried whatever it says: a fault of the server never condemns a
	// record.
	RetryStatus []int
	// AcceptTypes are media types beyond JSON whose 2xx answers are acks.
	AcceptTypes []string
	// hidden are secrets of the request, which no text of an Outcome repeats.
	hidden []string
}

// Config describes one path. Zero values mean the defaults named.
type Config struct {
	URL            string            // http or https, without user info
	UserAgent      string            // "trafficup"
	KeyForm        string            // "bare" (default) or "quoted" (structured-field string)
	Headers        map[string]string // further request headers
	ConnectTimeout time.Duration     // dial and TLS handshake; 2 s
	RequestTimeout time.Duration     // one whole attempt, connecting included; 10 s
	MaxIdle        int               // idle connections kept; 64
	// MaxIdleTime is how long a connection may rest before its next use; 50 s,
	// below the 60 s after which common servers and NAT boxes drop one, often
	// without a word.
	MaxIdleTime time.Duration
	// MaxAge, give or take 10 % per connection, is how old one may become: an
	// address that moved is noticed after this long even on a busy path; 5 min.
	MaxAge time.Duration
	Socket SocketOptions
	// Unmarked hears of each connection that the system does not let have its DSCP,
	// and that goes without: no mark is worth an upload. It has to be safe for
	// concurrent use; nil: nobody hears.
	Unmarked func(error)
	TLS      *tls.Config // cloned; TLS 1.2 at least, whatever it says
	// Dial replaces the dialer, and Socket with it.
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	Policy Policy
}

// SocketOptions are set on every connection before its first packet. The zero
// value leaves all of them to the system. DSCP, Interface, UserTimeout and
// Congestion are for Linux only.
type SocketOptions struct {
	DSCP        int           // 1 to 63, in the SYN already; 0 and -1 leave it
	Interface   string        // network interface to leave by
	Source      string        // local IP address
	UserTimeout time.Duration // unacknowledged data ends the connection (RFC 5482)
	Congestion  string        // algorithm, as in tcp_available_congestion_control
	KeepAlive   time.Duration // idle time before and between probes; 15 s; negative: none
}
