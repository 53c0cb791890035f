package netshape

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Measured is what a [Survey] found. Delays are medians unless they say otherwise;
// rates are those of what was uploaded, in bit/s: with headers the link carries 4 to 6
// percent more.
type Measured struct {
	Idle      Millis  `json:"idle_ms"`
	IdleP95   Millis  `json:"idle_p95_ms"`
	Jitter    Millis  `json:"jitter_ms"`     // between one idle delay and the next
	Loaded    Millis  `json:"loaded_ms"`     // 0: nothing was answered
	LoadedP95 Millis  `json:"loaded_p95_ms"` // 0: nothing was answered
	Bloat     Millis  `json:"bloat_ms"`      // what load adds to the P95 of the delay
	Lost      float64 `json:"lost"`          // share of the probes under load without an answer
	Rate      uint64  `json:"rate_bit_s"`    // median of seconds
	Slow      uint64  `json:"slow_bit_s"`    // a quarter of the seconds was slower
	Bytes     uint64  `json:"bytes"`         // what was given to the kernel to send

	Proposed uint64   `json:"proposed_bit_s,omitempty"` // for up; 0: nothing, for the interface's own rate was measured
	Profile  string   `json:"profile,omitempty"`        // "": none fits. A guess: leo and lte are much alike
	Notes    []string `json:"notes,omitempty"`          // what speaks against taking these figures for the link's
}

// ErrTooShort is wrapped by the error about a load too short for a rate.
var ErrTooShort = errors.New("the load was too short to tell a rate")

// taken is what was seen, moment by moment.
type taken struct {
	idle   []time.Duration // 0: no answer
	loaded []moment
	counts []count
	bytes  uint64 // given to the kernel
	spent  bool   // all that may be sent was
	shaped uint64 // bit/s
	near   string // the target, where it is in the uplink's own network; "": it is not
}

// count is how many bytes had arrived when.
type count struct {
	at    time.Duration
	bytes uint64
}

const (
	share   = 0.9                   // of the rate that is proposed
	bloated = 50 * time.Millisecond // and more of it is worth a shaper
	settled = 5 * time.Second       // of load beyond the ramp, from which on a rate is that of the link
)

// summarize makes figures of what was seen. The first seconds of load, in which
// connections find their pace and the queue fills, count for nothing.
func (t taken) summarize() (Measured, error) {
	m := Measured{Bytes: t.bytes, Jitter: Millis{jitter(t.idle)}}
	m.Idle, m.IdleP95 = median(known(t.idle))
	ramp := max(2*time.Second, 6*m.Idle.Duration)
	rates := perSecond(t.counts, ramp)
	last := t.counts[len(t.counts)-1]
	if len(rates) == 0 {
		return m, fmt.Errorf("%w: it took %v, %d bytes; %v are needed at least: allow more bytes or time", ErrTooShort, last.at.Round(time.Millisecond), t.bytes, ramp+time.Second)
	}
	m.Rate, m.Slow = quantile(rates, 0.5), quantile(rates, 0.25)
	under := delays(t.loaded, ramp)
	m.Loaded, m.LoadedP95 = median(known(under))
	if len(under) > 0 {
		m.Lost = 1 - float64(len(known(under)))/float64(len(under))
	}
	m.Bloat.Duration = max(0, m.LoadedP95.Duration-m.IdleP95.Duration) // the median is low when the queue still grows
	m.Proposed = round(min(uint64(share*float64(m.Rate)), m.Slow))
	if m.Proposed < minRate {
		return m, fmt.Errorf("the uplink carries %d bit/s: too little to be shaped", m.Rate)
	}
	m.Profile, m.Notes = guess(m.Idle.Duration, m.Jitter.Duration), t.notes(m, last.at-ramp)
	if t.ourOwn(m) {
		m.Proposed = 0 // each round would lower it
	}
	return m, nil
}

