package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"trafficup/internal/breaker"
)

// scripted speaks HTTP/2 frame by frame. answer is called for each request that
// was read to its end, or whose header was, as early says.
type scripted struct {
	early    bool
	settings []http2.Setting // of each connection
	answer   func(s *speaker, stream uint32, n int)
	conns    atomic.Int64
}

type speaker struct {
	*http2.Framer
	conn  net.Conn
	mu    sync.Mutex  // around what answer writes from a goroutine of its own
	mute  atomic.Bool // answers nothing any more, pings neither
	index int64       // of the connection, from 1
}

func (s *speaker) reply(stream uint32, status string, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var buf bytes.Buffer
	hpack.NewEncoder(&buf).WriteField(hpack.HeaderField{Name: ":status", Value: status})
	s.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: buf.Bytes(), EndHeaders: true, EndStream: end})
}

func (x *scripted) serve(c net.Conn) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	s := &speaker{Framer: http2.NewFramer(c, c), conn: c, index: x.conns.Add(1)}
	s.WriteSettings(x.settings...)
	for n := 0; ; {
		f, err := s.ReadFrame()
		if err != nil {
			return
		}
		if s.mute.Load() {
			continue
		}
		ended := false
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				s.mu.Lock()
				s.WriteSettingsAck()
				s.mu.Unlock()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				s.mu.Lock()
				s.WritePing(true, f.Data)
				s.mu.Unlock()
			}
		case *http2.HeadersFrame:
			ended = x.early
		case *http2.DataFrame:
			ended = f.StreamEnded() && !x.early
		}
		if ended {
			n++
			x.answer(s, f.Header().StreamID, n)
		}
	}
}

// dial serves a Transport's connections in memory.
func (x *scripted) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go x.serve(buffered(far))
	return near, nil
}

// buffered lets a server write without a reader, as a socket does.
func buffered(c net.Conn) net.Conn {
	b := &bufferedConn{Conn: c, out: make(chan []byte, 1000)}
	go func() {
		for p := range b.out {
			if _, err := c.Write(p); err != nil {
				break
			}
		}
		c.Close()
		for range b.out {
		}
	}()
	return b
}

type bufferedConn struct {
	net.Conn
	once sync.Once
	out  chan []byte
}

func (b *bufferedConn) Write(p []byte) (int, error) { b.out <- bytes.Clone(p); return len(p), nil }
func (b *bufferedConn) Close() error                { b.once.Do(func() { close(b.out) }); return nil }

func TestFramesAreJudged(t *testing.T) {
	for _, tc := range []struct {
		name    string
		early   bool
		size    int
		answer  func(s *speaker, stream uint32, n int)
		class   Class
		verdict breaker.Verdict
		wrote   bool
	}{
		{"ack", false, 10, func(s *speaker, id uint32, _ int) { s.reply(id, "204", true) }, Acked, breaker.OK, true},
		{"refused stream", false, 10, func(s *speaker, id uint32, _ int) { s.WriteRSTStream(id, http2.ErrCodeRefusedStream) }, Retry, breaker.Neutral, false},
		{"reset", false, 10, func(s *speaker, id uint32, _ int) { s.WriteRSTStream(id, http2.ErrCodeInternal) }, Retry, breaker.Fail, true},
		{"asks for HTTP/1.1", false, 10, func(s *speaker, id uint32, _ int) { s.WriteRSTStream(id, http2.ErrCodeHTTP11Required) }, ConfigFault, breaker.Neutral, true},
		{"goodbye before it", false, 10, func(s *speaker, id uint32, _ int) { s.WriteGoAway(id-2, http2.ErrCodeNo, nil); s.mute.Store(true) }, Retry, breaker.Neutral, false},
		{"angry goodbye before it", false, 10, func(s *speaker, id uint32, _ int) {
			s.WriteGoAway(id-2, http2.ErrCodeEnhanceYourCalm, nil)
			s.mute.Store(true)
		}, Retry, breaker.Neutral, false},
		{"goodbye, then the answer", false, 10, func(s *speaker, id uint32, _ int) {
			s.WriteGoAway(id, http2.ErrCodeNo, nil)
			s.reply(id, "204", true)
		}, Acked, breaker.OK, true},
		{"goodbye, then the end", false, 10, func(s *speaker, id uint32, _ int) {
			s.WriteGoAway(id, http2.ErrCodeNo, nil)
			s.conn.Close()
		}, Retry, breaker.Fail, true},
		{"hangs up", false, 10, func(s *speaker, _ uint32, _ int) { s.conn.Close() }, Retry, breaker.Fail, true},
		{"success before the record", true, 1 << 20, func(s *speaker, id uint32, _ int) {
			s.reply(id, "204", true)
			s.WriteRSTStream(id, http2.ErrCodeNo)
		}, Retry, breaker.Fail, true},
		{"success, and never reads", true, 1 << 20, func(s *speaker, id uint32, _ int) { s.reply(id, "204", true) }, Retry, breaker.Fail, true},
		{"refusal before the record", true, 1 << 20, func(s *speaker, id uint32, _ int) { s.reply(id, "422", true) }, Rejected, breaker.OK, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The first answer, to a small record, is always well.
				x := &scripted{early: tc.early, answer: func(s *speaker, id uint32, n int) {
					if n == 1 {
						s.reply(id, "204", true)
						return
					}
					tc.answer(s, id, n)
				}}
				tr := newTestTransport(t, "http://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) { cfg.Dial = x.dial })
				defer tr.Close()
				if o := tr.Send(t.Context(), record(1)); o.Class != Acked {
					t.Fatalf("%+v", o)
				}
				r := record(2)
				r.Body = bytes.Repeat([]byte("x"), tc.size)
				o := tr.Send(t.Context(), r)
				if o.Class != tc.class || o.Breaker != tc.verdict || o.Wrote != tc.wrote {
					t.Errorf("%+v", o)
				}
			})
		})
	}
}

