package edge

import "time"

const (
	fullAt  = 0.8             // of the rate, over span at least
	span    = time.Second     // a packet or two make no rate
	drained = 5 * time.Second // how long queues on the way take to empty
)

// load tells whether what this machine sends fills an uplink, by the kernel's count
// of bytes. Round trips through a full queue say nothing of the uplink.
type load struct {
	rate  uint64 // bit/s that the uplink takes; 0: not known
	at    time.Time
	sent  uint64
	until time.Time // it counts as full
}

// saw takes what was sent up to now. A count that is less than before is another
// interface's.
func (l *load) saw(now time.Time, sent uint64) {
	since := now.Sub(l.at)
	if since < span && sent >= l.sent {
		return
	}
	if !l.at.IsZero() && sent >= l.sent && l.rate > 0 && 8*float64(sent-l.sent) >= fullAt*float64(l.rate)*since.Seconds() {
		l.until = now.Add(drained)
	}
	l.at, l.sent = now, sent
}

// full reports whether the uplink is, or was a moment ago.
func (l *load) full(now time.Time) bool { return now.Before(l.until) }
