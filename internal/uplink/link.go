package uplink

import (
	"fmt"
	"time"
)

const (
	// remember is how long a fault holds of which nothing more is heard. A breaker
	// that it opened asks seldom: every 5 min at the longest, by default.
	remember = 10 * time.Minute

	sliceTime = 2 * time.Second
	maxSlices = 15 // 30 s
	// enough segments for the share of those lost not to be chance: of 200 with 3 %
	// lost, a usable radio link, a tenth is seen once in 100,000 times.
	enough = 200
	// spread, in slices, over which loss has to be seen: a server that stands still
	// for a moment makes all connections repeat themselves, but only once.
	spread = 5
	// lossy is the share of segments lost, as its inverse.
	lossy = 10
)

// link is what the attempts by one path have shown of it. It is a value: saw
// returns the next one.
type link struct {
	own    time.Time // of the last fault of the machine itself; zero: it was answered since
	slices [maxSlices]slice
}

// slice sums up two seconds of answered attempts. There is none for a time without
// any, so that what was seen before a silence is still seen in it.
type slice struct {
	begun          time.Time // zero: none
	segments, lost uint64
}

// saw returns what is known after the attempt.
func (l link) saw(now time.Time, a Attempt) link {
	if !a.Answered {
		if a.Own {
			l.own = now
		}
		return l // what it sent again may be for want of a server
	}
	l.own = time.Time{}
	if a.Segments == 0 {
		return l
	}
	if s := l.slices[0]; s.begun.IsZero() || now.Sub(s.begun) >= sliceTime {
		copy(l.slices[1:], l.slices[:])
		l.slices[0] = slice{begun: now}
	}
	l.slices[0].segments += a.Segments
	l.slices[0].lost += min(a.Lost, a.Segments) // handshakes sent again are no segments
	return l
}

// fault returns in words why the uplink is bad; "": it is not.
func (l link) fault(now time.Time) string {
	if !l.own.IsZero() && now.Sub(l.own) < remember {
		return "no network, no route or no name lookup on this machine"
	}
	if now.Sub(l.slices[0].begun) >= remember {
		return ""
	}
	if lost, segments := l.loss(); lost > 0 {
		return fmt.Sprintf("%.0f %% of the last %d segments lost", 100*float64(lost)/float64(segments), segments)
	}
	return ""
}

// loss returns the segments lost of those looked at, if they are enough to judge
// by and it is steady loss; else zeros.
func (l link) loss() (lost, segments uint64) {
	seen, hit := 0, 0
	for _, s := range l.slices {
		old := l.slices[0].begun.Sub(s.begun) >= maxSlices*sliceTime
		if s.begun.IsZero() || old || segments >= enough && seen >= spread {
			break
		}
		seen++
		segments += s.segments
		if lost += s.lost; s.lost > 0 {
			hit++
		}
	}
	if segments < enough || seen < spread || lost*lossy < segments || 2*hit < seen {
		return 0, 0
	}
	return lost, segments
}
