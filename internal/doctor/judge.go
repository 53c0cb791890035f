package doctor

import (
	"crypto/x509"
	"fmt"
	"time"

	"trafficup/internal/clockskew"
)

const day = 24 * time.Hour

// expiry judges a certificate that ends at end. who names it.
func expiry(what, who string, now, end time.Time, do string) Finding {
	left := end.Sub(now)
	date := end.UTC().Format(time.DateOnly)
	switch {
	case left <= 0:
		return failed(what, do, "%s ended on %s", who, date)
	case left < 3*day:
		return failed(what, do, "%s ends on %s, in %s", who, date, left.Truncate(time.Hour))
	case left < 21*day:
		return warning(what, do, "%s ends on %s, in %d days", who, date, left/day)
	}
	return ok(what, "%s ends on %s, in %d days", who, date, left/day)
}

// firstEnd is when the first certificate of a chain ends: of several chains
// that were verified, of the one that lasts longest.
func firstEnd(chains [][]*x509.Certificate) (last time.Time) {
	for _, chain := range chains {
		var end time.Time
		for n, c := range chain {
			if n == 0 || c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(last) {
			last = end
		}
	}
	return last
}

// issuer names who vouches for a certificate.
func issuer(c *x509.Certificate) string {
	if name := c.Issuer.CommonName; name != "" {
		return name
	}
	return c.Issuer.String()
}

const setClock = "set it, and keep it right: timedatectl set-ntp true"

// clock judges by what is sure of it an offset, which is what to add to the clock
// to have the server's.
func clock(offset, give time.Duration) Finding {
	const what = "clock"
	sure := offset.Abs() - give
	if sure <= 0 {
		return ok(what, "within %v of the server's", (2 * give).Round(10*time.Millisecond))
	}
	side := "behind"
	if offset < 0 {
		side = "ahead of"
	}
	text := fmt.Sprintf("%v %s the server's, give or take %v", offset.Abs().Round(100*time.Millisecond), side, give.Round(10*time.Millisecond))
	switch {
	case sure > 5*time.Minute:
		return failed(what, setClock, "%s: tokens and certificates are refused for less", text)
	case sure > clockskew.Limit:
		return warning(what, setClock, "%s", text)
	}
	return ok(what, "%s", text)
}

// Clock judges the clock alone: no clock that is right shows a time before the
// program was built.
func Clock(now, built time.Time) Finding {
	const what = "clock"
	shown := now.UTC().Format("2006-01-02 15:04:05 UTC")
	if now.Before(built) {
		return failed(what, setClock, "it shows %s, before this program was made (%s)", shown, built.UTC().Format(time.DateOnly))
	}
	return ok(what, "%s", shown)
}

// space judges what is left on a file system, in bytes and in files. One that
// does not count its files has none.
func space(dir string, bytes uint64, files uint64, countsFiles bool) Finding {
	const what = "state space"
	do := fmt.Sprintf("make room, or give another --state-dir: df -h %[1]q; df -i %[1]q", dir)
	text := size(bytes) + " free"
	if countsFiles {
		text += fmt.Sprintf(", room for %d files", files)
	}
	switch {
	case bytes < 10e6, countsFiles && files < 20:
		return failed(what, do, "%s: a run could not keep its ledger", text)
	case bytes < 200e6, countsFiles && files < 1000:
		return warning(what, do, "%s", text)
	}
	return ok(what, "%s", text)
}

// size writes bytes for people: 12 B, 1.5 kB, 200.0 MB.
func size(n uint64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1e3, 0
	for ; f >= 1000 && unit < 5; unit++ {
		f /= 1e3
	}
	return fmt.Sprintf("%.1f %cB", f, "kMGTPE"[unit])
}
