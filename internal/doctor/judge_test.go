package doctor

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"
)

func TestExpiry(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]string{
		-time.Hour:           "failed tls: it ended on 2026-12-01",
		0:                    "failed tls: it ended on 2026-12-01",
		time.Hour:            "failed tls: in 1h0m0s",
		3*day - 1:            "failed tls: in 71h0m0s",
		3 * day:              "warning tls: it ends on 2026-12-04, in 3 days",
		21*day - time.Second: "warning tls: in 20 days",
		21 * day:             "ok tls: in 21 days",
		300 * day:            "ok tls: in 300 days",
	} {
		f := expiry("tls", "it", now, now.Add(left), "renew it")
		if f.Result == OK {
			f.Do = ""
		}
		expect(t, []Finding{f}, want)
	}
}

func TestFirstEnd(t *testing.T) {
	at := func(days ...int) (chain []*x509.Certificate) {
		for _, d := range days {
			chain = append(chain, &x509.Certificate{NotAfter: time.Unix(0, 0).Add(time.Duration(d) * day)})
		}
		return chain
	}
	for _, c := range []struct {
		chains [][]*x509.Certificate
		want   int
	}{
		{[][]*x509.Certificate{at(90, 30, 900)}, 30},
		{[][]*x509.Certificate{at(20, 300)}, 20},
		{[][]*x509.Certificate{at(90, 10), at(90, 60, 900)}, 60}, // one that ends does not end the other
	} {
		if got := firstEnd(c.chains); !got.Equal(time.Unix(0, 0).Add(time.Duration(c.want) * day)) {
			t.Errorf("%v, want day %d", got, c.want)
		}
	}
}

func TestClock(t *testing.T) {
	for _, c := range []struct {
		offset, give time.Duration
		want         string
	}{
		{0, 500 * time.Millisecond, "ok clock: within 1s"},
		{400 * time.Millisecond, 500 * time.Millisecond, "ok clock: within 1s"},
		{-2 * time.Second, 500 * time.Millisecond, "ok clock: 2s ahead of"},
		{-2600 * time.Millisecond, 500 * time.Millisecond, "warning clock: 2.6s ahead of the server's, give or take 500ms"},
		{2600 * time.Millisecond, 500 * time.Millisecond, "warning clock: 2.6s behind the server's"},
		{-2600 * time.Millisecond, 2 * time.Second, "ok clock: 2.6s ahead"}, // a slow answer leaves it open
		{5 * time.Minute, 500 * time.Millisecond, "warning clock: 5m0s behind"},
		{-6 * time.Minute, 500 * time.Millisecond, "failed clock: 6m0s ahead"},
		{24 * time.Hour, time.Second, "failed clock: 24h0m0s behind"},
	} {
		expect(t, []Finding{clock(c.offset, c.give)}, c.want)
	}
	built := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	expect(t, []Finding{Clock(built, built), Clock(time.Unix(60, 0), built)},
		"ok clock: 2026-06-01 00:00:00 UTC", "failed clock: it shows 1970-01-01 00:01:00 UTC, before this program was made (2026-06-01)")
}

func TestSpace(t *testing.T) {
	for _, c := range []struct {
		bytes, files uint64
		counts       bool
		want         string
	}{
		{200e6, 1000, true, "ok state space: 200.0 MB free, room for 1000 files"},
		{200e6, 0, false, "ok state space: 200.0 MB free"},
		{200e6 - 1, 1e6, true, "warning state space: "},
		{5e9, 999, true, "warning state space: 5.0 GB free, room for 999 files"},
		{10e6, 20, true, "warning state space: "},
		{10e6 - 1, 1e6, true, "failed state space: "},
		{5e9, 19, true, "failed state space: "},
		{0, 0, false, "failed state space: 0 B free"},
	} {
		expect(t, []Finding{space("/var/lib/x", c.bytes, c.files, c.counts)}, c.want)
	}
	for n, want := range map[uint64]string{0: "0 B", 999: "999 B", 1500: "1.5 kB", 2e6: "2.0 MB", 1 << 63: "9.2 EB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestFiles(t *testing.T) {
	for limit, want := range map[uint64]string{96: "ok open files: 96 allowed", 95: "warning open files: 95 allowed, 96 may be needed", 1 << 40: "ok open files: "} {
		expect(t, []Finding{files(limit, 8)}, want)
	}
	for _, f := range Files(1) {
		if f.What != "open files" {
			t.Errorf("%s", fmt.Sprint(f))
		}
	}
}
