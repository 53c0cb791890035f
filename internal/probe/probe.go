package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Fault is what a probe failed of.
type Fault string

const (
	None        Fault = "none"
	NoRoute     Fault = "no-route"     // [ErrNoRoute]: nothing was sent, or it was answered by a way that is gone
	NoSource    Fault = "no-source"    // [ErrNoSource]
	NoRights    Fault = "no-rights"    // [ErrNoRights]
	Timeout     Fault = "timeout"      // no answer
	Refused     Fault = "refused"      // a reset, or an ICMP message that there is nobody at the port
	WrongAnswer Fault = "wrong-answer" // somebody answers, but not that
	Unreachable Fault = "unreachable"  // a router says so
	Local       Fault = "local"        // this machine could not, by want of memory or files; it says nothing of the uplink
	Cancelled   Fault = "cancelled"    // the context was; it says nothing of the uplink
)

// Result is what came of a probe.
type Result struct {
	OK    bool
	RTT   time.Duration // until the whole answer, wrong ones too; 0: there was none
	Fault Fault
	Why   string // the fault in words; "" if OK
	// Bytes is what was sent and received, IP headers included, ARP and the link's
	// own not. It is an estimate in this: TCP options are taken for those of Linux,
	// and of what still comes after the last answer nothing is known.
	Bytes int
}

// Prober probes. It has no state, and is safe for concurrent use.
type Prober struct {
	Timeout time.Duration // an answer is waited for as long as this; 0: 2 s
}

// Probe asks t once by the uplink b. It returns when there is an answer or a fault.
func (p Prober) Probe(ctx context.Context, b Binding, t Target) Result {
	timeout := p.Timeout
	if timeout == 0 {
		timeout = 2 * time.Second
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	x, err := probe(within, b, t)
	r := Result{RTT: x.rtt, Bytes: x.bytes}
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		r.Fault = Cancelled
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.Fault, err = Timeout, fmt.Errorf("no answer within %v", timeout)
	default:
		r.Fault = faultOf(err)
	}
	r.OK = r.Fault == None
	if err != nil {
		r.Why = fmt.Sprintf("%s by %s: %v", t, b.Interface, err)
	}
	return r
}

// exchange is what a question and its answer cost.
type exchange struct {
	rtt   time.Duration // 0: no answer
	bytes int
}

// probe proves the way, asks, and when there is an answer proves the way again: a
// table may have been emptied meanwhile, and the question gone by another uplink.
func probe(ctx context.Context, b Binding, t Target) (exchange, error) {
	if _, err := b.Route(ctx, t.Addr.Addr()); err != nil {
		return exchange{}, err
	}
	x, err := ask(ctx, b, t)
	if err == nil {
		_, err = b.Route(context.WithoutCancel(ctx), t.Addr.Addr())
	}
	return x, err
}

// errWrongAnswer is wrapped by what is said of an answer that is not the wanted one.
var errWrongAnswer = errors.New("wrong answer")

// errUnreachable is wrapped by an error that came with an ICMP message.
var errUnreachable = errors.New("unreachable")

func faultOf(err error) Fault {
	switch {
	case err == nil:
		return None
	case errors.Is(err, ErrNoRoute):
		return NoRoute
	case errors.Is(err, ErrNoSource):
		return NoSource
	case errors.Is(err, ErrNoRights):
		return NoRights
	case errors.Is(err, errWrongAnswer):
		return WrongAnswer
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Refused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return Timeout
	case errors.Is(err, errUnreachable):
		return Unreachable
	}
	return Local
}
