package netshape

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// sinkhole is a link with half a second of queue, and an upload that takes all it gets.
type sinkhole struct{ link, queue float64 }

// second is what is to be seen after a second at a rate.
func (q *sinkhole) second(rate uint64) Sample {
	sent := float64(rate)
	q.queue = max(0, q.queue+sent-q.link)
	if limit := q.link / 2; q.queue > limit { // the modem drops, the sender fits itself to it
		sent, q.queue = q.link, limit
	}
	return Sample{Delay: 40*ms + time.Duration(q.queue/q.link*float64(time.Second)), Sent: uint64(sent)}
}

// begun steers for so many seconds with load from the first on, and returns the
// rates and what was said of looks.
func begun(s *Steering, link float64, seconds int) (rates []uint64, looks []string) {
	q := sinkhole{link: link, queue: link / 2}
	now, rate := time.Unix(1e9, 0), s.Max
	for range seconds {
		x := q.second(rate)
		var v RateVerdict
		if rate, v = s.Next(now, rate, x); v.Look != "" {
			looks = append(looks, v.Look)
		}
		rates, now = append(rates, rate), now.Add(time.Second+x.Delay)
	}
	return rates, looks
}

// Begun under load, it looks once for the delay without: for five seconds at half of
// what the link carries. Then it cuts, or goes back, as ever.
func TestSteeringLooks(t *testing.T) {
	s := Steering{Autorate: Autorate{Min: 1e6, Max: 9e6}}
	rates, looks := begun(&s, 4e6, 60)
	if slices.Contains(rates[:lasting-1], 2e6) || rates[lasting-1] != 2e6 || rates[lasting+5] != 3.6e6 && rates[lasting+5] != 4.5e6 {
		t.Error(rates)
	}
	if len(looks) != 2 || s.Idle() != 40*ms || slices.Max(rates[25:]) > 4.5e6 {
		t.Error(looks, s.Idle(), rates)
	}
	// A long way is no queue: the rate comes back.
	s = Steering{Autorate: Autorate{Min: 1e6, Max: 9e6}}
	now, rate, low := time.Unix(1e9, 0), uint64(9e6), time.Duration(0)
	for range 120 {
		next, v := s.Next(now, rate, Sample{Delay: 600 * ms, Sent: rate})
		if v.TooHigh {
			t.Error(v.Text)
		}
		took := time.Second + 600*ms
		if next < 9e6 {
			low += took
		}
		rate, now = next, now.Add(took)
	}
	if low == 0 || low > lookFor || rate != 9e6 || s.Idle() != 600*ms {
		t.Errorf("low for %v, then %d, %v", low, rate, s.Idle())
	}
	// Short delays need no look, and those that rise no longer one.
	s = Steering{Autorate: Autorate{Min: 1e6, Max: 9e6}}
	if rates, looks := begun(&s, 10e6, 3); slices.Min(rates) != 9e6 || looks != nil {
		t.Error(rates, looks)
	}
	s = Steering{Autorate: Autorate{Min: 1e6, Max: 9e6}}
	var told RateVerdict
	rate = 9e6
	for i := range 20 {
		x := Sample{Delay: 40 * ms, Sent: 9e6}
		if i > 5 {
			x.Delay = 300 * ms
		}
		next, v := s.Next(time.Unix(int64(i), 0), rate, x)
		if v.Look != "" {
			t.Error(v.Look)
		}
		if rate = next; v.TooHigh {
			told = v
			break
		}
	}
	if rate >= 9e6 || !strings.Contains(told.Text, "(idle delay not seen yet, taken as 40ms)") {
		t.Error(rate, told.Text)
	}
}

