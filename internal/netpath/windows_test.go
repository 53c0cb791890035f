package netpath

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func windows(t testing.TB, specs ...string) Windows {
	t.Helper()
	var ws Windows
	for _, s := range specs {
		f := strings.Fields(s)
		ws = append(ws, mustParse(t, Spec{Path: f[0], From: f[1], To: f[2], Days: f[3:]}))
	}
	return ws
}

func TestWindowsIn(t *testing.T) {
	for _, c := range []struct {
		name  string
		specs []string
		at    string // 2026-07-19 is a Sunday
		until string // "": not in one
	}{
		{"none", nil, "2026-07-19 03:00", ""},
		{"of another path", []string{"fallback 02:00 08:00"}, "2026-07-19 03:00", ""},
		{"before", []string{"primary 02:00 08:00 sun"}, "2026-07-19 01:00", ""},
		{"inside", []string{"primary 02:00 08:00 sun"}, "2026-07-19 02:00", "2026-07-19 08:00"},
		{"after", []string{"primary 02:00 08:00 sun"}, "2026-07-19 08:00", ""},
		{"overlapping", []string{"primary 05:00 10:00", "primary 02:00 08:00"}, "2026-07-19 03:00", "2026-07-19 10:00"},
		{"adjacent", []string{"primary 08:00 10:00", "primary 02:00 08:00"}, "2026-07-19 03:00", "2026-07-19 10:00"},
		{"contained", []string{"primary 03:00 04:00", "primary 02:00 08:00"}, "2026-07-19 03:30", "2026-07-19 08:00"},
		{"chained", []string{"primary 06:00 09:00", "primary 02:00 05:00", "primary 05:00 06:30"}, "2026-07-19 02:00", "2026-07-19 09:00"},
		{"two that touch over midnight", []string{"primary 22:00 24:00 sat", "primary 00:00 04:00 sun"}, "2026-07-18 23:00", "2026-07-19 04:00"},
		{"always", []string{"primary 00:00 24:00"}, "2026-07-19 03:00", "2026-07-27 00:00"},
		{"always but one day", []string{"primary 00:00 24:00 mon tue wed thu fri sat"}, "2026-07-20 03:00", "2026-07-26 00:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ws, at := windows(t, c.specs...), utc(c.at)
			until, in := ws.In("primary", at)
			if c.name == "always" {
				if !in || until.Sub(at) < endless {
					t.Errorf("in %v until %s", in, until)
				}
			} else if in != (c.until != "") || in && until != utc(c.until) || !in && !until.IsZero() {
				t.Errorf("in %v until %s, want %s", in, until, c.until)
			}
		})
	}
}

func TestWindowsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ws Windows
		for range rapid.IntRange(0, 4).Draw(t, "windows") {
			_, w := drawWindow(t, "primary")
			ws = append(ws, w)
		}
		inAny := func(at time.Time) bool {
			for _, w := range ws {
				if w.Contains(at) {
					return true
				}
			}
			return false
		}
		at := drawTime(t)
		until, in := ws.In("primary", at)
		if in != inAny(at) {
			t.Fatalf("in: %v", in)
		}
		if in && !until.After(at) {
			t.Fatalf("until %s at %s", until, at)
		}
		if in && until.Sub(at) < endless && (inAny(until) || !inAny(until.Add(-1))) {
			t.Fatalf("until %s is not the end", until)
		}
	})
}

func BenchmarkWindowsIn(b *testing.B) {
	w := mustParse(b, Spec{From: "02:00", To: "08:00", TZ: "America/New_York"})
	ws, at := Windows{w}, utc("2026-07-19 01:00")
	for b.Loop() {
		ws.In("primary", at)
	}
}
