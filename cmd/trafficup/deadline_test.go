package main

import (
	"testing"
	"time"

	"trafficup/internal/config"
)

func TestWindowEnd(t *testing.T) {
	at := func(s string) time.Time {
		when, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, c := range []struct{ now, end, want string }{
		{"2026-07-17T00:03:00Z", "05:30", "2026-07-17T05:30:00Z"},
		{"2026-07-17T05:30:00Z", "05:30", "2026-07-18T05:30:00Z"},
		{"2026-07-17T23:59:00Z", "00:00", "2026-07-18T00:00:00Z"},
		{"2026-07-17T04:10:00Z", "05:30 America/New_York", "2026-07-17T09:30:00Z"},
		{"2026-12-17T05:10:00Z", "05:30 America/New_York", "2026-12-17T10:30:00Z"},
		{"2026-03-08T05:30:00Z", "02:30 America/New_York", "2026-03-08T06:30:00Z"}, // left out that night: 01:30 EST, the earlier reading
		{"2026-11-01T04:30:00Z", "01:30 America/New_York", "2026-11-01T05:30:00Z"}, // twice that night: the first
		{"2026-07-17T12:00:00Z", "05:30 Asia/Kathmandu", "2026-07-17T23:45:00Z"},
		{"2026-12-31T23:00:00-05:00", "00:30", "2027-01-02T00:30:00Z"},
	} {
		got, err := windowEnd(c.end, at(c.now))
		if err != nil || !got.Equal(at(c.want)) {
			t.Errorf("%s at %s: %s, %v; want %s", c.end, c.now, got.UTC().Format(time.RFC3339), err, c.want)
		}
	}
	for _, bad := range []string{"24:00", "5:30", "0530", "05:30:00", "25:00", "05:30 Mars/Olympus", "05:30 Local", "", "330"} {
		if got, err := windowEnd(bad, at("2026-07-17T00:00:00Z")); err == nil {
			t.Errorf("%q was taken for %s", bad, got)
		}
	}
}

func TestDeadlineIsTheEarlier(t *testing.T) {
	now := time.Date(2026, 7, 17, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		deadline time.Duration
		end      string
		want     time.Duration // from now; 0: none
	}{{0, "", 0}, {time.Hour, "", time.Hour}, {0, "05:30", 330 * time.Minute}, {time.Hour, "05:30", time.Hour}, {8 * time.Hour, "05:30", 330 * time.Minute}} {
		cfg := Config{new(config.Loaded)}
		cfg.Upload.Deadline, cfg.Upload.WindowEnd = c.deadline, config.Clock(c.end)
		at, err := cfg.deadline(now)
		if err != nil || at.IsZero() != (c.want == 0) || c.want != 0 && at.Sub(now) != c.want {
			t.Errorf("%s and %q: %s, %v", c.deadline, c.end, at, err)
		}
	}
}
