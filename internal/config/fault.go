package config

import (
	"fmt"
	"strings"
)

// Origin is the place a value came from.
type Origin struct {
	Layer string // default, file, environment or flag
	Place string // trafficup.yaml:12, $TRAFFICUP_RETRY_CAP, --backoff-cap
	order int    // in which it was read
}

func (o Origin) String() string {
	if o.Place == "" {
		return o.Layer
	}
	return o.Place
}

// Fault is one mistake.
type Fault struct {
	Origin  Origin
	Key     string // "": the place says it all
	Problem string // what is wrong, and what would be right
}

func (f Fault) String() string {
	parts := make([]string, 0, 3)
	if f.Origin.Place != "" {
		parts = append(parts, f.Origin.Place)
	}
	if f.Key != "" {
		parts = append(parts, keyShown(f.Key))
	}
	return strings.Join(append(parts, f.Problem), ": ")
}

// maxTold is how many mistakes an Error lists.
const maxTold = 15

// Error is everything that is wrong with a configuration, in the order it was
// read. It shows no secret.
type Error struct {
	Faults []Fault
	Denied string // the file that this user may not read; "": none
}

func (e *Error) Error() string {
	if len(e.Faults) == 1 {
		return "configuration: " + e.Faults[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "configuration: %d mistakes", len(e.Faults))
	for n, f := range e.Faults {
		if n == maxTold {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Faults)-n)
			break
		}
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// Nearest returns the candidate that s is most likely meant to be, "" when none
// is near: at most a third of it may be wrong.
func Nearest(s string, candidates []string) string {
	best, least := "", len(s)/3+1
	for _, c := range candidates {
		if d := distance(s, c); d < least || d == least && best == "" && d <= len(s)/3 {
			best, least = c, d
		}
	}
	return best
}