// median is that of list, and what 95 % of it do not exceed.
func median(list []time.Duration) (half, p95 Millis) {
	return Millis{quantile(list, 0.5)}, Millis{quantile(list, 0.95)}
}

// ourOwn reports that what was measured is the rate that the interface is shaped to.
func (t taken) ourOwn(m Measured) bool { return t.shaped > 0 && m.Rate > t.shaped/10*8 }

// notes are reasons for doubt; counted is how long the load was that counts.
func (t taken) notes(m Measured, counted time.Duration) (list []string) {
	add := func(format string, a ...any) { list = append(list, fmt.Sprintf(format, a...)) }
	switch {
	case t.ourOwn(m):
		add("the interface is shaped to %s, and that is what was measured, so that no rate is proposed: the link may carry more; clear it first to know", FormatRate(t.shaped))
	case m.Loaded.Duration == 0:
		add("no probe was answered under load: how far the delay rises is not known")
	case m.Bloat.Duration < bloated:
		add("load hardly raises the delay: there is no long queue, or the target is before it, as the modem itself is, or what limits the rate is not the uplink but the sink or the way to it")
	}
	if t.near != "" {
		add("the target %s is in the uplink's own network: if it is the modem or router there, probes do not pass the queue that load fills; name something behind it", t.near)
	}
	if counted < settled {
		add("only %v of the load count: that short, the filling of a queue and what is repeated after losses pass for a rate, which may be too high; give more time with --for, and bytes with --max-bytes", counted.Round(100*time.Millisecond))
	}
	if m.Slow < uint64(share*float64(m.Rate)) {
		add("the rate varies: a quarter of the seconds had less than %s, which is proposed", FormatRate(round(m.Slow)))
	}
	if m.Lost > 0.1 {
		add("%.0f %% of the probes under load had no answer", m.Lost*100)
	}
	if t.spent {
		add("ended early: all %d bytes were sent", t.bytes)
	}
	return list
}

// guess is the profile for a link with that delay and jitter.
func guess(idle, jitter time.Duration) string {
	switch {
	case idle >= 450*time.Millisecond: // the way to a geostationary orbit and back takes that long
		return "geo"
	case jitter < 2*time.Millisecond:
		return "" // a cable
	case jitter < 7*time.Millisecond:
		return "leo"
	}
	return "lte"
}

// perSecond are the rates, in bit/s, of each second that began after ramp; they
// overlap.
func perSecond(counts []count, ramp time.Duration) (rates []uint64) {
	for i, from := range counts {
		if from.at < ramp {
			continue
		}
		for _, to := range counts[i:] {
			if d := to.at - from.at; d >= time.Second {
				rates = append(rates, uint64(float64(to.bytes-from.bytes)*8/d.Seconds()))
				break
			}
		}
	}
	return rates
}

// delays are those asked for at from or later.
func delays(list []moment, from time.Duration) (d []time.Duration) {
	for _, m := range list {
		if m.at >= from {
			d = append(d, m.delay)
		}
	}
	return d
}

// known are those that are no losses.
func known(list []time.Duration) []time.Duration {
	return slices.DeleteFunc(slices.Clone(list), func(d time.Duration) bool { return d == 0 })
}

func answered(list []time.Duration) bool { return len(known(list)) > 0 }

// jitter is the median difference between a delay and the next.
func jitter(list []time.Duration) time.Duration {
	var steps []time.Duration
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1], list[i]; a > 0 && b > 0 {
			steps = append(steps, (b - a).Abs())
		}
	}
	return quantile(steps, 0.5)
}

// quantile is the smallest of list that q of it does not exceed; 0 when it is empty.
func quantile[T ~int64 | ~uint64](list []T, q float64) T {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return list[max(0, int(math.Ceil(q*float64(len(list))))-1)]
}

// round keeps three digits, and a multiple of 8 where that takes more.
func round(bits uint64) uint64 {
	unit := uint64(1)
	for bits/unit >= 1000 {
		unit *= 10
	}
	return bits / unit * unit &^ 7
}