// A look that is not allowed, or whose rate somebody changes, is none; one without
// an answer says nothing, and there is no other.
func TestSteeringLookFails(t *testing.T) {
	s := Steering{Autorate: Autorate{Min: 1e6, Max: 9e6}}
	bad := Sample{Delay: 400 * ms, Sent: 9e6}
	looks := 0
	for i := range 60 {
		next, v := s.Next(time.Unix(int64(i), 0), 9e6, bad)
		if v.TooHigh {
			t.Fatal(v.Text)
		}
		if next != 9e6 {
			looks++
		}
	}
	if looks < 2 || s.Idle() != 0 {
		t.Error(looks, s.Idle())
	}
	s = Steering{Autorate: Autorate{Min: 1e6, Max: 9e6}}
	rate, lowest := uint64(9e6), 0
	for i := range 120 {
		x := bad
		if rate < 9e6 {
			x, lowest = Sample{Sent: rate}, lowest+1
		}
		rate, _ = s.Next(time.Unix(int64(i), 0), rate, x)
	}
	if lowest == 0 || lowest > 5 || rate != 9e6 || s.Idle() != 0 {
		t.Error(lowest, rate, s.Idle())
	}
	s = Steering{Autorate: Autorate{Min: 9e6, Max: 9e6}}
	if rates, looks := begun(&s, 4e6, 30); slices.Min(rates) != 9e6 || looks != nil {
		t.Error("below the lowest:", rates, looks)
	}
}

// Begun under load, the time to the servers that the queue is set to stands for the
// delay without load, and that is said; what is seen without load counts for more.
func TestGaugeUnderLoad(t *testing.T) {
	gauged(t, func(t *testing.T, b box, k *busyKernel, g Gauge) {
		k.busy = true
		told := k.run(t, b.Machine, g, 80*time.Second, func(n int) { k.busy = n < 20 })
		for i, r := range told[1:15] {
			if i >= guilty && (!strings.Contains(r.TooHigh, "(idle delay not seen yet, taken as 100ms)") || r.Carries != 5e6) || r.Idle.Duration != 0 || r.Assumed.Duration != 100*ms {
				t.Errorf("%d: %+v", i, r)
			}
		}
		if last := told[len(told)-1]; last.Idle.Duration != 40*ms || last.Assumed.Duration != 0 || last.TooHigh != "" {
			t.Errorf("%+v", last)
		}
	})
}

// Fitting begun under load cuts on no assumption: it looks for the delay without
// load for some seconds, and says so. Where others hold the rate, nothing changes.
func TestGaugeLooks(t *testing.T) {
	gauged(t, func(t *testing.T, b box, k *busyKernel, g Gauge) {
		g.Min, k.busy = 1e6, true
		var looks []string
		var low time.Duration
		told := k.run(t, b.Machine, g, 60*time.Second, func(int) { k.busy = true })
		for _, r := range told {
			if r.Look != "" {
				looks = append(looks, r.Look)
			}
			if r.TooHigh != "" && r.Idle.Duration == 0 {
				t.Errorf("cut on an assumption: %+v", r)
			}
			if r.Rate == 2.5e6 {
				low += time.Second + r.Delay.Duration
			}
		}
		if len(looks) != 2 || !strings.Contains(looks[0], "for 5s at most") || !strings.Contains(looks[1], "taken as 40ms") || low == 0 || low > lookFor {
			t.Error(low, looks)
		}
		if r := told[40]; r.Rate > 5.5e6 || r.Idle.Duration != 40*ms {
			t.Errorf("%+v", r)
		}
	})
	gauged(t, func(t *testing.T, b box, k *busyKernel, g Gauge) {
		d := Desired{Interfaces: []Interface{cakeAt("9mbit")}, Classes: bulk}
		if _, err := b.Apply(t.Context(), b.plan(t, d), time.Hour); err != nil {
			t.Fatal(err)
		}
		g.Min, k.busy = 1e6, true
		for _, r := range k.run(t, b.Machine, g, 60*time.Second, func(int) { k.busy = true }) {
			if r.Look != "" || r.Next != 0 || r.Rate != 9e6 {
				t.Errorf("%+v", r)
			}
		}
	})
}
