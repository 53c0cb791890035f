package api

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"trafficup/internal/breaker"
)

// A request that the server's settings hold back was not sent: the server has not
// heard of it, and it does not end as unknown.
func TestHeldBackIsNotWritten(t *testing.T) {
	for _, tc := range []struct {
		name    string
		setting http2.Setting
		is      error // nil: any but a timeout
	}{
		{"no streams", http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0}, ErrTimeout},
		{"no room for a header", http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 1}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var heard atomic.Int64
				x := &scripted{early: true, settings: []http2.Setting{tc.setting}, answer: func(*speaker, uint32, int) { heard.Add(1) }}
				tr := newTestTransport(t, "http://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) { cfg.Dial, cfg.RequestTimeout = x.dial, 2*time.Second })
				defer tr.Close()
				// On a connection whose settings are in.
				tr.Warm(t.Context(), 1)
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				tr.mu.Lock()
				cn := tr.conns[0]
				cn.users++
				tr.mu.Unlock()
				var begun atomic.Bool
				_, _, err := tr.exchange(ctx, cn, record(1), &begun)
				tr.release(cn, false, true)
				synctest.Wait()
				if err == nil || begun.Load() || heard.Load() != 0 || tc.is != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, begun %v, heard %d", err, begun.Load(), heard.Load())
				}
				// On one that may still wait for them.
				o := tr.Send(t.Context(), record(2))
				synctest.Wait()
				if o.Wrote != (heard.Load() == 1) || o.Class != Retry || o.Breaker != breaker.Fail || o.Duration > 2*time.Second {
					t.Errorf("heard %d: %+v", heard.Load(), o)
				}
			})
		})
	}
}

// A server that takes no more streams on one connection is sent to on another.
func TestStreamsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &scripted{answer: func(s *speaker, id uint32, _ int) {
			s.reply(id, "204", true)
			if s.index == 1 {
				s.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
			}
		}}
		tr := newTestTransport(t, "http://api.test/", TransportConfig{HTTP2: true}, func(cfg *Config) { cfg.Dial = x.dial })
		defer tr.Close()
		for i := range 5 {
			if o := tr.Send(t.Context(), record(i)); o.Class != Acked || o.Duration != 0 {
				t.Errorf("send %d: %+v", i, o)
			}
			synctest.Wait()
		}
		if n := x.conns.Load(); n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}