// A connection that has gone silent is found by a ping or by the attempt's
// timeout, whichever is first, and costs one attempt either way.
func TestSilentConnectionIsLeft(t *testing.T) {
	for _, tc := range []struct {
		name    string
		timeout time.Duration
		within  time.Duration
		is      error
	}{
		{"by ping", 20 * time.Second, 3 * time.Second, nil},
		{"by timeout", 2 * time.Second, 2 * time.Second, ErrTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &scripted{answer: func(s *speaker, id uint32, n int) {
					if s.index == 1 && n == 3 {
						s.mute.Store(true)
						return
					}
					s.reply(id, "204", true)
				}}
				tr := newTestTransport(t, "http://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) { cfg.Dial, cfg.RequestTimeout = x.dial, tc.timeout })
				defer tr.Close()
				for i := range 10 {
					start := time.Now()
					o := tr.Send(t.Context(), record(i))
					if i != 2 && o.Class == Acked {
						continue
					}
					if i != 2 || o.Class != Retry || o.Breaker != breaker.Fail || !o.Wrote || tc.is != nil && !errors.Is(o.Err, tc.is) {
						t.Fatalf("send %d: %+v", i, o)
					}
					if d := time.Since(start); d != tc.within {
						t.Errorf("noticed after %v, want %v", d, tc.within)
					}
				}
				if n := x.conns.Load(); n != 2 {
					t.Errorf("%d connections", n)
				}
			})
		})
	}
}

