package failover

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Model describes a link for a simulation. Waits and lengths of outages are drawn
// from exponential distributions, or evenly between two bounds.
type Model struct {
	Loss float64       // of a probe, alone
	RTT  time.Duration // the usual one

	// Each HandoverEvery a probe within Handover is lost, with HandoverLoss.
	HandoverEvery, Handover time.Duration
	HandoverLoss            float64

	// Blinks and gaps are too short to leave the link for.
	BlinkEvery, Blink time.Duration // mean
	GapEvery          time.Duration // mean
	Gap               [2]time.Duration

	// Outages are what a failover is for.
	OutageEvery time.Duration // mean
	Outage      [2]time.Duration
}

// Models are those of the presets. That of leo has published figures for a low
// satellite's handovers and blinks; its gaps and outages are assumed.
var Models = map[string]Model{
	"leo": {
		Loss: 0.01, RTT: 45 * time.Millisecond, HandoverEvery: 15 * time.Second, Handover: 140 * time.Millisecond, HandoverLoss: 0.5,
		BlinkEvery: 460 * time.Second, Blink: 900 * time.Millisecond,
		GapEvery: 3 * time.Hour, Gap: [2]time.Duration{2 * time.Second, 12 * time.Second},
		OutageEvery: 24 * time.Hour, Outage: [2]time.Duration{time.Minute, 10 * time.Minute},
	},
	"geo": {
		Loss: 0.005, RTT: 600 * time.Millisecond,
		GapEvery: 6 * time.Hour, Gap: [2]time.Duration{2 * time.Second, 8 * time.Second},
		OutageEvery: 48 * time.Hour, Outage: [2]time.Duration{2 * time.Minute, 30 * time.Minute},
	},
	"lte": {
		Loss: 0.003, RTT: 60 * time.Millisecond,
		GapEvery: 4 * time.Hour, Gap: [2]time.Duration{2 * time.Second, 10 * time.Second},
		OutageEvery: 72 * time.Hour, Outage: [2]time.Duration{time.Minute, 20 * time.Minute},
	},
}

// span is a time in which nothing passes.
type span struct {
	from, to time.Duration
	real     bool // an outage
}

// modelled is a [Path].
type modelled struct {
	m     Model
	rng   *rand.Rand
	spans []span // in order; may overlap
	first int    // none before it ends later
}

// Path returns a link of the model for so long. It answers for moments in their
// order only.
func (m Model) Path(length time.Duration, rng *rand.Rand) Path {
	p := &modelled{m: m, rng: rng}
	draw := func(every time.Duration, long func() time.Duration, real bool) {
		if every == 0 {
			return
		}
		for t := exponential(rng, every); t < length; t += exponential(rng, every) {
			to := t + long()
			p.spans = append(p.spans, span{t, to, real})
			t = to
		}
	}
	between := func(b [2]time.Duration) func() time.Duration {
		return func() time.Duration { return b[0] + time.Duration(rng.Float64()*float64(b[1]-b[0])) }
	}
	draw(m.BlinkEvery, func() time.Duration { return exponential(rng, m.Blink) }, false)
	draw(m.GapEvery, between(m.Gap), false)
	draw(m.OutageEvery, between(m.Outage), true)
	slices.SortFunc(p.spans, func(a, b span) int { return int(a.from - b.from) })
	return p
}

func exponential(rng *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(rng.ExpFloat64() * float64(mean))
}

func (p *modelled) At(t time.Duration) Round {
	m := p.m
	lost := p.rng.Float64() < m.Loss
	// Rounds are not in step with the satellites.
	if m.HandoverEvery > 0 && (t+time.Duration(p.rng.Int64N(int64(time.Second))))%m.HandoverEvery < m.Handover {
		lost = lost || p.rng.Float64() < m.HandoverLoss
	}
	for _, s := range p.live(t) {
		lost = lost || s.from <= t
	}
	if lost {
		return Round{At: t, Why: "no answer"}
	}
	return Round{At: t, OK: true, RTT: m.RTT}
}

func (p *modelled) Outage(t time.Duration) (start time.Duration, ok bool) {
	for _, s := range p.live(t) {
		if s.real && s.from <= t {
			return s.from, true
		}
	}
	return 0, false
}

// live are spans that may hold t.
func (p *modelled) live(t time.Duration) (some []span) {
	for p.first < len(p.spans) && p.spans[p.first].to <= t {
		p.first++
	}
	for _, s := range p.spans[p.first:] {
		if s.from > t {
			break
		}
		if s.to > t {
			some = append(some, s)
		}
	}
	return some
}
