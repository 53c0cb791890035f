package netshape

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDetector(t *testing.T) {
	var d Detector
	add := func(n int, delay time.Duration, sent uint64) (v RateVerdict) {
		for range n {
			v = d.Add(12e6, Sample{Delay: delay, Sent: sent})
		}
		return v
	}
	if v := (&Detector{Assumed: 100 * ms}).Add(12e6, Sample{Delay: 400 * ms, Sent: 10e6}); v.TooHigh {
		t.Error("by a single sample:", v.Text)
	}
	a := Detector{Assumed: 100 * ms}
	for i, want := range []bool{false, false, true} {
		if v := a.Add(12e6, Sample{Delay: 400 * ms, Sent: 10e6}); v.TooHigh != want || want && !strings.HasSuffix(v.Text, " (idle delay not seen yet, taken as 100ms)") {
			t.Error(i, v)
		}
	}
	if v := a.Add(12e6, Sample{Delay: 380 * ms}); v.TooHigh || a.Idle() != 380*ms {
		t.Error("a long way is taken for a queue when it is known:", v.Text)
	}
	if v := add(20, 400*ms, 10e6); v.TooHigh {
		t.Error("a verdict without a delay to compare with:", v.Text)
	}
	if v := add(3, 40*ms, 0); !v.TooHigh || d.Idle() != 40*ms {
		t.Error("the load is not judged by the delay learnt after it:", v, d.Idle())
	}
	if v := add(3, 400*ms, 10e6); !v.TooHigh || v.Carries != 10e6 {
		t.Errorf("%+v", v)
	}
	if v := add(remembered, 0, 0); v.TooHigh {
		t.Error("long after the load:", v.Text)
	}
	add(5, 400*ms, 10e6)
	d.Forget()
	if v := add(2, 400*ms, 10e6); v.TooHigh {
		t.Error("of another rate:", v.Text)
	}
	if k := (&Detector{Known: 40 * ms}); k.Idle() != 40*ms {
		t.Error(k.Idle())
	}
}

func drawSample(t *rapid.T, rate uint64) Sample {
	return Sample{
		Delay:   time.Duration(rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(0, 3000)).Draw(t, "ms")) * ms,
		Sent:    rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, 2*rate+8)).Draw(t, "sent"),
		Backlog: rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, 200000)).Draw(t, "backlog"),
	}
}

// Whatever is seen: the rate stays within its bounds, is never cut without load,
// nor twice within a rest, nor for longer than a look lasts without a reason; and
// when the delay is well it is back at Max in time.
func TestSteering(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lowest := rapid.Uint64Range(minRate/8, 2e6).Draw(t, "min") * 8
		highest := lowest + rapid.Uint64Range(0, 1e7).Draw(t, "more")*8
		s := Steering{Autorate: Autorate{Min: lowest, Max: highest}, Detector: Detector{Known: rapid.SampledFrom([]time.Duration{0, 40 * ms}).Draw(t, "known")}}
		now, rate := time.Unix(1e9, 0), highest
		var cut, looks time.Time
		step := func(x Sample) {
			next, v := s.Next(now, rate, x)
			if !looks.IsZero() && now.Sub(looks) > lookFor {
				t.Fatalf("looking for %v", now.Sub(looks))
			}
			if next > rate || v.TooHigh {
				looks = time.Time{}
			}
			switch {
			case next < lowest || next > highest || next%8 != 0:
				t.Fatalf("%d is not within %d and %d", next, lowest, highest)
			case next < rate && !x.loaded(rate):
				t.Fatalf("cut from %d to %d without load", rate, next)
			case next < rate && !v.TooHigh && (v.Look == "" || s.Idle() > 0):
				t.Fatalf("cut from %d to %d without a reason", rate, next)
			case next < rate && now.Sub(cut) < rest:
				t.Fatalf("cut %v after the last", now.Sub(cut))
			case next < rate && v.TooHigh:
				cut = now
			case next < rate:
				cut, looks = now, now
			}
			rate, now = next, now.Add(time.Second+min(x.Delay, s.left(now)))
		}
		for range rapid.IntRange(0, 30).Draw(t, "loaded before") {
			step(Sample{Delay: time.Duration(rapid.IntRange(100, 3000).Draw(t, "ms")) * ms, Sent: rate})
		}
		for range rapid.IntRange(0, 60).Draw(t, "n") {
			step(drawSample(t, rate))
		}
		// A twentieth each rest: 8 kbit/s to 96 Mbit/s takes 194 of them.
		load := rapid.Bool().Draw(t, "load")
		for range remembered + 200*4 {
			x := Sample{Delay: 1 * ms}
			if load {
				x.Sent, x.Backlog = rate, 60000
			}
			step(x)
		}
		if rate != highest {
			t.Fatalf("the rate is %d, want %d", rate, highest)
		}
	})
}

