package route

import (
	"fmt"
	"math/bits"
)

// OtherMask says what to write to have a mask with room for the marks of all uplinks,
// of bits that no rule of others looks at and that are not in used.
func (l Layout) OtherMask(k Kernel, used uint32) string {
	if mask := l.freeMask(k, used); mask != 0 {
		return fmt.Sprintf("write to the configuration, below failover: mask: %#x", mask)
	}
	return "no bits are left for failover: have one of the others use fewer, or write failover.simple: true"
}

// freeMask returns 0 when there is none.
func (l Layout) freeMask(k Kernel, used uint32) uint32 {
	for _, r := range k.Rules {
		switch {
		case r.Protocol == l.Protocol:
		case r.Mask == ^uint32(0): // one mark, of which zeros are nobody's
			used |= r.Mark
		default:
			used |= r.Mask
		}
	}
	width := bits.Len(uint(max(len(l.Uplinks), 2)))
	for at := range 32 {
		shift := (at + 8) % 32 // the low ones are what people take first
		mask := (uint32(1)<<width - 1) << shift
		if shift+width <= 32 && mask&used == 0 {
			return mask
		}
	}
	return 0
}

// move is how a rule of somebody else's is taken from where it is.
func (r Rule) move(below int) string {
	if r.Odd { // there is more to it than could be written here
		return fmt.Sprintf("give it a priority below %d where it is set up", below)
	}
	to := r
	to.Priority = below - 1
	return fmt.Sprintf("have it set up with a priority below %d; until then: %s && %s", below, Step{Op: Add, Rule: to}.Command(), Step{Op: Delete, Rule: r}.Command())
}

// Lowest is the lowest priority that can be ours, with any number of uplinks.
func (l Layout) Lowest() int { return l.FirstRule + 2 - MaxUplinks }
