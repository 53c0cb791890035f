package edge

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An uplink is full while four fifths of its rate go out, and a moment after that.
func TestLoad(t *testing.T) {
	start := time.Unix(0, 0)
	for _, c := range []struct {
		name string
		rate uint64
		sent func(second int) uint64 // bytes, in that second
		want string                  // from which second to which it is full
	}{
		{"idle", 8e6, func(int) uint64 { return 1000 }, ""},
		{"all of it", 8e6, func(s int) uint64 { return map[bool]uint64{true: 1e6}[s >= 10 && s < 20] }, "11-24"},
		{"just enough", 8e6, func(s int) uint64 { return map[bool]uint64{true: 800_000}[s == 10] }, "11-15"},
		{"not quite", 8e6, func(int) uint64 { return 799_000 }, ""},
		{"of an unknown rate", 0, func(int) uint64 { return 1e9 }, ""},
	} {
		l, sent, full := load{rate: c.rate}, uint64(5e9), []int(nil)
		for s := range 40 {
			now := start.Add(time.Duration(s) * time.Second)
			l.saw(now, sent)
			l.saw(now.Add(200*time.Millisecond), sent+c.sent(s)) // a burst makes no rate
			sent += c.sent(s)
			if l.full(now) {
				full = append(full, s)
			}
		}
		got := ""
		if len(full) > 0 {
			got = fmt.Sprintf("%d-%d", full[0], full[len(full)-1])
		}
		if got != c.want || len(full) > 0 && full[len(full)-1]-full[0] != len(full)-1 {
			t.Errorf("%s: full at %v, want %s", c.name, full, c.want)
		}
	}
}

// Whatever is looked at and when: below its rate it is never full, and it is as
// soon as all of it goes out for two looks. A count that begins anew is no rate.
func TestLoadProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Uint64Range(8_000, 1e11).Draw(t, "rate")
		l, now, sent := load{rate: rate}, time.Unix(0, 0), rapid.Uint64().Draw(t, "sent")/2
		look := func(share float64) {
			d := time.Duration(rapid.IntRange(900, 30_000).Draw(t, "ms")) * time.Millisecond
			now, sent = now.Add(d), sent+uint64(share*float64(rate)/8*d.Seconds())
			l.saw(now, sent)
		}
		for range rapid.IntRange(1, 20).Draw(t, "quiet") {
			look(rapid.Float64Range(0, 0.79).Draw(t, "share"))
		}
		if sent = rapid.Uint64Range(0, sent).Draw(t, "anew"); l.full(now) {
			t.Fatal("it is full of less than its rate")
		}
		if look(0); l.full(now) {
			t.Fatal("it is full of nothing")
		}
		for range 4 {
			look(1)
		}
		if !l.full(now) {
			t.Fatal("it is not full of all that it takes")
		}
	})
}
