package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parseShare reads a percentage as a share of one.
func parseShare(s string) (float64, error) {
	number, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || math.IsNaN(n) || n < 0 || n > 100 {
		return 0, fmt.Errorf("%q is no share: write a percentage such as 0.1%%, at most 100%%", s)
	}
	return n / 100, nil
}

// units of sizes: the powers of a thousand, and those of 1024.
var units = []struct {
	name string
	size float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// parseSize reads a number of bytes with its unit.
func parseSize(s string) (int64, error) {
	trimmed := strings.TrimSpace(s)
	for _, u := range units {
		if number, ok := strings.CutSuffix(trimmed, u.name); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err == nil && n >= 0 && n*u.size < math.MaxInt64 {
				return int64(n * u.size), nil
			}
			break
		}
	}
	return 0, fmt.Errorf("%q is no size: write a number with a unit, such as 500kB, 50MB or 1GiB", s)
}
