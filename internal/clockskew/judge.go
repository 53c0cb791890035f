package clockskew

import (
	"fmt"
	"strings"
	"time"
)

// Judgement is how this machine's clock stands.
type Judgement struct {
	// Offset is what to add to our clock to have the others', give or take
	// Within. It is negative when ours is ahead. With Apart it is the first
	// source's alone.
	Offset, Within time.Duration
	Known          bool     // false: nothing was measured, and the rest is zero
	Sources        []Source // those that were measured, the API first
	Apart          bool     // the sources contradict each other by more than Limit
}

// Source is one clock that ours was compared with.
type Source struct {
	Name           string // API or Redis
	Offset, Within time.Duration
}

// Skew says whether the clock is wrong beyond doubt.
func (j Judgement) Skew() bool { return !j.Apart && j.Offset.Abs()-j.Within > Limit }

// correction returns the next correction after the one used.
func (j Judgement) correction(used time.Duration) time.Duration {
	switch {
	case !j.Known || j.Apart:
		return 0
	case used != 0 && (j.Offset-used).Abs() <= j.Within+steady:
		return used
	case j.Skew():
		return j.Offset
	}
	return 0
}

// text tells what was found, with the correction that is used.
func (j Judgement) text(used time.Duration) string {
	var who, each []string
	for _, s := range j.Sources {
		name := s.Name
		if name == "API" {
			name = "the API"
		}
		who = append(who, name)
		each = append(each, side(s.Offset)+" that of "+name)
	}
	all := strings.Join(who, " and ")
	switch {
	case j.Apart:
		return fmt.Sprintf("this machine's clock is %s: one is wrong, and maintenance windows go by this machine's; set it, and keep all right with chrony or systemd-timesyncd", strings.Join(each, " and "))
	case used != 0:
		return fmt.Sprintf("this machine's clock is %s that of %s, give or take %v: maintenance windows go by the corrected time; set it, and keep it right with chrony or systemd-timesyncd (timedatectl set-ntp true)", side(used), all, j.Within.Round(10*time.Millisecond))
	}
	return fmt.Sprintf("this machine's clock agrees with that of %s again: maintenance windows go by it", all)
}

// side writes an offset of others' clocks as one of ours.
func side(offset time.Duration) string {
	by := offset.Abs()
	switch unit := 100 * time.Millisecond; {
	case by < unit:
		return "the same as"
	case by >= time.Minute:
		by = by.Round(time.Second)
	default:
		by = by.Round(unit)
	}
	if offset < 0 {
		return by.String() + " ahead of"
	}
	return by.String() + " behind"
}
