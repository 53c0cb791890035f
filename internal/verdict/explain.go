package verdict

import (
	"fmt"
	"time"
)

// Explain returns lines of text: link and service of each path that was used, in
// this order, and last the verdict. Where there is more than one their names stand
// on the lines.
func Explain(v Verdict, f map[string]Figures, order []string) (lines []string) {
	var used []string
	for _, path := range order {
		if f[path].Attempts > 0 {
			used = append(used, path)
		}
	}
	for _, path := range used {
		name := ""
		if len(used) > 1 {
			name = path + ": "
		}
		lines = append(lines, "link    "+name+f[path].linkLine(), "service "+name+f[path].serviceLine())
	}
	return append(lines, "verdict "+v.Word+": "+v.Why)
}

func (f Figures) linkLine() string {
	line := "not measured"
	if f.Measured > 0 {
		line = fmt.Sprintf("rtt %s, %s retransmitted", f.RTT, percent(f.lossShare()))
	}
	return line + f.part(f.Misset+f.NoDial+f.Foreign, "did not get through")
}

func (f Figures) serviceLine() string {
	line := "did no work"
	if f.Answered > f.Throttled {
		line = f.Service.String()
	}
	return line + fmt.Sprintf(", %s failed", percent(share(f.Failed+f.Refused+f.Resets, f.Attempts))) +
		f.part(f.Timeouts, "timed out") + f.part(f.Throttled, "throttled")
}

// part is a share of the attempts, left out when there is none.
func (f Figures) part(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %s %s", percent(share(n, f.Attempts)), what)
}

// String writes both in the unit that suits the median: "231 ms (p95 260)".
func (s Spread) String() string {
	unit, name, digits := time.Millisecond, "ms", 0
	switch {
	case s.P50 >= time.Second:
		unit, name, digits = time.Second, "s", 1
	case s.P50 < 10*time.Millisecond:
		digits = 1
	}
	in := func(d time.Duration) float64 { return float64(d) / float64(unit) }
	return fmt.Sprintf("%.*f %s (p95 %.*f)", digits, in(s.P50), name, digits, in(s.P95))
}

func percent(share float64) string {
	if share > 0 && share < 0.001 {
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", share*100)
}
