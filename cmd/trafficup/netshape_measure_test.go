package main

import (
	"strings"
	"testing"
	"time"

	"trafficup/internal/netshape"
	"trafficup/internal/tc"
)

func TestWriteMeasured(t *testing.T) {
	ms := func(n float64) netshape.Millis {
		return netshape.Millis{Duration: time.Duration(n * float64(time.Millisecond))}
	}
	full := netshape.Measured{
		Idle: ms(40), IdleP95: ms(45), Jitter: ms(3), Loaded: ms(418), LoadedP95: ms(455), Bloat: ms(410),
		Rate: 9_523_000, Slow: 9_400_000, Bytes: 12_000_000, Proposed: 8_570_000, Profile: "leo", Notes: []string{"the rate varies"},
	}
	for _, tt := range []struct {
		name, kind, want string
		spoil            func(m *netshape.Measured)
	}{
		{"all is known", "cake", `idle      delay 40ms, 95% below 45ms, jitter 3ms
loaded    delay 418ms, 95% below 455ms: load adds 410ms
carries   9.523mbit, a quarter of the time below 9.4mbit; 12,000,000 bytes were sent
proposed  up 8.57mbit, profile leo
note      the rate varies

trafficup netshape plan --iface eth1 --kind cake --up 8.57mbit --profile leo
`, func(*netshape.Measured) {}},
		{"no answer and no profile", "cake", `idle      delay 40ms, 95% below 45ms, jitter 3ms
loaded    no answer
carries   9.523mbit, a quarter of the time below 9.4mbit; 12,000,000 bytes were sent
proposed  up 8.57mbit, no profile, for none fits

trafficup netshape plan --iface eth1 --kind cake --up 8.57mbit
`, func(m *netshape.Measured) { m.Loaded, m.Profile, m.Notes = ms(0), "", nil }},
		{"our own rate", "cake", `idle      delay 40ms, 95% below 45ms, jitter 3ms
loaded    delay 418ms, 95% below 455ms: load adds 410ms
carries   9.523mbit, a quarter of the time below 9.4mbit; 12,000,000 bytes were sent
proposed  no rate, profile leo
note      clear it first
`, func(m *netshape.Measured) { m.Proposed, m.Notes = 0, []string{"clear it first"} }},
		{"a kernel without queues", "", `idle      delay 40ms, 95% below 45ms, jitter 3ms
loaded    delay 418ms, 95% below 455ms: load adds 410ms
carries   9.523mbit, a quarter of the time below 9.4mbit; 12,000,000 bytes were sent
proposed  up 8.57mbit, profile leo
note      the rate varies
`, func(*netshape.Measured) {}},
	} {
		m := full
		tt.spoil(&m)
		var b strings.Builder
		if err := writeMeasured(&b, "eth1", tt.kind, m); err != nil || b.String() != tt.want {
			t.Errorf("%s: %v\n%s", tt.name, err, b.String())
		}
	}
}

func TestKindFor(t *testing.T) {
	for want, lists := range map[string][][]tc.Kind{
		"cake":     {nil, {tc.KindFqCodel}, {tc.KindHTB, tc.KindIngress}},
		"fq_codel": {{tc.KindCake}, {tc.KindIngress, tc.KindCake}},
		"":         {{tc.KindCake, tc.KindFqCodel}, {tc.KindHTB, tc.KindCake}},
	} {
		for _, missing := range lists {
			if got := kindFor(missing); got != want {
				t.Errorf("without %v: %q, want %q", missing, got, want)
			}
		}
	}
}

