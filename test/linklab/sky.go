package linklab

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// Span is a part of a night, as times since it began.
type Span struct{ From, To time.Duration }

// Sky is a night of a link by low satellites: every 15 s another one serves, with a
// hiccup in between, and now and then something is in the way.
type Sky struct {
	slots []slot // one for each satellite
	dark  []Span // nothing passes; may overlap
}

// slot is what one satellite offers.
type slot struct {
	delay    time.Duration // one way
	up, down int           // Mbit/s
}

// What is measured of such links. The spread of rates is published, too.
const (
	slotLength   = 15 * time.Second
	hiccup       = 140 * time.Millisecond
	hiccupDelay  = 45 * time.Millisecond
	blinkEvery   = 460 * time.Second // mean
	blink        = 900 * time.Millisecond
	jitter       = 4 * time.Millisecond
	satelliteMin = 12 * time.Millisecond
	satelliteMax = 28 * time.Millisecond
)

// NewSky returns a night of that length in which nothing passes during the spans,
// and during others of about a second.
func NewSky(length time.Duration, rng *rand.Rand, dark ...Span) Sky {
	s := Sky{dark: dark}
	for at := time.Duration(0); at < length; at += slotLength {
		s.slots = append(s.slots, slot{
			delay: satelliteMin + time.Duration(rng.Float64()*float64(satelliteMax-satelliteMin)),
			up:    8 + rng.IntN(13), down: 50 + rng.IntN(201),
		})
	}
	wait := func(mean time.Duration) time.Duration { return time.Duration(rng.ExpFloat64() * float64(mean)) }
	for at := wait(blinkEvery); at < length; at += wait(blinkEvery) {
		s.dark = append(s.dark, Span{at, at + wait(blink)})
	}
	return s
}

// Changes returns the times at which the link becomes another one, in order.
func (s Sky) Changes() []time.Duration {
	var all []time.Duration
	for n := range s.slots {
		at := time.Duration(n) * slotLength
		all = append(all, at, at+hiccup)
	}
	for _, d := range s.dark {
		all = append(all, d.From, d.To)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Netem returns the arguments of tc for both directions at a time. The rate is what
// keeps packets in order there.
func (s Sky) Netem(at time.Duration) (up, down []string) {
	n := min(int(at/slotLength), len(s.slots)-1)
	now := s.slots[n]
	delay, loss := now.delay, []string{"gemodel", "0.3%", "30%", "60%", "0.1%"}
	if at-time.Duration(n)*slotLength < hiccup {
		delay, loss = delay+hiccupDelay, []string{"15%"}
	}
	for _, d := range s.dark {
		if d.From <= at && at < d.To {
			loss = []string{"100%"}
		}
	}
	direction := func(mbit, limit int) []string {
		return append([]string{"netem", "delay", micros(delay), micros(jitter), "25%", "distribution", "normal",
			"rate", strconv.Itoa(mbit) + "mbit", "limit", strconv.Itoa(limit), "loss"}, loss...)
	}
	return direction(now.up, 2000), direction(now.down, 20000)
}

// Mobile returns the same of a link by a mobile network, which is always so.
func Mobile() (up, down []string) {
	direction := func(rate string) []string {
		return []string{"netem", "delay", "25ms", "10ms", "25%", "distribution", "normal", "rate", rate, "loss", "0.3%"}
	}
	return direction("8mbit"), direction("30mbit")
}
