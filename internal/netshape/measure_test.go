package netshape

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// modem is a link with a rate and a long queue.
type modem struct {
	mu    sync.Mutex
	rate  float64 // bytes per second
	queue float64 // bytes; limit is where writers wait
	limit float64
	base  time.Duration
	last  time.Time
	dials int
	dead  bool // nothing is answered
}

// settle lets go what went since it was looked last. It requires mu.
func (m *modem) settle() {
	now := time.Now()
	if !m.last.IsZero() {
		m.queue = max(0, m.queue-m.rate*now.Sub(m.last).Seconds())
	}
	m.last = now
}

// upload is a connection over the modem.
type upload struct {
	net.Conn
	m      *modem
	wrote  float64
	breaks float64 // after so many bytes; 0: never
	closed chan struct{}
	once   sync.Once
}

func (u *upload) Write(b []byte) (int, error) {
	for {
		u.m.mu.Lock()
		u.m.settle()
		room := u.m.queue < u.m.limit
		if room {
			u.m.queue += float64(len(b))
			u.wrote += float64(len(b))
		}
		broken := u.breaks > 0 && u.wrote > u.breaks
		u.m.mu.Unlock()
		if broken {
			return 0, syscall.ECONNRESET
		}
		if room {
			return len(b), nil
		}
		select {
		case <-u.closed:
			return 0, net.ErrClosed
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (u *upload) Close() error { u.once.Do(func() { close(u.closed) }); return nil }

// arrived is what all uploads wrote less what waits; every one is asked in turn.
func (u *upload) arrived() (uint64, error) {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	u.m.settle()
	return uint64(max(0, u.wrote-u.m.queue/float64(u.m.dials))), nil
}

func (m *modem) survey(s Survey) Survey {
	s.Target, s.Sink = "192.0.2.1:443", "192.0.2.2:9"
	s.Dial = func(context.Context, string, string) (net.Conn, error) {
		m.dials++
		return &upload{m: m, closed: make(chan struct{})}, nil
	}
	s.Probe = func(ctx context.Context) (time.Duration, error) {
		if m.dead {
			return 0, sleep(ctx, time.Hour)
		}
		m.mu.Lock()
		m.settle()
		d := m.base + time.Duration(m.queue/m.rate*float64(time.Second))
		m.mu.Unlock()
		return d, sleep(ctx, d)
	}
	s.acked = func(c net.Conn) (uint64, error) { return c.(*upload).arrived() }
	return s
}

func newModem(mbit float64) *modem {
	return &modem{rate: mbit * 1e6 / 8, limit: 500 * 1500, base: 40 * ms}
}

func TestMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModem(10)
		start := time.Now()
		got, err := m.survey(Survey{}).Measure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got.Idle.Duration != 40*ms || got.Rate < 9.8e6 || got.Rate > 10.2e6 || got.Proposed < 8.8e6 || got.Proposed > 9.2e6 || got.Bloat.Duration < 500*ms || got.Bloat.Duration > 800*ms || len(got.Notes) > 0 {
			t.Errorf("%+v", got)
		}
		if took := time.Since(start); took > 20*time.Second || m.dials != 4 {
			t.Error(took, m.dials)
		}
	})
}

// A metered link is sent no more than was allowed.
func TestMeasureMaxBytes(t *testing.T) {
	for name, tt := range map[string]struct {
		bytes uint64
		want  error
	}{"enough": {6e6, nil}, "too few": {1e6 + 1, ErrTooShort}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModem(10)
				var conns []*upload
				s := m.survey(Survey{MaxBytes: tt.bytes})
				dial := s.Dial
				s.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := dial(ctx, network, addr)
					conns = append(conns, c.(*upload))
					return c, err
				}
				got, err := s.Measure(t.Context())
				if !errors.Is(err, tt.want) || got.Bytes != tt.bytes {
					t.Errorf("%+v, %v", got, err)
				}
				sum := 0.0
				for _, c := range conns {
					sum += c.wrote
				}
				if sum != float64(tt.bytes) {
					t.Errorf("%f bytes were sent", sum)
				}
				if tt.want == nil && (got.Rate < 9.5e6 || !strings.Contains(strings.Join(got.Notes, ""), "ended early")) {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func TestMeasureFails(t *testing.T) {
	breaking := func(m *modem, s Survey) Survey {
		s.Dial = func(context.Context, string, string) (net.Conn, error) {
			m.dials++
			return &upload{m: m, breaks: 1e6, closed: make(chan struct{})}, nil
		}
		return s
	}
	for name, tt := range map[string]struct {
		change func(*modem, Survey) Survey
		want   error
		text   string
	}{
		"nobody answers":    {func(m *modem, s Survey) Survey { m.dead = true; return s }, nil, "target 192.0.2.1:443 answers nothing: context deadline exceeded"},
		"the sink hangs up": {breaking, ErrSink, "connection reset"},
		"the sink refuses": {func(_ *modem, s Survey) Survey {
			s.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
			return s
		}, ErrSink, "refused"},
		"no port":        {func(_ *modem, s Survey) Survey { s.Sink = "192.0.2.2"; return s }, nil, "sink 192.0.2.2: want host:port"},
		"another uplink": {func(_ *modem, s Survey) Survey { s.Sink, s.Interface = "127.0.0.1:9", "nothere0"; return s }, nil, "another uplink would be measured"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModem(10)
				_, err := tt.change(m, m.survey(Survey{})).Measure(t.Context())
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
					t.Error(err)
				}
			})
		})
	}
}

// Whoever gives up at any time is obeyed at once, and nothing is left behind.
func TestMeasureCancelled(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 5 * time.Second, 8 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			start := time.Now()
			if _, err := newModem(10).survey(Survey{}).Measure(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > after+time.Second {
				t.Error(err, time.Since(start))
			}
		})
	}
}

// Being refused is an answer; silence is none.
func TestConnectProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(30 * ms)
		l.dead["b:443"], l.dead["c:443"] = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, errors.New("no route")
		if d, err := ConnectProbe("a:443", l.dial)(t.Context()); err != nil || d != 30*ms {
			t.Error(d, err)
		}
		if _, err := ConnectProbe("b:443", l.dial)(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := ConnectProbe("c:443", l.dial)(t.Context()); err == nil {
			t.Error("no route is an answer")
		}
	})
}
