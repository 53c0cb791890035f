package netshape

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/tc"
)

func TestParseRate(t *testing.T) {
	for in, want := range map[string]uint64{
		"9mbit": 9e6, "900kbit": 900e3, "1.5gbit": 1.5e9, "9 Mbit": 9e6, "9000001bit": 9e6, "90% of 10mbit": 9e6,
		"90 % of 10 mbit": 9e6, "87.5% of 8mbit": 7e6, "8kbit": 8e3,
	} {
		if got, err := ParseRate(in); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"9": "has no unit", "0": "has no unit", "0mbit": "out of bounds", "-0mbit": "no rate", "9MB": "no rate", "9mbps": "no rate", "9MB/s": "no rate", "": "no rate", "-9mbit": "no rate", "1e9bit": "no rate", "infmbit": "no rate",
		"7kbit": "out of bounds", "200gbit": "out of bounds", "90%": "share of a rate", "101% of 10mbit": "at most 100%", "0% of 10mbit": "more than 0%",
		"90% 10mbit": "share of a rate", "90% of 50% of 9mbit": "share of a rate", "90% of 10": "has no unit", "1.2.3mbit": "no rate", "$(reboot)": "no rate",
	} {
		if got, err := ParseRate(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %d, %v; want an error with %q", in, got, err, want)
		}
	}
}

// What is written as a rate is read as the same.
func TestRateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Uint64Range(minRate, maxRate).Draw(t, "rate") &^ 7
		if got, err := ParseRate(FormatRate(rate)); err != nil || got != rate {
			t.Fatalf("%d is written %s and read %d, %v", rate, FormatRate(rate), got, err)
		}
	})
}

func FuzzParseRate(f *testing.F) {
	f.Add("90% of 10mbit")
	f.Fuzz(func(t *testing.T, s string) {
		if rate, err := ParseRate(s); err == nil && (rate < minRate || rate > maxRate || rate%8 != 0) {
			t.Errorf("%q is %d", s, rate)
		}
	})
}

func TestNames(t *testing.T) {
	for _, name := range []string{"eth1", "enp3s0f0np0", "wwan0", "br-lan", "eth0.100", "exactly15bytes_"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
		if ifb := ifbName(name); len(ifb) > maxName || strings.ContainsAny(ifb, "/: %\t") {
			t.Errorf("%s gets the ifb %q", name, ifb)
		}
	}
	for _, name := range []string{"", "sixteen_bytes_xx", "eth 1", "../eth1", "eth/1", ".", "..", "$(touch pwned)", "eth0:1", "eth1;id", "eth\x00", "ätsch0"} {
		if err := CheckName(name); err == nil || !strings.Contains(err.Error(), "such as eth1") {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, other := range []string{"enp3s0f0np0v2", ifbName("enp3s0f0np0v1")[len("ifb4"):]} {
		if a, b := ifbName("enp3s0f0np0v1"), ifbName(other); a == b && CheckName(other) == nil {
			t.Error("two interfaces share", a)
		}
	}
}

func TestParse(t *testing.T) {
	overhead := 44
	for _, tt := range []struct {
		spec Spec
		want string // of the root, as tc prints it
	}{
		{Spec{Kind: "cake", Up: "9mbit"}, "cake bandwidth 9mbit diffserv4 dual-srchost rtt 100ms nat nowash no-ack-filter split-gso raw"},
		{Spec{Kind: "cake"}, "cake unlimited diffserv4 dual-srchost rtt 100ms nat nowash no-ack-filter split-gso raw"},
		{Spec{Kind: "cake", Up: "9mbit", Profile: "leo"}, "cake bandwidth 9mbit diffserv4 dual-srchost rtt 100ms nat nowash no-ack-filter split-gso overhead 38 mpu 84"},
		{Spec{Kind: "cake", Up: "3mbit", Down: "50mbit", Profile: "geo"}, "cake bandwidth 3mbit diffserv4 dual-srchost rtt 1s nat nowash ack-filter split-gso overhead 38 mpu 84"},
		{Spec{Kind: "cake", Up: "3mbit", Down: "50mbit", AckFilter: "off", RTT: 30 * time.Millisecond, Overhead: &overhead, Diffserv: "besteffort", Wash: true},
			"cake bandwidth 3mbit besteffort dual-srchost rtt 30ms nat wash no-ack-filter split-gso overhead 44"},
		{Spec{Kind: "fq_codel", Up: "9mbit"}, "htb rate 9mbit, three classes above fq_codel limit 1024 flows 1024 quantum 300 target 5ms interval 100ms ecn"},
		{Spec{Kind: "fq_codel", Up: "900kbit", Diffserv: "besteffort"}, "htb rate 900kbit, one class above fq_codel limit 1024 flows 1024 quantum 300 target 20.186ms interval 100ms ecn"},
		{Spec{Kind: "fq_codel", Up: "3mbit", Profile: "geo"}, "htb rate 3mbit, three classes above fq_codel limit 1024 flows 1024 quantum 300 target 50ms interval 1s ecn"},
		{Spec{Kind: "none"}, "none"},
	} {
		tt.spec.Name = "eth1"
		i, err := Parse(tt.spec)
		if got := describe(i.Root); err != nil || got != tt.want {
			t.Errorf("%+v\n got %s, %v\nwant %s", tt.spec, got, err, tt.want)
		}
		if (i.Ingress.Kind != "") != (i.Down != 0) {
			t.Errorf("%+v has the ingress %v", tt.spec, i.Ingress)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for want, spec := range map[string]Spec{
		"interface name": {Name: "$(id)", Kind: "cake", Up: "9mbit"},
		"is no kind":     {Name: "eth1", Kind: "tbf", Up: "9mbit"},
		"up: rate":       {Name: "eth1", Kind: "cake", Up: "9"},
		"down: ":         {Name: "eth1", Kind: "cake", Up: "9mbit", Down: "x"},
		"needs a rate":   {Name: "eth1", Kind: "fq_codel"},
		"keeps no rate":  {Name: "eth1", Kind: "none", Up: "9mbit"},
		"is no profile":  {Name: "eth1", Kind: "cake", Up: "9mbit", Profile: "moon"},
		"diffserv":       {Name: "eth1", Kind: "cake", Up: "9mbit", Diffserv: "5"},
		"ack-filter":     {Name: "eth1", Kind: "cake", Up: "9mbit", AckFilter: "maybe"},
		"rtt":            {Name: "eth1", Kind: "cake", Up: "9mbit", RTT: time.Hour},
		"overhead 999":   {Name: "eth1", Kind: "cake", Up: "9mbit", Overhead: new(999)},
		"for kind cake":  {Name: "eth1", Kind: "fq_codel", Up: "9mbit", Overhead: new(0)},
		"ack-filter are": {Name: "eth1", Kind: "fq_codel", Up: "9mbit", AckFilter: "on"},
		"a rate of 0":    {Name: "eth1", Kind: "cake", Up: " 0"},
		"mpu":            {Name: "eth1", Kind: "cake", Up: "9mbit", MPU: -1},
	} {
		if _, err := Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q in it", spec, err, want)
		}
	}
}

// What comes in is queued for one class: marks of strangers count for nothing.
func TestIngress(t *testing.T) {
	i := must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "9mbit", Down: "90mbit"}))
	c := i.Ingress.Cake
	if c.Rate != 90e6 || c.Diffserv != tc.BestEffort || c.Flows != tc.DualDstHost || !c.Ingress || !c.Wash || !c.NAT || c.AckFilter != tc.NoAckFilter {
		t.Errorf("%+v", c)
	}
}
