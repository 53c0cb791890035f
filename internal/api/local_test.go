package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/breaker"
)

func TestFaultsOfThisMachine(t *testing.T) {
	dialed := func(call string, errno syscall.Errno) error {
		return fmt.Errorf("connect: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(call, errno)})
	}
	looked := func(e net.DNSError) error {
		e.Name = "api.test"
		return &net.OpError{Op: "dial", Net: "tcp", Err: &e}
	}
	for _, tc := range []struct {
		err error
		is  error // nil: no fault of this machine
	}{
		{dialed("socket", syscall.EMFILE), ErrLocalLimit},
		{dialed("socket", syscall.ENFILE), ErrLocalLimit},
		{dialed("connect", syscall.ENOBUFS), ErrLocalLimit},
		{dialed("connect", syscall.EADDRNOTAVAIL), ErrLocalLimit},
		{dialed("bind", syscall.EADDRINUSE), ErrLocalLimit},
		{looked(net.DNSError{Err: "dial udp 192.0.2.1:53: socket: " + syscall.EMFILE.Error()}), ErrLocalLimit},
		{dialed("bind", syscall.EADDRNOTAVAIL), ErrNoNetwork},
		{dialed("connect", syscall.ENETUNREACH), ErrNoNetwork},
		{dialed("connect", syscall.ENETDOWN), ErrNoNetwork},
		{fmt.Errorf("interface wwan0: %w", syscall.ENODEV), ErrNoNetwork},
		{looked(net.DNSError{Err: "i/o timeout", IsTimeout: true}), ErrNoNetwork},
		{looked(net.DNSError{Err: "server misbehaving", IsTemporary: true}), ErrNoNetwork},
		{looked(net.DNSError{Err: "dial udp 192.0.2.1:53: connect: network is unreachable"}), ErrNoNetwork},
		{looked(net.DNSError{Err: "no such host", IsNotFound: true}), nil},
		{dialed("connect", syscall.EHOSTUNREACH), nil},
		{dialed("connect", syscall.ECONNREFUSED), nil},
		{ErrTimeout, nil},
	} {
		for _, wrote := range []bool{false, true} {
			o := Classify(Answer{}, tc.err, wrote, time.Now(), Policy{})
			limit, network := errors.Is(o.Err, ErrLocalLimit), errors.Is(o.Err, ErrNoNetwork)
			if limit != (tc.is == ErrLocalLimit && !wrote) || network != (tc.is == ErrNoNetwork && !wrote) || !errors.Is(o.Err, tc.err) || o.Class != Retry {
				t.Errorf("%v, wrote %v: %+v", tc.err, wrote, o)
			}
			if (o.Breaker == breaker.Neutral) != limit || limit && !(strings.Contains(o.Problem, "ulimit -n") && strings.Contains(o.Problem, "--concurrency")) {
				t.Errorf("%v: verdict %v, %q", tc.err, o.Breaker, o.Problem)
			}
		}
	}
	if o := Classify(Answer{}, fmt.Errorf("%w: %w", ErrCancelled, dialed("socket", syscall.EMFILE)), false, time.Now(), Policy{}); errors.Is(o.Err, ErrLocalLimit) {
		t.Errorf("a stop is a stop: %v", o.Err)
	}
}

// Both ways of sending say it of a connection that could not be made.
func TestNothingLeftToConnectWith(t *testing.T) {
	full := func(cfg *Config) {
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}
	}
	r := record(1)
	for name, o := range map[string]Outcome{
		"own":   newTestClient(t, "https://api.test/", full).Send(t.Context(), r),
		"http2": newTestTransport(t, "https://api.test/", TransportConfig{HTTP2: true}, full).Send(t.Context(), r),
	} {
		if !errors.Is(o.Err, ErrLocalLimit) || o.Breaker != breaker.Neutral || o.Wrote || o.Class != Retry {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
