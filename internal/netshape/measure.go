package netshape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Survey is how an uplink is measured: first the delay to Target while nothing is
// sent, then that under uploads to Sink, and what these get through. It is bounded
// in time and bytes. Nothing else should use the uplink meanwhile.
type Survey struct {
	Interface string        // that the packets have to leave by; "": any
	Target    string        // what answers small packets, the time for which is the delay: see [NewProbe]
	Sink      string        // host:port that reads what it is sent and says nothing, such as a discard service
	Uploads   int           // at once; 0: 4
	Load      time.Duration // how long; 0: 10 s
	MaxBytes  uint64        // of uploads, without headers and repeats, which are some 5 % more; 0: 50 MB
	Shaped    uint64        // bit/s that the interface is shaped to meanwhile; 0: not at all

	Dial  Dial  // of uploads; nil: a net.Dialer's, marked LE
	Probe Probe // nil: that of Target

	every time.Duration // 0: probeEvery

	acked func(net.Conn) (uint64, error) // nil: the kernel's word
}

// Dial makes connections as net.Dialer.DialContext does.
type Dial = func(ctx context.Context, network, addr string) (net.Conn, error)

const (
	idleProbes   = 20
	probeEvery   = 200 * time.Millisecond
	countEvery   = 250 * time.Millisecond
	probeTimeout = 5 * time.Second
	chunk        = 64 << 10 // bytes
)

// ErrSink is wrapped by errors about the sink.
var ErrSink = errors.New("the sink did not take the upload")

// Measure measures. It takes Load and some ten seconds, at most twenty when
// packets are lost. Errors say which of target and sink failed; [ErrTooShort] is
// about too few bytes or seconds.
func (s Survey) Measure(ctx context.Context) (Measured, error) {
	s.Load, s.MaxBytes = cmp.Or(s.Load, 10*time.Second), cmp.Or(s.MaxBytes, 50e6)
	s.every = cmp.Or(s.every, probeEvery)
	if s.acked == nil {
		s.acked = acked
	}
	sink, err := address(ctx, s.Sink, s.Interface)
	if err != nil {
		return Measured{}, fmt.Errorf("sink %s: %w", s.Sink, err)
	}
	t, probe := taken{shaped: s.Shaped}, s.Probe
	if probe == nil {
		var to netip.Addr
		if probe, to, err = probeOf(ctx, s.Target, s.Interface); err != nil {
			return Measured{}, err
		}
		if nearby(to, s.Interface) {
			t.near = s.Target
		}
	}
	if t.idle, err = idle(ctx, probe, s.every); ctx.Err() != nil {
		return Measured{}, context.Cause(ctx)
	}
	if !answered(t.idle) {
		return Measured{}, fmt.Errorf("target %s answers nothing: %w", s.Target, err)
	}
	if err := s.load(ctx, sink, probe, &t); err != nil {
		return Measured{}, err
	}
	return t.summarize()
}

// idle is the delay while nothing is sent, as often as it was asked for, and why
// the latest without an answer had none.
func idle(ctx context.Context, probe Probe, every time.Duration) ([]time.Duration, error) {
	p := probes{probe: probe}
	for range idleProbes {
		p.send(ctx, 0)
		if sleep(ctx, every) != nil {
			break
		}
	}
	return delays(p.wait(), 0), p.err
}

// load fills t with what is seen under load.
func (s Survey) load(ctx context.Context, sink string, probe Probe, t *taken) (err error) {
	u := uploads{acked: s.acked}
	u.left.Store(int64(s.MaxBytes))
	if err := u.open(ctx, cmp.Or(s.Uploads, 4), sink, s.Dial); err != nil {
		return err
	}
	p := probes{probe: probe}
	start, next := time.Now(), time.Duration(0)
	for {
		now := time.Since(start)
		n, e := u.count()
		t.counts = append(t.counts, count{now, n})
		t.spent = u.left.Load() <= 0
		if err = errors.Join(e, u.failed()); err != nil || now >= s.Load || t.spent && n >= s.MaxBytes {
			break
		}
		if now >= next {
			p.send(ctx, now)
			next = now + s.every
		}
		if err = sleep(ctx, countEvery); err != nil {
			break
		}
	}
	u.close()
	t.bytes, t.loaded = s.MaxBytes-uint64(max(u.left.Load(), 0)), p.wait()
	return err
}

// uploads are connections that are kept full.
type uploads struct {
	acked func(net.Conn) (uint64, error)
	conns []net.Conn
	left  atomic.Int64 // bytes that may still be sent
	err   atomic.Pointer[error]
	done  sync.WaitGroup
}

func (u *uploads) open(ctx context.Context, n int, sink string, dial Dial) error {
	if dial == nil {
		dial = marked(bulkDSCP)
	}
	for range n {
		within, cancel := context.WithTimeout(ctx, 2*probeTimeout)
		c, err := dial(within, "tcp", sink)
		cancel()
		if err != nil {
			u.close()
			return fmt.Errorf("%w: %w", ErrSink, err)
		}
		u.conns = append(u.conns, c)
	}
	data := noise()
	for _, c := range u.conns {
		u.done.Go(func() { u.fill(c, data) })
	}
	return nil
}

// fill writes data to c again and again, until there are no bytes left or c is
// closed.
func (u *uploads) fill(c net.Conn, data []byte) {
	for {
		n := min(int64(len(data)), u.left.Add(-int64(len(data)))+int64(len(data)))
		if n <= 0 {
			return
		}
		if _, err := c.Write(data[:n]); err != nil {
			err = fmt.Errorf("%w: %w", ErrSink, err)
			u.err.CompareAndSwap(nil, &err)
			return
		}
	}
}

// failed is the first error of a connection.
func (u *uploads) failed() error {
	if err := u.err.Load(); err != nil {
		return *err
	}
	return nil
}

// count is how many bytes of all connections have arrived.
func (u *uploads) count() (n uint64, err error) {
	for _, c := range u.conns {
		got, err := u.acked(c)
		if err != nil {
			return n, fmt.Errorf("how much has arrived: %w", err)
		}
		n += got
	}
	return n, nil
}

// close ends all at once: what waits in the kernel's buffers is not sent any more.
func (u *uploads) close() {
	for _, c := range u.conns {
		if t, ok := c.(interface{ SetLinger(sec int) error }); ok {
			_ = t.SetLinger(0)
		}
		_ = c.Close()
	}
	u.done.Wait()
}
