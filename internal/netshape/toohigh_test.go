package netshape

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func samples(n int, delay time.Duration, sent, backlog uint64) (list []Sample) {
	for range n {
		list = append(list, Sample{delay, sent, backlog})
	}
	return list
}

// The delays are those measured on a link of 10 Mbit/s with a round trip of 40 ms.
func TestJudgeRate(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name    string
		rate    uint64
		idle    time.Duration
		samples []Sample
		want    bool
	}{
		{"9 of 10, loaded", 9e6, 40 * ms, samples(10, 42*ms, 9e6, 60000), false},
		{"12 of 10, loaded", 12e6, 40 * ms, samples(10, 403*ms, 10e6, 0), true},
		{"100 of 10, loaded", 100e6, 40 * ms, samples(10, 403*ms, 15e6, 1500), true},
		{"12 of 10, idle", 12e6, 40 * ms, samples(10, 41*ms, 1e5, 0), false},
		{"a delay without load", 12e6, 40 * ms, samples(10, 400*ms, 1e5, 0), false},
		{"no rate", 0, 40 * ms, samples(10, 403*ms, 10e6, 0), false},
		{"our own queue, without a tin for the probe", 9e6, 40 * ms, samples(10, 140*ms, 9e6, 112500), false},
		{"a handover", 9e6, 40 * ms, append(samples(3, 42*ms, 9e6, 60000), samples(2, 180*ms, 9e6, 0)...), false},
		{"too few", 12e6, 40 * ms, samples(2, 403*ms, 10e6, 0), false},
		{"long ago", 12e6, 40 * ms, append(samples(10, 403*ms, 10e6, 0), samples(5, 42*ms, 10e6, 0)...), false},
		{"far away and well", 3e6, 600 * ms, samples(10, 750*ms, 3e6, 0), false},
		{"far away and bloated", 3e6, 600 * ms, samples(10, 1500*ms, 2.5e6, 0), true},
		{"nothing", 9e6, 40 * ms, nil, false},
		{"lost", 9e6, 40 * ms, samples(10, 0, 9e6, 0), false},
	} {
		v := JudgeRate(tt.rate, tt.idle, tt.samples)
		if v.TooHigh != tt.want || (v.Text != "") != tt.want {
			t.Errorf("%s: %+v", tt.name, v)
		}
		if v.TooHigh && tt.name == "12 of 10, loaded" && (v.Carries != 10e6 || !strings.Contains(v.Text, "carries about 10mbit")) {
			t.Errorf("%+v", v)
		}
	}
}

// A longer delay never acquits.
func TestJudgeRateMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []Sample
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			list = append(list, Sample{
				time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond,
				rapid.Uint64Range(0, 20e6).Draw(t, "sent"), rapid.Uint64Range(0, 100000).Draw(t, "backlog"),
			})
		}
		first := JudgeRate(10e6, 40*time.Millisecond, list)
		for i := range list {
			list[i].Delay += 100 * time.Millisecond
		}
		if then := JudgeRate(10e6, 40*time.Millisecond, list); first.TooHigh && !then.TooHigh {
			t.Fatal("acquitted by a longer delay")
		}
	})
}
