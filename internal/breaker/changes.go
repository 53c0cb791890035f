package breaker

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
	"time"
)

// Changes are the times of the last changes from closed to open and to closed,
// the newest first. Probes that fail are not among them, and neither is what an
// operator did: they are no sign of a path that comes and goes.
type Changes [12]time.Time

// calm is how many changes in an hour are not too many.
const calm = 6

// LastHour returns how many changes there were in the hour before now; of more
// than Changes holds no more are known.
func (c Changes) LastHour(now time.Time) (n int) {
	for _, t := range c {
		if !t.IsZero() && !t.After(now) && now.Sub(t) < time.Hour {
			n++
		}
	}
	return n
}

// Thrashing reports that the breaker changed more than six times in the hour
// before now. Then each time it opens it stays open for longer: as if one more
// probe had failed for each change above six.
func (c Changes) Thrashing(now time.Time) bool { return c.above(now) > 0 }

func (c Changes) above(now time.Time) int { return max(0, c.LastHour(now)-calm) }

// with returns c and one more change.
func (c Changes) with(now time.Time) Changes {
	next := Changes{now}
	copy(next[1:], c[:])
	return next
}

// MarshalJSONTo writes a list of as many times as there are.
func (c Changes) MarshalJSONTo(enc *jsontext.Encoder) error {
	list := slices.DeleteFunc(slices.Clone(c[:]), time.Time.IsZero)
	return json.MarshalEncode(enc, list)
}

// UnmarshalJSONFrom reads a list of any length.
func (c *Changes) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var list []time.Time
	if err := json.UnmarshalDecode(dec, &list); err != nil {
		return err
	}
	for i := range list {
		list[i] = readable(list[i])
	}
	*c = Changes{}
	copy(c[:], slices.DeleteFunc(list, time.Time.IsZero))
	return nil
}
