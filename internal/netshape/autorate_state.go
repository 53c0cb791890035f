package netshape

import (
	"context"
	"errors"
	"time"

	"trafficup/internal/tc"
)

// steered is the state file of a rate that is fitted to the link: as long as
// somebody does so, any rate from Min to what was applied is as desired.
type steered struct {
	Boot string    `json:"boot"`
	Link int       `json:"link"`
	Min  uint64    `json:"min"`          // bit/s
	Seen time.Time `json:"seen"`         // when the one who does so was last known to live
	Low  time.Time `json:"low,omitzero"` // since when the rate is below what was applied; zero: it is not
}

// steeredFor is how long a sign of life counts. After that a low rate is drift,
// that a watch mends.
const steeredFor = 30 * time.Second

func steeredFile(name string) string { return "steered:" + name + ".json" }

// steer gives the root of an interface another rate in place, and says in the
// state directory that this is on purpose. lowest 0 ends that: what was applied
// comes back. Where the root is not as it was applied, or an apply waits for its
// confirmation, nothing is changed.
func (m *Machine) steer(ctx context.Context, name string, lowest, rate uint64) (changed bool, err error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	p, ok, err := m.find(name)
	if err != nil {
		return false, err
	}
	pending, err := m.pending()
	if err != nil {
		return false, err
	}
	ours := ok && p.record != nil && p.record.Link == p.Link.Index && p.Root.equal(stand{Shaper: p.record.Interface.Root})
	switch {
	case lowest == 0 && !ours:
		return false, m.save(steeredFile(name), nil)
	case !ours || lowest > 0 && pending != nil:
		return false, nil
	case lowest == 0:
		rate = p.record.Interface.Up
	default:
		lowest, rate = min(lowest, p.record.Interface.Up), min(rate, p.record.Interface.Up) // never above what was applied
		low := rate < rateOf(p.record.Interface.Root)
		if err := m.sign(steered{Boot: m.Boot, Link: p.Link.Index, Min: lowest, Seen: time.Now()}, name, low); err != nil {
			return false, err
		}
	}
	if changed = rateOf(p.root.Shaper) != rate; changed {
		err = m.Kernel.SetRoot(p.Link.Index, withRate(p.record.Interface.Root, rate))
	}
	if lowest == 0 && err == nil {
		err = m.save(steeredFile(name), nil)
	}
	return changed && err == nil, err
}

// sign gives a sign of life, unless the last one will do for a while.
func (m *Machine) sign(s steered, name string, low bool) error {
	var last steered
	ok, err := m.load(steeredFile(name), &last)
	if err != nil {
		return err
	}
	same := ok && s.Boot == last.Boot && s.Link == last.Link
	switch {
	case low && same && !last.Low.IsZero():
		s.Low = last.Low
	case low:
		s.Low = s.Seen
	}
	if same && s.Seen.Sub(last.Seen).Abs() < steeredFor/3 && s.Min == last.Min && s.Low.Equal(last.Low) {
		return nil
	}
	return m.save(steeredFile(name), s)
}

// disregard takes a root whose rate is lower on purpose for what was applied.
func (m *Machine) disregard(p *present) error {
	s, err := m.steering(*p)
	if s != nil {
		p.Root.Shaper = p.record.Interface.Root
	}
	return err
}

// steering is the state file of p's rate, if that is fitted to the link: then what
// stands is as desired. nil: it is not.
func (m *Machine) steering(p present) (*steered, error) {
	var s steered
	r := p.record
	if r == nil || r.Link != p.Link.Index || !p.Root.ours() {
		return nil, nil
	}
	ok, err := m.load(steeredFile(p.Link.Name), &s)
	if !ok || err != nil || s.Boot != m.Boot || s.Link != p.Link.Index || time.Since(s.Seen).Abs() > steeredFor {
		return nil, err
	}
	want, rate := r.Interface.Root, rateOf(p.root.Shaper)
	if rate >= s.Min && rate <= rateOf(want) && withRate(want, rate) == p.root.Shaper {
		return &s, nil
	}
	return nil, nil
}

// autorate is what is to be said of a rate that is fitted to the link; nil: it is not.
func (m *Machine) autorate(p present) (*AutorateStatus, error) {
	s, err := m.steering(p)
	if s == nil {
		return nil, err
	}
	return &AutorateStatus{Min: s.Min, Applied: rateOf(p.record.Interface.Root), Lowered: s.Low}, nil
}

// rateOf is a shaper's rate in bit/s; 0: it has none.
func rateOf(s tc.Shaper) uint64 {
	switch s.Kind {
	case tc.KindCake:
		return s.Cake.Rate
	case tc.KindHTB:
		return s.HTB.Rate
	}
	return 0
}

func withRate(s tc.Shaper, rate uint64) tc.Shaper {
	switch s.Kind {
	case tc.KindCake:
		s.Cake.Rate = rate
	case tc.KindHTB:
		s.HTB.Rate = rate
	}
	return s.Normal()
}
