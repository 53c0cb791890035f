package failover

import (
	"strings"
	"testing"
	"time"
)

// What an uplink needs is said as what has to come, and what a person can do.
func TestOutlookSays(t *testing.T) {
	c := Config{Uplinks: []Uplink{{Name: "leo"}, {Name: "lte"}}, Rules: leo}
	now := Now{Boot: time.Hour, Wall: time.Unix(1e9, 0)}
	s := c.New(now)
	s.Active = 1
	s = c.Link(s, 0, "wan0: interface is down", now)
	if got := c.Outlook(s, now)[0].Needs; !strings.HasPrefix(got, "a link again (wan0: interface is down), and then ") {
		t.Errorf("gone: %q", got)
	}
	s = c.Force(s, Forced{Uplink: 1, Until: 2 * time.Hour, Why: "a drill"})
	if got := c.Outlook(s, now)[0].Needs; got != "the end of the choice of lte (a drill), or: trafficup failover switch auto" {
		t.Errorf("chosen: %q", got)
	}
}