// After one attempt timed out, the connections that were silent beside it are
// not tried either; those that answered meanwhile are.
func TestTimeoutDistrustsSilentNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		x := &scripted{answer: func(s *speaker, id uint32, _ int) {
			if down.Load() && s.index <= 4 {
				s.mute.Store(true)
				return
			}
			go func() { time.Sleep(100 * time.Millisecond); s.reply(id, "204", true) }()
		}}
		tr := newTestTransport(t, "http://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) { cfg.Dial, cfg.RequestTimeout = x.dial, time.Second })
		defer tr.Close()
		tr.Warm(t.Context(), 64)
		time.Sleep(time.Millisecond)
		if n := x.conns.Load(); n != 4 {
			t.Fatalf("%d connections", n)
		}
		down.Store(true)
		if o := tr.Send(t.Context(), record(0)); !errors.Is(o.Err, ErrTimeout) {
			t.Fatalf("%+v", o)
		}
		for i := range 5 {
			if o := tr.Send(t.Context(), record(i)); o.Class != Acked {
				t.Fatalf("send %d: %+v", i, o)
			}
		}
		if n := x.conns.Load(); n != 5 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestRequestsAreSpread(t *testing.T) {
	for _, tc := range []struct{ senders, conns int }{{1, 1}, {16, 1}, {17, 2}, {48, 3}, {64, 4}, {90, 4}} {
		synctest.Test(t, func(t *testing.T) {
			x := &scripted{answer: func(s *speaker, id uint32, _ int) {
				time.AfterFunc(time.Second, func() { s.reply(id, "204", true) })
			}}
			tr := newTestTransport(t, "http://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) { cfg.Dial = x.dial })
			defer tr.Close()
			var wg sync.WaitGroup
			for i := range tc.senders {
				wg.Go(func() {
					for range 5 {
						if o := tr.Send(t.Context(), record(i)); o.Class != Acked {
							t.Errorf("%+v", o)
						}
					}
				})
			}
			wg.Wait()
			if n := int(x.conns.Load()); n != tc.conns {
				t.Errorf("%d senders: %d connections, want %d", tc.senders, n, tc.conns)
			}
		})
	}
}

func TestTransportConnectionsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &scripted{answer: func(s *speaker, id uint32, _ int) { s.reply(id, "204", true) }}
		tr := newTestTransport(t, "http://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) { cfg.Dial = x.dial })
		defer tr.Close()
		send := func(conns int64) {
			t.Helper()
			if o := tr.Send(t.Context(), record(1)); o.Class != Acked {
				t.Errorf("%+v", o)
			}
			if n := x.conns.Load(); n != conns {
				t.Errorf("%d connections, want %d", n, conns)
			}
		}
		send(1)
		time.Sleep(49 * time.Second)
		send(1)
		time.Sleep(51 * time.Second)
		send(2) // it rested too long
		for range 12 {
			time.Sleep(29 * time.Second)
			tr.Send(t.Context(), record(1))
		}
		send(3) // it grew old
		tr.Renew()
		send(4)
		tr.Close()
		if o := tr.Send(t.Context(), record(1)); !errors.Is(o.Err, ErrClosed) || o.Breaker != breaker.Neutral {
			t.Errorf("%+v", o)
		}
	})
}

func TestTransportCancelAndConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		tr := newTestTransport(t, "https://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) { cfg.Dial, cfg.ConnectTimeout = never, 0 })
		defer tr.Close()
		start := time.Now()
		o := tr.Send(t.Context(), record(1))
		if !errors.Is(o.Err, ErrTimeout) || o.Wrote || o.Breaker != breaker.Fail || time.Since(start) != 2*time.Second {
			t.Errorf("%+v after %v", o, time.Since(start))
		}
		r := record(1)
		r.Timeout = time.Second
		if o := tr.Send(t.Context(), r); !errors.Is(o.Err, ErrTimeout) || o.Wrote || o.Duration != time.Second {
			t.Errorf("%+v", o)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if o := tr.Send(ctx, record(1)); !errors.Is(o.Err, ErrCancelled) || o.Breaker != breaker.Neutral || o.Wrote {
			t.Errorf("%+v", o)
		}
	})
}

func TestPings(t *testing.T) {
	for _, tc := range []struct{ rtt, silence, answer time.Duration }{
		{0, 2 * time.Second, time.Second},
		{200 * time.Millisecond, 2 * time.Second, time.Second},
		{600 * time.Millisecond, 6 * time.Second, 3 * time.Second},
		{4 * time.Second, 15 * time.Second, 20 * time.Second},
	} {
		if s, a := pings(tc.rtt); s != tc.silence || a != tc.answer {
			t.Errorf("%v: %v, %v", tc.rtt, s, a)
		}
	}
}

// The time a link takes shows in the dial or in the TLS handshake, whichever is
// longer, before the first frame.
func TestPingsFollowTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &scripted{answer: func(s *speaker, _ uint32, _ int) { s.mute.Store(true) }}
		slow := func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(600 * time.Millisecond)
			return x.dial(ctx, network, addr)
		}
		tr := newTestTransport(t, "http://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) { cfg.Dial = slow })
		defer tr.Close()
		if o := tr.Send(t.Context(), record(1)); o.Class != Retry || o.Duration != 600*time.Millisecond+9*time.Second {
			t.Errorf("%+v", o)
		}
	})
}
