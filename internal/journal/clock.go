package journal

import "time"

// A machine's clock may be wrong for a while: it starts in 1970 until it is set, or
// lies years ahead. What that makes of times in the ledger:
//
//   - An entry counts as no older than those before it.
//   - A leap of the times, from an entry to the next or to the run that reads, counts
//     as no time. A machine that stood still for so long forgets nothing for it
//     either, which does no harm.

// leap is by how much the times have to go forward at once to make one: no clock
// that was set is wrong by so much.
const leap = 365 * 24 * time.Hour

// dates tells the age of entries, taken in the order of the log.
type dates struct {
	now       time.Time // of the run that reads; what lies ahead of it makes nothing younger
	since     time.Time // what is older is forgotten
	latest    time.Time // of what was taken so far and is not ahead of now; zero: nothing was
	leaps     []span
	forgetful bool // something was forgotten
}

type span struct{ from, to time.Time }

// see takes the time of an entry.
func (d *dates) see(at time.Time) {
	if !at.After(d.latest) || at.After(d.now) {
		return
	}
	if !d.latest.IsZero() && at.Sub(d.latest) > leap {
		d.leaps = append(d.leaps, span{d.latest, at})
	}
	d.latest = at
}

// forgotten takes the time of an entry and says whether the entry is too old.
func (d *dates) forgotten(at time.Time) bool {
	d.see(at)
	if at.Before(d.latest) {
		at = d.latest
	}
	old := at.Before(d.since)
	d.forgetful = d.forgetful || old
	return old
}

// before returns the time that lies so long before now, leaps left out.
func (d *dates) before(now time.Time, long time.Duration) time.Time {
	t := now.Add(-long)
	for i := len(d.leaps) - 1; i >= 0 && t.Before(d.leaps[i].to); i-- {
		t = t.Add(-d.leaps[i].to.Sub(d.leaps[i].from))
	}
	return t
}
