package edge

import (
	"maps"
	"slices"
	"sync"
	"time"

	"trafficup/internal/failover"
)

// Counts are what happened in this boot, by names of uplinks: for metrics. They
// outlive a loop, and begin anew with a start of the machine.
type Counts struct {
	Until    time.Duration            `json:"until"`   // since boot
	Carried  map[string]time.Duration `json:"carried"` // how long each was active
	Switches []Switches               `json:"switches"`
	PutBack  int                      `json:"put_back"`          // times that routes were set without a switch
	Hooks    int                      `json:"hook_failures"`     // also of those that were not run
	Detected time.Duration            `json:"detected,omitzero"` // how long the last failover came after its first sign; 0: there was none
}

// Switches are those of one kind.
type Switches struct {
	From     string `json:"from"` // "": it was the first choice
	To       string `json:"to"`
	Expected bool   `json:"expected"`
	N        int    `json:"n"`
}

// Tally keeps Counts. Its methods are safe for concurrent use.
type Tally struct {
	mu       sync.Mutex
	counts   Counts // guarded by mu, as all below
	active   string
	switched bool // routes that are set now are those of a switch
}

// NewTally goes on from those of a report, or begins where that says nothing of this
// boot.
func NewTally(r Report, boot string, now time.Duration) *Tally {
	t := &Tally{switched: true, counts: Counts{Until: now}}
	if r.Boot == boot && r.Counts.Until > 0 && r.Counts.Until <= now {
		// What carried carried on while nobody counted.
		t.counts, t.active, t.switched = r.Counts.clone(), r.Active, r.Active == ""
	}
	if t.counts.Carried == nil {
		t.counts.Carried = map[string]time.Duration{}
	}
	return t
}

// Told counts a happening. All are to be given, in their order.
func (t *Tally) Told(h Happening, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.upTo(now)
	switch h.What {
	case failover.EventSwitch:
		t.switchTo(h.Event)
	case EventRoutes:
		if !t.switched {
			t.counts.PutBack++
		}
		t.switched = false
	}
}

func (t *Tally) switchTo(e failover.Event) {
	t.active, t.switched = e.Uplink, true
	if e.After > 0 {
		t.counts.Detected = time.Duration(e.After)
	}
	n := slices.IndexFunc(t.counts.Switches, func(s Switches) bool {
		return s.From == e.From && s.To == e.Uplink && s.Expected == e.Expected
	})
	if n < 0 {
		n, t.counts.Switches = len(t.counts.Switches), append(t.counts.Switches, Switches{e.From, e.Uplink, e.Expected, 0})
	}
	t.counts.Switches[n].N++
}

// HookFailed counts a hook that failed or was not run.
func (t *Tally) HookFailed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Hooks++
}

// Counts returns what was counted up to now.
func (t *Tally) Counts(now time.Duration) Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.upTo(now)
	return t.counts.clone()
}

func (c Counts) clone() Counts {
	c.Carried, c.Switches = maps.Clone(c.Carried), slices.Clone(c.Switches)
	return c
}

func (t *Tally) upTo(now time.Duration) {
	if t.active != "" {
		t.counts.Carried[t.active] += now - t.counts.Until
	}
	t.counts.Until = now
}
