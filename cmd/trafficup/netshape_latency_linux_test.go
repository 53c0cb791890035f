package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"trafficup/internal/netshape"
)

// What shall hold of EF packets that take 40 ms without load.
const (
	near = 60 * time.Millisecond  // at most, where the rate is below the link's
	late = 250 * time.Millisecond // more than that elsewhere
	calm = 50 * time.Millisecond  // by the other way, on a machine that is not late itself
)

// judge loads the uplink until verdict says nothing, three times at most: a machine
// that is busy is late, too, but not always.
func (b *modemBench) judge(verdict func(burden) string, args ...string) {
	b.t.Helper()
	var why string
	for range 3 {
		if why = verdict(b.load(args...)); why == "" {
			return
		}
		b.t.Logf("%v: %s", args, why)
		time.Sleep(time.Second) // the modem's queue runs empty
		b.run("clear", "--iface", "up0").is(0)
	}
	b.t.Errorf("%v: %s", args, why)
}

// delayed: the queue is the modem's, and full.
func delayed(l burden) string {
	if l.delay <= late {
		return fmt.Sprintf("EF packets took only %v", l.delay)
	}
	return ""
}

// told: it is, and that is said.
func told(l burden) string {
	for _, r := range l.readings {
		if strings.Contains(r.TooHigh, "rate 12mbit is above the link's: under load the delay is ") {
			return delayed(l)
		}
	}
	return fmt.Sprintf("nothing says that the rate is too high: %+v", l.readings)
}

// taken: it is told though what the delay is without load was never seen.
func taken(l burden) string {
	for _, r := range l.readings {
		if strings.HasSuffix(r.TooHigh, "(idle delay not seen yet, taken as 100ms)") {
			return told(l)
		}
	}
	return fmt.Sprintf("nothing is said on the assumption: %+v", l.readings)
}

// fair: nobody waits for the uploads, which have nearly the whole link and a tin of
// their own, and no word against the rate. What a busy machine adds to both ways is
// not the queue's.
func fair(l burden) string {
	most := near
	if l.beside > calm {
		most = l.beside + near - 40*time.Millisecond
	}
	urgent := cmp.Or(l.tins["Voice"], l.tins["Interactive"])
	switch {
	case l.delay > most:
		return fmt.Sprintf("EF packets took %v, want at most %v", l.delay, most)
	case urgent < pings || urgent > 2*pings || l.tins["Bulk"] < 9*(l.packets-urgent)/10:
		return fmt.Sprintf("tins have %v of %d packets", l.tins, l.packets)
	}
	full := 0 // readings with the queue at its rate, so that there is something to wait for
	for _, r := range l.readings {
		if r.TooHigh != "" {
			return r.TooHigh
		}
		if r.Sent > r.Rate/100*85 && r.Delay.Duration > 0 {
			full++
		}
	}
	if full < 4 {
		return fmt.Sprintf("the uploads did not fill the uplink: %+v", l.readings)
	}
	return ""
}

// Without a shaper, and with one whose rate is above the link's, EF packets wait for
// two uploads in the modem; status --watch says why, also when it begins under load.
func TestNetshapeRateTooHigh(t *testing.T) {
	b := newModem(t)
	b.judge(delayed)
	b.judge(told, "--kind", "cake", "--up", "12mbit")
	b.run("clear", "--iface", "up0").is(0)
	b.late = true
	b.judge(taken, "--kind", "cake", "--up", "12mbit")
}

// With a rate below the link's they do not.
func TestNetshapeLatency(t *testing.T) {
	b := newModem(t)
	b.judge(fair, "--kind", "cake", "--up", "9mbit")
	b.judge(fair, "--kind", "fq_codel", "--up", "9mbit")
}

// measure finds a rate below the link's, and that load raises the delay.
func TestNetshapeMeasuredRate(t *testing.T) {
	b := newModem(t)
	var m netshape.Measured
	right := func() bool {
		return m.Proposed >= 7e6 && m.Proposed <= 9.5e6 && (m.Profile == "" || m.Profile == "leo") && m.Idle.Duration >= 40*time.Millisecond && m.Bloat.Duration >= 200*time.Millisecond
	}
	for try := 0; try < 3 && !right(); try++ { // on a machine that is busy it sees that
		m = netshape.Measured{}
		s := b.run("measure", "--iface", "up0", "--target", b.far, "--sink", b.far, "--for", "6s", "--json").is(0)
		fatal(t, json.Unmarshal([]byte(s.stdout), &m))
		t.Logf("%+v", m)
	}
	if !right() {
		t.Errorf("%+v", m)
	}
}