// A cut goes below what the link carried, at least a little and at most by half.
func TestSteeringCut(t *testing.T) {
	for sent, want := range map[uint64]uint64{9e6: 7.65e6, 6e6: 5.1e6, 5e6: 4.5e6, 1.2e6: 4.5e6, 18e6: 8.55e6} {
		s := Steering{Autorate: Autorate{Min: 1e6, Max: 9e6}, Detector: Detector{Known: 40 * ms}}
		rate := uint64(9e6)
		for i := range guilty {
			rate, _ = s.Next(time.Unix(int64(i), 0), rate, Sample{Delay: 400 * ms, Sent: sent})
		}
		if rate != want {
			t.Errorf("%d of 9 Mbit/s: cut to %d, want %d", sent, rate, want)
		}
	}
}

// While the modem's queue empties, after a cut, the delay is no reason for another.
func TestSteeringRests(t *testing.T) {
	s := Steering{Autorate: Autorate{Min: 1e6, Max: 9e6}, Detector: Detector{Known: 40 * ms}}
	var rates []uint64
	rate := uint64(9e6)
	for i := range 7 {
		x := Sample{Delay: 400 * ms, Sent: rate}
		if i == 6 {
			x.Delay = 40 * ms
		}
		rate, _ = s.Next(time.Unix(int64(i), 0), rate, x)
		rates = append(rates, rate)
	}
	if rates[2] != 7.65e6 || rates[5] != rates[2] || rates[6] < rates[2] {
		t.Error(rates)
	}
}

// What load did before the delay without it was known is no reason to cut when
// the load is over.
func TestSteeringAfterLoad(t *testing.T) {
	s := Steering{Autorate: Autorate{Min: 1e6, Max: 9e6}}
	for i := range 20 {
		x := Sample{Delay: 400 * ms, Sent: 9e6}
		if i >= lasting-1 {
			x = Sample{Delay: 40 * ms}
		}
		if rate, _ := s.Next(time.Unix(int64(i), 0), 9e6, x); rate != 9e6 {
			t.Fatal(i, rate)
		}
	}
}

// A target that answers no more leaves nobody at a low rate.
func TestSteeringBlind(t *testing.T) {
	s := Steering{Autorate: Autorate{Min: 1e6, Max: 10e6}, Detector: Detector{Known: 40 * ms}}
	now, rate := time.Unix(1e9, 0), uint64(1e6)
	for range 250 {
		rate, _ = s.Next(now, rate, Sample{Sent: rate})
		now = now.Add(time.Second)
	}
	if rate != 10e6 {
		t.Error(rate)
	}
}

// Over a link that walks between 8 and 20 Mbit/s with half a second of queue, an
// upload that takes all it gets costs little delay for most of the time, and gets
// most of what there is.
func TestSteeringLoop(t *testing.T) {
	const highest, second = 18e6, 1.0
	s := Steering{Autorate: Autorate{Min: 4e6, Max: highest}, Detector: Detector{Known: 40 * ms}}
	now, rate, queue := time.Unix(1e9, 0), uint64(highest), 0.0
	var slow, fixedSlow, seconds int
	var got, there float64
	for _, link := range []float64{20e6, 8e6, 20e6, 12e6, 8e6} {
		for range 60 {
			entering := float64(rate)
			queue += (entering - link) * second
			limit := link / 2
			sent := entering
			if queue > limit { // the modem drops, the senders fit themselves to it
				sent, queue = link, limit
			}
			queue = max(queue, 0)
			delay := 40*ms + time.Duration(queue/link*float64(time.Second))
			if delay > 150*ms {
				slow++
			}
			if highest > link {
				fixedSlow++
			}
			seconds, got, there = seconds+1, got+min(sent, link), there+min(link, highest)
			rate, _ = s.Next(now, rate, Sample{Delay: delay, Sent: uint64(sent)})
			now = now.Add(time.Second)
		}
	}
	t.Logf("slow %d of %d seconds, with a fixed rate %d; got %.0f %% of the link", slow, seconds, fixedSlow, 100*got/there)
	if slow > fixedSlow/3 || got < there*0.75 {
		t.Errorf("slow %d of %d seconds, with a fixed rate %d; got %.0f %% of the link", slow, seconds, fixedSlow, 100*got/there)
	}
}