func TestWriteReading(t *testing.T) {
	now := time.Date(2026, 11, 30, 2, 3, 4, 0, time.UTC)
	delay := func(d time.Duration) netshape.Millis { return netshape.Millis{Duration: d} }
	for want, r := range map[string]netshape.Reading{
		"02:03:04  eth1  not shaped by this program\n":                                                           {Interface: "eth1"},
		"02:03:04  eth1  rate 9mbit  sent 0bit  waiting 0 bytes\n":                                               {Interface: "eth1", Rate: 9e6},
		"02:03:04  eth1  rate 12mbit  sent 9.712mbit  waiting 1,514 bytes  delay 403.1ms  idle 40ms  TOO HIGH\n": {Interface: "eth1", Rate: 12e6, Sent: 9_711_600, Backlog: 1514, Asked: true, Delay: delay(403_141 * time.Microsecond), Idle: delay(40 * time.Millisecond), TooHigh: "x"},
		"02:03:04  eth1  rate 9mbit  sent 22.2mbit  waiting 0 bytes  no answer  (it is\\nout)\n":                 {Interface: "eth1", Rate: 9e6, Sent: 22_222_222, Asked: true, Error: "it is\nout"},
		"02:03:04  eth1  rate 12mbit  sent 9mbit  waiting 0 bytes  delay 403ms  idle delay not seen yet, taken as 100ms  TOO HIGH\n": {
			Interface: "eth1", Rate: 12e6, Sent: 9e6, Asked: true, Delay: delay(403 * time.Millisecond), Assumed: delay(100 * time.Millisecond), TooHigh: "x",
		},
	} {
		var b strings.Builder
		if err := writeReading(&b, now, r); err != nil || b.String() != want {
			t.Errorf("%v\n%q, want\n%q", err, b.String(), want)
		}
	}
}

// One line a class, and why a rate is not the one that was applied.
func TestWriteStatus(t *testing.T) {
	low := time.Date(2026, 11, 30, 2, 3, 4, 0, time.Local)
	count := func(n uint64) netshape.Count { return netshape.Count{Packets: n, Bytes: 100 * n} }
	s := netshape.Status{
		Interfaces: []netshape.InterfaceStatus{{
			Name: "eth1", Present: true, Up: true, Ours: true, Wanted: &netshape.Wanted{}, Since: low,
			Root:     netshape.QueueStatus{Kind: "cake", Text: "cake bandwidth 3.4mbit"},
			Autorate: &netshape.AutorateStatus{Min: 2e6, Applied: 9e6, Lowered: low},
		}},
		Marks: netshape.MarksStatus{Present: true, Classes: []netshape.ClassStatus{
			{Class: "bulk", Count: count(1234), Here: count(1000), LAN: count(234)}, {Class: netshape.NoClass, Count: count(5), Here: count(5)},
		}},
	}
	zone := low.Format(" MST")
	want := "  out      cake bandwidth 3.4mbit  (autorate: lowered from 9mbit at 2026-11-30 02:03:04" + zone + ")\n"
	marks := `marks    bulk         1,234 packets, 123,400 bytes left marked; sent here 1,000, from the LAN 234
marks    of no class  5 packets, 500 bytes; sent here 5, from the LAN 0
`
	var b strings.Builder
	if err := writeStatus(&b, s, ""); err != nil || !strings.Contains(b.String(), want) || !strings.Contains(b.String(), marks) || strings.Count(b.String(), "marks") != 2 {
		t.Errorf("%v\n%s", err, b.String())
	}
	s.Interfaces[0].Autorate.Lowered = time.Time{}
	b.Reset()
	if err := writeStatus(&b, s, ""); err != nil || !strings.Contains(b.String(), "(autorate: 2mbit to 9mbit)\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Without a rate there is nothing to fit, nor between a lowest and a highest that
// are the same.
func TestFittable(t *testing.T) {
	d := netshape.Desired{Interfaces: []netshape.Interface{{Name: "eth0", Kind: "cake", Up: 9e6}, {Name: "eth1", Kind: "none"}, {Name: "eth2", Kind: "cake"}}}
	for _, c := range []struct {
		name, want string
		lowest     uint64
	}{
		{"eth0", "", 2e6},
		{"eth0", "want less than up, 9mbit", 9e6},
		{"eth1", "kind none", 2e6},
		{"eth2", "up unlimited", 2e6},
	} {
		err := fittable([]netshape.Gauge{{Interface: c.name, Min: c.lowest}}, d)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestEverybody(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:9477": false, "192.0.2.1:99": false, "localhost:9477": false, "[::1]:9477": false, ":99": true, "0.0.0.0:9477": true, "[::]:9477": true} {
		if got := everybody(addr) != ""; got != want {
			t.Errorf("%s: %v", addr, got)
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
