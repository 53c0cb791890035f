package api

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"trafficup/internal/breaker"
)

// A goodbye that admits nothing, and a connection that ends before its first
// request, say of the request that it was not looked at.
func TestNothingIsAdmitted(t *testing.T) {
	for name, code := range map[string]http2.ErrCode{"calm": http2.ErrCodeNo, "angry": http2.ErrCodeEnhanceYourCalm} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &scripted{answer: func(s *speaker, id uint32, _ int) {
					if s.index < 3 {
						s.WriteGoAway(0, code, nil)
						return
					}
					s.reply(id, "204", true)
				}}
				tr := newTestTransport(t, "http://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) { cfg.Dial = x.dial })
				defer tr.Close()
				for i := range 2 {
					if o := tr.Send(t.Context(), record(i)); o.Class != Retry || o.Breaker != breaker.Neutral || o.Wrote {
						t.Errorf("%+v", o)
					}
				}
				if o := tr.Send(t.Context(), record(1)); o.Class != Acked {
					t.Errorf("%+v", o)
				}
			})
		})
	}
	t.Run("ended before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x, conn := &scripted{}, net.Conn(nil)
			tr := newTestTransport(t, "http://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) {
				cfg.Dial = func(ctx context.Context, network, addr string) (c net.Conn, err error) {
					conn, err = x.dial(ctx, network, addr)
					return conn, err
				}
			})
			defer tr.Close()
			tr.Warm(t.Context(), 1)
			cn, err := tr.take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conn.Close() // between the choice and the request
			synctest.Wait()
			_, _, err = tr.exchange(t.Context(), cn, record(1), new(atomic.Bool))
			tr.release(cn, false, false)
			if o := tr.judge(Answer{}, err, true, Policy{}); o.Class != Retry || o.Breaker != breaker.Neutral || o.Wrote {
				t.Errorf("%+v", o)
			}
		})
	})
}

// After a timeout the connections that were opened while it ran and have been silent
// since are left as well.
func TestTimeoutDistrustsYoungerNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &scripted{answer: func(s *speaker, id uint32, _ int) {
			if s.index <= 2 {
				s.mute.Store(true)
				return
			}
			s.reply(id, "204", true)
		}}
		tr := newTestTransport(t, "http://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) { cfg.Dial, cfg.RequestTimeout = x.dial, 2*time.Second })
		defer tr.Close()
		var wg sync.WaitGroup
		var lost atomic.Int64
		for i := range 20 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond) // the first is given up before the others
				for tr.Send(t.Context(), record(i)).Class != Acked {
					lost.Add(1)
				}
			})
		}
		wg.Wait()
		if n := lost.Load(); n != 20 {
			t.Errorf("%d attempts were lost, want one for each record", n)
		}
	})
}
