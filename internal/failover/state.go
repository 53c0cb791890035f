package failover

import (
	"slices"
	"time"
)

// Now is a moment.
type Now struct {
	Boot time.Duration // since the machine was started; never set
	Wall time.Time     // for windows
}

// Window is a time of maintenance that comes back.
type Window interface {
	// Span returns the beginning and the end of the one t lies in, or else of the
	// next one after t.
	Span(t time.Time) (start, end time.Time)
}

// Planned is a window of an uplink.
type Planned struct {
	Window Window
	// Hold: the uplink is not left for what happens inside, which is short.
	Hold bool
}

// Uplink is one way out, as it is configured.
type Uplink struct {
	Name    string
	Metered bool
	Windows []Planned
}

// Config is what a decision goes by. Uplinks are in the order in which they are
// preferred.
type Config struct {
	Uplinks []Uplink
	Rules   Rules
}

// State is all that is remembered. It is a value: what is added to one leaves it
// as it is. Times are since boot.
type State struct {
	Started time.Duration `json:"started"`
	Active  int           `json:"active"`          // index of an uplink; -1: none was chosen yet
	Since   time.Duration `json:"since"`           // of Active
	Chosen  bool          `json:"chosen,omitzero"` // Active was, by a person
	Doubt   time.Duration `json:"doubt,omitzero"`  // since when another may be needed soon; 0: it is not
	AllDown bool          `json:"all_down"`

	Level   int           `json:"level"` // of damping: failovers not long ago
	LevelAt time.Duration `json:"level_at"`

	Held time.Time `json:"held,omitzero"` // until when it was told that the active one stays for its maintenance

	Forced Forced   `json:"forced,omitzero"`
	Health []Health `json:"health"` // by uplink
}

// Forced is an uplink that a person chose for a time.
type Forced struct {
	Uplink int           `json:"uplink"`
	Until  time.Duration `json:"until"` // 0: nobody chose one
	Why    string        `json:"why,omitempty"`
}

// New is the state of a machine of which nothing is known.
func (c Config) New(now Now) State {
	s := State{Started: now.Boot, Active: -1, Health: make([]Health, len(c.Uplinks))}
	for i := range s.Health {
		s.Health[i] = Health{Verdict: Unknown, Since: now.Boot}
	}
	return s
}

// Carries has a state follow the machine, on which an uplink carries already: one that
// switched may not have been able to save it. -1: none does.
func (c Config) Carries(s State, uplink int, now Now) State {
	if uplink >= 0 && uplink != s.Active {
		s.Active, s.Since, s.Chosen = uplink, now.Boot, false
	}
	return s
}

// Saw adds a round of an uplink.
func (c Config) Saw(s State, uplink int, r Round) State {
	return s.with(uplink, s.Health[uplink].saw(c.Rules, r))
}

// Link adds what the kernel says of an uplink: gone is the reason for there being
// no link, such as no carrier or no address, "" when there is one.
func (c Config) Link(s State, uplink int, gone string, now Now) State {
	h := s.Health[uplink]
	switch {
	case gone == h.Gone:
		return s
	case gone == "":
		h.GoneSince = 0
	case h.Gone == "":
		h.GoneSince, h.Good = now.Boot, 0
	}
	h.Gone = gone
	return s.with(uplink, h)
}

// Force has an uplink be active until then, as long as it answers. Without until
// nobody's choice counts any more. What was asked before does not count for it.
func (c Config) Force(s State, f Forced) State {
	s.Forced, s.Doubt = f, 0
	return s
}

func (s State) with(uplink int, h Health) State {
	s.Health = slices.Clone(s.Health)
	s.Health[uplink] = h
	return s
}
