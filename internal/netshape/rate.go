package netshape

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are those of tc, in bits per second. tc's bare number means bits to some
// of its options and bytes to others: here a unit is required.
var units = []struct {
	name string
	bits float64
}{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"bit", 1}}

const (
	minRate = 8_000           // bit/s: a packet of full size takes 1.5 s
	maxRate = 100_000_000_000 // bit/s
)

// ParseRate returns a rate in bit/s: "9mbit", "900kbit", "1.5gbit" or "90% of
// 10mbit". The kernel counts in bytes: the result is rounded down to a multiple of 8.
func ParseRate(s string) (uint64, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	if share, of, isShare := strings.Cut(text, "%"); isShare {
		return parseShare(s, share, strings.TrimSpace(of))
	}
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := decimal(strings.TrimSpace(number))
		if err != nil {
			break
		}
		return checkRate(s, n*u.bits)
	}
	if _, err := decimal(text); err == nil {
		return 0, fmt.Errorf("rate %q has no unit: write %skbit or %smbit (bits per second)", s, text, text)
	}
	return 0, fmt.Errorf("%q is no rate: want a number with kbit, mbit or gbit, as in 9mbit, or a share, as in 90%% of 10mbit", s)
}

// parseShare reads "90" and "of 10mbit".
func parseShare(s, share, of string) (uint64, error) {
	percent, err := decimal(strings.TrimSpace(share))
	if err != nil || percent <= 0 || percent > 100 {
		return 0, fmt.Errorf("rate %q: the share must be more than 0%% and at most 100%%; 80%% to 95%% of what was measured are usual", s)
	}
	whole, ok := strings.CutPrefix(of, "of ")
	if !ok || strings.Contains(whole, "%") {
		return 0, fmt.Errorf("rate %q: want a share of a rate, as in 90%% of 10mbit", s)
	}
	base, err := ParseRate(whole)
	if err != nil {
		return 0, err
	}
	return checkRate(s, percent/100*float64(base))
}

// decimal reads digits with at most one point: no sign, exponent, hex or "inf".
func decimal(s string) (float64, error) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(s, 64)
}

func checkRate(s string, bits float64) (uint64, error) {
	if bits < minRate || bits > maxRate {
		return 0, fmt.Errorf("rate %q is out of bounds: want %s to %s", s, FormatRate(minRate), FormatRate(maxRate))
	}
	return uint64(math.Floor(bits/8+1e-6)) * 8, nil
}

// FormatRate writes a rate in bit/s so that [ParseRate] and tc read it as the same.
func FormatRate(bits uint64) string {
	for _, u := range []struct {
		name string
		bits uint64
	}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}} {
		if bits >= u.bits && bits%(u.bits/1000) == 0 {
			return strconv.FormatFloat(float64(bits)/float64(u.bits), 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatUint(bits, 10) + "bit"
}
