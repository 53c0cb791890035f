package failover

import "time"

// Settled reports that looking on soon, in a run that began then, would not change the
// decision; or that the rules have had the time that they need for one.
func (c Config) Settled(s State, began time.Duration, now Now) bool {
	r := c.Rules
	if now.Boot-began >= r.Start+time.Duration(r.Down)*r.Interval+r.Timeout {
		return true
	}
	for i, h := range s.Health {
		rising := h.Good > 0 && (h.Verdict == Unknown || h.Verdict == Down && (i < s.Active || s.Active < 0 || s.AllDown))
		if h.Seen < began && h.Gone == "" || rising || h.Gone != "" && h.Verdict != Down {
			return false
		}
	}
	if s.Active < 0 {
		return s.AllDown
	}
	h := s.Health[s.Active]
	return s.AllDown || h.Bad == 0 && h.LastGood >= began && h.Verdict != Down
}
