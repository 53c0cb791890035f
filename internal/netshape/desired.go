package netshape

import (
	"fmt"
	"strings"
	"time"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// What an interface can be given.
const (
	KindCake    = "cake"
	KindFqCodel = "fq_codel" // below an htb that has the rate
	None        = "none"     // no queue of ours; classes are marked all the same
)

// Interface is what one interface shall be like. Values are comparable.
type Interface struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // cake, fq_codel or none
	Profile string `json:"profile"`
	Up      uint64 `json:"up"`   // bit/s; 0: no rate
	Down    uint64 `json:"down"` // bit/s; 0: what comes in is left alone

	Root    tc.Shaper `json:"root"`    // for what goes out; the zero value when Kind is none
	Ingress tc.Shaper `json:"ingress"` // for what comes in; the zero value when Down is 0
}

// Desired is what a machine shall be like.
type Desired struct {
	Interfaces []Interface
	// Classes are marked on what leaves by Interfaces and by those that were
	// shaped before. None: no table of ours.
	Classes []dscpmark.Class
	Mask    uint32 // of the ct mark; 0: the default of dscpmark
}

// Names are those of the interfaces.
func (d Desired) Names() (names []string) {
	for _, i := range d.Interfaces {
		names = append(names, i.Name)
	}
	return names
}

// marksConfig is the table of marks for the interfaces of d alone.
func (d Desired) marksConfig() dscpmark.Config {
	return dscpmark.Config{Classes: d.Classes, Mask: d.Mask, Interfaces: d.Names()}
}

// Spec is an interface as people write it. Empty fields have the profile's value.
type Spec struct {
	Name, Kind string
	Up, Down   string // as ParseRate reads them

	Profile   string // leo, geo, lte or nothing
	Diffserv  string // besteffort, diffserv3, diffserv4, diffserv8, precedence
	AckFilter string // auto, on, off, aggressive
	RTT       time.Duration
	Overhead  *int // bytes added to each packet
	MPU       int
	NAT       *bool
	Wash      bool // clear the marks of what goes out, behind the queue
}

// Parse checks a Spec and completes it. Errors name the field, the reason and
// what would be right.
func Parse(s Spec) (Interface, error) {
	if err := CheckName(s.Name); err != nil {
		return Interface{}, err
	}
	i := Interface{Name: s.Name, Kind: s.Kind, Profile: s.Profile}
	if err := i.setRates(s); err != nil {
		return Interface{}, fmt.Errorf("%s: %w", s.Name, err)
	}
	o, err := options(s, i.Up, i.Down)
	if err != nil {
		return Interface{}, fmt.Errorf("%s: %w", s.Name, err)
	}
	if ack := s.AckFilter == "on" || s.AckFilter == "aggressive"; i.Kind != KindCake && (ack || s.Overhead != nil) {
		return Interface{}, fmt.Errorf("%s: overhead and ack-filter are for kind cake, others know neither: leave them out, and take a few percent off the rate instead", s.Name)
	}
	switch i.Kind {
	case KindCake:
		i.Root, i.Ingress = o.cake(i.Up), o.cakeIn(i.Down)
	case KindFqCodel:
		if i.Up == 0 {
			return Interface{}, fmt.Errorf("%s: fq_codel needs a rate above it, or it has no queue to manage: set up, for example to 9mbit, or take kind none", s.Name)
		}
		i.Root, i.Ingress = o.htb(i.Up, o.tins()), o.htb(i.Down, false)
	case None:
		if i.Up != 0 || i.Down != 0 {
			return Interface{}, fmt.Errorf("%s: kind none keeps no rate: leave out up and down, or take kind cake or fq_codel", s.Name)
		}
	default:
		return Interface{}, fmt.Errorf("%s: %q is no kind: want cake, fq_codel or none", s.Name, s.Kind)
	}
	if i.Down == 0 {
		i.Ingress = tc.Shaper{}
	}
	i.Root, i.Ingress = i.Root.Normal(), i.Ingress.Normal()
	return i, nil
}

func (i *Interface) setRates(s Spec) (err error) {
	if strings.TrimSpace(s.Up) == "0" {
		return fmt.Errorf("up: a rate of 0 lets nothing out: want %s to %s, or unlimited", FormatRate(minRate), FormatRate(maxRate))
	}
	if i.Up, err = optionalRate(s.Up); err != nil {
		return fmt.Errorf("up: %w", err)
	}
	if i.Down, err = optionalRate(s.Down); err != nil {
		return fmt.Errorf("down: %w", err)
	}
	return nil
}

// optionalRate is ParseRate for a field that may be left out or be "unlimited".
func optionalRate(s string) (uint64, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "0", "none", "unlimited":
		return 0, nil
	}
	return ParseRate(s)
}
