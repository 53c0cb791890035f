package api

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// nameServer answers every question for an A record with the address in ip, on
// its one UDP socket, until the test ends.
func nameServer(t *testing.T, ip *atomic.Value) {
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
			end := 12 + bytes.IndexByte(b[12:n], 0) + 5 // header; name, type and class
			a := append([]byte{b[0], b[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, b[12:end]...)
			if b[end-3] == 1 {
				a[7] = 1
				a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4)
				a = append(a, ip.Load().(net.IP).To4()...)
			}
			pc.WriteTo(a, from)
		}
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = before; pc.Close(); <-done })
}

// The API moves to another address, and the old one stays up and only says 503.
func TestAddressThatMoves(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*Config)
		renew bool
		moved bool
	}{
		"renewed":              {nil, true, true},
		"connections grow old": {func(c *Config) { c.MaxAge = 1 }, false, true},
		"neither":              {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var ip atomic.Value
			ip.Store(net.IPv4(127, 0, 0, 1))
			nameServer(t, &ip)
			old := newRawServer(t, always("HTTP/1.1 503 Moved\r\nContent-Length: 0\r\n\r\n"))
			_, port, _ := net.SplitHostPort(old.Addr().String())
			ln, err := net.Listen("tcp", "127.0.0.2:"+port)
			if err != nil {
				lacks(t, "a second loopback address: "+err.Error())
			}
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })}
			go srv.Serve(ln)
			defer srv.Close()
			c := newTestClient(t, "http://api.records.test:"+port+"/", tc.edit)
			for range 2 {
				if o := c.Send(t.Context(), record(1)); o.Status != 503 {
					t.Fatalf("before: %+v", o)
				}
			}
			ip.Store(net.IPv4(127, 0, 0, 2))
			if tc.renew {
				c.Renew()
			}
			if o := c.Send(t.Context(), record(1)); (o.Class == Acked) != tc.moved {
				t.Errorf("after: %+v", o)
			}
		})
	}
}

func TestNameThatDoesNotResolve(t *testing.T) {
	c := newTestClient(t, "http://nowhere.invalid/", func(cfg *Config) { cfg.ConnectTimeout = 5 * time.Second })
	if o := c.Send(t.Context(), record(1)); o.Class != Retry || o.Wrote || !strings.Contains(o.Problem, "nowhere.invalid") {
		t.Errorf("%+v", o)
	}
}
