package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Answer is the latest that is known of one target by one uplink.
type Answer struct {
	Target  string // for people
	Class   string // what it proves; targets of one class stand in for each other
	OK      bool
	At      time.Duration // when it was asked for
	RTT     time.Duration // of a good one; 0: it is of another round
	NoRoute bool          // nothing was sent: there is no way by this uplink
	Bytes   int           // sent and received for it, about
	Why     string        // it is not good
}

// Round is one look at an uplink.
type Round struct {
	At      time.Duration // since boot
	OK      bool
	Age     time.Duration // of the oldest good answer then
	RTT     time.Duration // of the fastest answer; 0: nobody was asked that answers
	Loaded  bool          // our own upload fills the link: its time says nothing
	NoRoute bool          // nothing could be sent by it
	Gone    string        // what the kernel said of the link then; "": there was one
	Why     string        // it is bad
}

// Judge makes a round of the answers of all targets: it is good when at least
// quorum of them are, and of each class one is. So neither a target that is gone
// condemns an uplink, nor does an answer to pings hide that no connection can be
// made. Without answers a round is bad.
func Judge(at time.Duration, answers []Answer, quorum int) Round {
	r := Round{At: at, NoRoute: len(answers) > 0}
	good, classes := 0, map[string]bool{}
	var bad []string // reasons, each with the targets that it is of
	of := map[string]string{}
	for _, a := range answers {
		classes[a.Class] = classes[a.Class] || a.OK
		r.NoRoute = r.NoRoute && a.NoRoute
		if !a.OK {
			if of[a.Why] == "" {
				bad, of[a.Why] = append(bad, a.Why), a.Target
			} else {
				of[a.Why] += ", " + a.Target
			}
			continue
		}
		good++
		r.Age = max(r.Age, at-a.At)
		if a.RTT > 0 && (r.RTT == 0 || a.RTT < r.RTT) {
			r.RTT = a.RTT
		}
	}
	for i, why := range bad {
		bad[i] = of[why] + ": " + why
	}
	var dead []string
	for class, ok := range classes {
		if !ok {
			dead = append(dead, class)
		}
	}
	slices.Sort(dead)
	switch {
	case len(answers) == 0:
		r.Why = "nothing was asked"
	case good < quorum:
		r.Why = fmt.Sprintf("%d of %d targets answer, want %d (%s)", good, len(answers), quorum, strings.Join(bad, "; "))
	case len(dead) > 0:
		r.Why = fmt.Sprintf("no target of %s answers (%s)", strings.Join(dead, ", "), strings.Join(bad, "; "))
	default:
		r.OK = true
	}
	if r.NoRoute {
		r.Why = "no-route: " + r.Why
	}
	return r
}
