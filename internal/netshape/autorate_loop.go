package netshape

import (
	"context"
	"slices"
	"time"

	"trafficup/internal/tc"
)

// Gauge is how the delay of a shaped uplink is watched.
type Gauge struct {
	Interface string
	Probe     Probe         // asked each second under load, and every ten seconds without
	Known     time.Duration // delay without load, as measured before; 0: it has to be learnt
	// Min, when it is not 0, has the rate fitted to the link: it goes down to Min, in
	// bit/s, or to what was applied if that is lower, and up to what was applied.
	Min uint64
}

// Reading is one look at an uplink.
type Reading struct {
	Interface string `json:"interface"`
	Rate      uint64 `json:"rate_bit_s"`             // 0: it is not shaped by us
	Sent      uint64 `json:"sent_bit_s"`             // since the last one
	Backlog   uint64 `json:"backlog_bytes"`          // in the fullest tin
	Asked     bool   `json:"asked"`                  // for the delay
	Delay     Millis `json:"delay_ms,omitzero"`      // 0: not asked for, or not answered
	Idle      Millis `json:"idle_ms,omitzero"`       // delay without load; 0: not known yet
	Assumed   Millis `json:"idle_taken_ms,omitzero"` // as long as Idle is not known: what it is taken for
	TooHigh   string `json:"too_high,omitempty"`
	Carries   uint64 `json:"carries_bit_s,omitempty"` // what the link does, when the rate is too high
	Next      uint64 `json:"next_bit_s,omitempty"`    // what the rate was changed to
	Look      string `json:"look,omitempty"`          // why it was changed to see the delay without load, and what was seen
	Error     string `json:"error,omitempty"`
}

const (
	gaugeEvery  = time.Second
	quietRounds = 10
	askTimeout  = 3 * time.Second
)

// Gauge looks at an uplink each second until ctx ends, and tells report of it. It
// changes nothing unless g.Min is set; then it puts back the rate that was applied
// when it ends. While an apply waits for its confirmation the rate stays. Errors
// end nothing.
func (m *Machine) Gauge(ctx context.Context, g Gauge, report func(Reading)) error {
	w := gauging{m: m, Gauge: g, steer: Steering{Autorate: Autorate{Min: g.Min}, Detector: Detector{Known: g.Known}}}
	for sleep(ctx, gaugeEvery) == nil {
		if r := w.round(ctx); ctx.Err() == nil {
			report(r)
		}
	}
	if g.Min == 0 {
		return nil
	}
	return w.restore(context.WithoutCancel(ctx))
}

// gauging is a Gauge at work.
type gauging struct {
	m *Machine
	Gauge
	steer Steering

	bytes uint64    // sent, when it was looked last
	when  time.Time // of that
	quiet int       // rounds without a probe
}

// round looks once.
func (w *gauging) round(ctx context.Context) Reading {
	r := Reading{Interface: w.Interface}
	p, _, err := w.m.find(w.Interface)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	now := time.Now()
	r.Rate = rateOf(p.root.Shaper)
	if !p.Root.ours() || r.Rate == 0 {
		w.when = time.Time{}
		return r
	}
	bytes, took := p.root.Stats.Bytes, now.Sub(w.when)
	first := w.when.IsZero() || bytes < w.bytes
	if !first {
		r.Sent = uint64(float64(bytes-w.bytes) * 8 / took.Seconds())
	}
	w.bytes, w.when = bytes, now
	if first {
		return r
	}
	r.Backlog = backlog(p.root)
	s := Sample{Sent: r.Sent, Backlog: r.Backlog}
	if w.due(s.loaded(r.Rate)) {
		r.Asked = true
		if s.Delay, err = w.ask(ctx); err != nil {
			s.Delay, r.Error = 0, err.Error()
		}
		r.Delay.Duration = s.Delay
	}
	w.judge(ctx, &r, p, s)
	return r
}

// due reports that it is time for a probe: without load the delay changes little,
// and probes cost bytes.
func (w *gauging) due(loaded bool) bool {
	if w.quiet++; !loaded && w.quiet < quietRounds && w.steer.Idle() > 0 {
		return false
	}
	w.quiet = 0
	return true
}

func (w *gauging) ask(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, w.steer.left(time.Now()))
	defer cancel()
	return w.Probe(ctx)
}

// judge has the sample decide.
func (w *gauging) judge(ctx context.Context, r *Reading, p present, s Sample) {
	if w.Min == 0 || p.record == nil || p.record.Interface.Up == 0 {
		w.steer.Assumed = rttOf(p.root.Shaper)
		w.tell(r, w.steer.Add(r.Rate, s))
		return
	}
	w.steer.Assumed = 0 // nothing is cut on an assumption
	w.steer.Max = p.record.Interface.Up
	w.steer.Min = min(w.Min, w.steer.Max) // what was applied counts for more
	next, v := w.steer.Next(time.Now(), r.Rate, s)
	w.tell(r, v)
	changed, err := w.m.steer(ctx, w.Interface, w.Min, next)
	if err != nil {
		r.Error = err.Error()
	}
	if changed {
		r.Next = next
	}
	if changed || next == r.Rate {
		r.Look = v.Look
	}
}

// tell puts into r what is known by now.
func (w *gauging) tell(r *Reading, v RateVerdict) {
	r.TooHigh, r.Carries = v.Text, v.Carries
	if r.Idle.Duration = w.steer.Idle(); r.Idle.Duration == 0 {
		r.Assumed.Duration = w.steer.reference()
	}
}

// rttOf is the time to the servers and back that a queue is set to; 0: it is not known.
func rttOf(s tc.Shaper) time.Duration {
	switch s.Kind {
	case tc.KindCake:
		return s.Cake.RTT
	case tc.KindHTB:
		return s.HTB.Codel.Interval
	}
	return 0
}

// restore ends the steering.
func (w *gauging) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := w.m.steer(ctx, w.Interface, 0, 0)
	return err
}

// backlog is what waits in the fullest tin.
func backlog(q tc.Qdisc) uint64 {
	if len(q.Tins) == 0 {
		return uint64(q.Stats.Backlog)
	}
	return uint64(slices.MaxFunc(q.Tins, func(a, b tc.Tin) int { return int(a.Backlog) - int(b.Backlog) }).Backlog)
}
