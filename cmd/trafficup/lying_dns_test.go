package main

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// namesTo answers every question for an A record with the address in ip.
func namesTo(t *testing.T, ip *atomic.Value) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 512)
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				a := dnsmessage.AResource{A: [4]byte(ip.Load().(net.IP).To4())}
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 3600}, Body: &a}}
			}
			if answer, err := m.Pack(); err == nil {
				pc.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { pc.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

// The API moves to another address while the old one stays up and says 503 on
// connections that are kept: those grow old, and the next asks for the name again.
func TestAddressThatMoves(t *testing.T) {
	const maxAge = 200 * time.Millisecond
	var ip atomic.Value
	ip.Store(net.IPv4(127, 0, 0, 1))
	resolver := namesTo(t, &ip)
	var served, moved, arrived atomic.Int64 // the latter two in ns since 1970
	old := newLiar(t, answers(func(int) string {
		if served.Add(1) <= 50 {
			return thanks
		}
		if moved.CompareAndSwap(0, time.Now().UnixNano()) {
			ip.Store(net.IPv4(127, 0, 0, 2))
		}
		return "HTTP/1.1 503 Moved\r\nContent-Length: 0\r\n\r\n"
	}))
	_, port, _ := net.SplitHostPort(old.Addr().String())
	ln, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skip("needs a second loopback address: ", err)
	}
	newer := newLiarOn(t, ln, answers(func(int) string {
		arrived.CompareAndSwap(0, time.Now().UnixNano())
		return thanks
	}))
	d := lying{
		url: "http://records.test:" + port + "/v1/logs", records: 100, config: fmt.Sprintf("paths: {primary: {max_age: %s}}", maxAge),
		dial: (&net.Dialer{Resolver: resolver}).DialContext,
		args: []string{"--max-attempts", "1000", "--breaker-threshold", "100000"},
	}.upload(t)
	d.is(t, exitOK, 100, 0)
	if keys, _, _ := newer.heard(t); keys != 50 {
		t.Errorf("%d keys came to the new address, want 50", keys)
	}
	if took := time.Duration(arrived.Load() - moved.Load()); took > 10*maxAge {
		t.Errorf("the new address was found after %v", took)
	}
}
