package main

import "testing"

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"0B": 0, "512B": 512, "1kB": 1000, "1KiB": 1024, "50MB": 50_000_000, "1.5GiB": 3 << 29, " 2 TB ": 2_000_000_000_000} {
		if got, err := parseSize(in); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "50", "MB", "-1MB", "NaNMB", "1e30TB", "5 megabytes", "50mb"} {
		if got, err := parseSize(in); err == nil {
			t.Errorf("%q was taken for %d", in, got)
		}
	}
}

func TestParseShare(t *testing.T) {
	for in, want := range map[string]float64{"0%": 0, "0.1%": 0.001, "5 %": 0.05, "100%": 1} {
		if got, err := parseShare(in); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "5", "101%", "-1%", "NaN%", "%"} {
		if got, err := parseShare(in); err == nil {
			t.Errorf("%q was taken for %v", in, got)
		}
	}
}
