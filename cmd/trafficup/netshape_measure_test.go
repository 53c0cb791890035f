package main

import (
	"strings"
	"testing"
	"time"

	"trafficup/internal/netshape"
)

func TestWriteMeasured(t *testing.T) {
	const ms = time.Millisecond
	m := netshape.Measured{
		Idle: 40 * ms, IdleP95: 45 * ms, Jitter: 3 * ms, Loaded: 418 * ms, LoadedP95: 455 * ms, Bloat: 410 * ms,
		Rate: 9_523_000, Slow: 9_400_000, Bytes: 12_000_000, Proposed: 8_570_000, Profile: "leo", Notes: []string{"the rate varies"},
	}
	for _, tt := range []struct {
		name, want string
		spoil      func()
	}{
		{"all is known", `idle      delay 40ms, 95% below 45ms, jitter 3ms
loaded    delay 418ms, 95% below 455ms: load adds 410ms
carries   9.523mbit, a quarter of the time below 9.4mbit; 12,000,000 bytes were sent
proposed  up 8.57mbit, profile leo
note      the rate varies

trafficup netshape plan --iface eth1 --kind cake --up 8.57mbit --profile leo
`, func() {}},
		{"no answer and no profile", `idle      delay 40ms, 95% below 45ms, jitter 3ms
loaded    no answer
carries   9.523mbit, a quarter of the time below 9.4mbit; 12,000,000 bytes were sent
proposed  up 8.57mbit, profile none

trafficup netshape plan --iface eth1 --kind cake --up 8.57mbit
`, func() { m.Loaded, m.Profile, m.Notes = 0, "", nil }},
	} {
		tt.spoil()
		var b strings.Builder
		if err := writeMeasured(&b, "eth1", "cake", m); err != nil || b.String() != tt.want {
			t.Errorf("%s: %v\n%s", tt.name, err, b.String())
		}
	}
}

func TestWriteReading(t *testing.T) {
	now := time.Date(2026, 11, 30, 2, 3, 4, 0, time.UTC)
	for want, r := range map[string]netshape.Reading{
		"02:03:04  eth1  not shaped by this program\n":                                                           {Interface: "eth1"},
		"02:03:04  eth1  rate 9mbit  sent 0bit  waiting 0 bytes\n":                                               {Interface: "eth1", Rate: 9e6},
		"02:03:04  eth1  rate 12mbit  sent 9.712mbit  waiting 1,514 bytes  delay 403.1ms  idle 40ms  TOO HIGH\n": {Interface: "eth1", Rate: 12e6, Sent: 9_711_600, Backlog: 1514, Asked: true, Delay: 403_141 * time.Microsecond, Idle: 40 * time.Millisecond, TooHigh: "x"},
		"02:03:04  eth1  rate 9mbit  sent 22.2mbit  waiting 0 bytes  no answer  (it is\\nout)\n":                 {Interface: "eth1", Rate: 9e6, Sent: 22_222_222, Asked: true, Error: "it is\nout"},
	} {
		var b strings.Builder
		if err := writeReading(&b, now, r); err != nil || b.String() != want {
			t.Errorf("%v\n%q, want\n%q", err, b.String(), want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]uint64{"50MB": 50e6, "1.5 gb": 1.5e9, "900kB": 900e3, "1B": 1, "1000GB": 1e12, "1001GB": 0, "50": 0, "-5MB": 0, "0MB": 0, "NaNMB": 0, "infMB": 0, "": 0, "MB": 0} {
		if got, err := parseBytes(s); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
}
