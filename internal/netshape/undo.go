package netshape

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"trafficup/internal/disk"
)

// transaction is what it takes to undo an apply: it is on the disk before the
// first change when another process may have to do it.
type transaction struct {
	ID      string                     `json:"id"`
	Boot    string                     `json:"boot"`
	Until   time.Time                  `json:"until"`     // for people: the clock may be set
	Uptime  time.Duration              `json:"uptime_ns"` // the same as time since boot; 0: not known
	Changes []change                   `json:"changes"`   // in the order of the steps
	Files   map[string]json.RawMessage `json:"files"`     // as they were before; null: there was none
	Desired Desired                    `json:"desired"`
	Clear   []string                   `json:"clear"` // nil: it was no clear
}

// files are the state files that p writes; a nil value removes one.
func (p Plan) files() map[string]any {
	files := map[string]any{}
	for name, r := range p.records {
		files[interfaceFile(name)] = nil
		if r != nil {
			r.Since = time.Now().UTC()
			files[interfaceFile(name)] = r
		}
	}
	if p.marksKnown {
		files[marksFile] = nil
		if p.marks != nil {
			p.marks.Since = time.Now().UTC()
			files[marksFile] = p.marks
		}
	}
	return files
}

// write writes the state files of p, or removes those that p has no use for.
func (m *Machine) write(p Plan, remove bool) error {
	files := p.files()
	names := slices.Sorted(maps.Keys(files))
	// Those of interfaces go last: by them clear knows that there is something to do.
	if i := slices.Index(names, marksFile); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, marksFile)
	}
	for _, name := range names {
		if remove != (files[name] == nil) {
			continue
		}
		if err := m.save(name, files[name]); err != nil {
			return fmt.Errorf("write state: %w", err)
		}
	}
	return nil
}

// begin remembers what p will change.
func (m *Machine) begin(p Plan) (transaction, error) {
	t := transaction{Boot: m.Boot, Files: map[string]json.RawMessage{}, Desired: p.desired, Clear: p.clear}
	for _, s := range p.Steps {
		t.Changes = append(t.Changes, s.change)
	}
	for name := range p.files() {
		data, err := disk.ReadFile(m.FS, filepath.Join(m.Dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
		if t.Files[name] = data; err != nil {
			t.Files[name] = json.RawMessage("null")
		}
	}
	return t, nil
}

// undo brings back what stood before t, in reverse, and then its state files. It
// goes on after errors, all of which it returns; the state files stay then, so
// that it can be tried again. [ErrNotRestored] is no such error: it is at its end
// then. It may be called for a transaction that was done to any part, or undone before.
func (m *Machine) undo(t transaction) error {
	var all, lost error
	for _, c := range slices.Backward(t.Changes) {
		err := m.takeBack(c)
		if err != nil {
			err = fmt.Errorf("undo %s %s: %w", c.Interface, c.Slot, err)
		}
		if errors.Is(err, ErrNotRestored) {
			lost = errors.Join(lost, err)
		} else {
			all = errors.Join(all, err)
		}
	}
	if all != nil {
		return all
	}
	for _, name := range slices.Sorted(maps.Keys(t.Files)) {
		var v any
		if raw := t.Files[name]; string(raw) != "null" {
			v = raw
		}
		if err := m.save(name, v); err != nil {
			return err
		}
	}
	return lost
}

// takeBack makes c.From stand again if it does not. What neither stood before nor
// is ours came from somebody else meanwhile, and stays.
func (m *Machine) takeBack(c change) error {
	back := change{Interface: c.Interface, Slot: c.Slot, From: c.To, To: c.From, MarksFrom: c.MarksTo, MarksTo: c.MarksFrom}
	if c.Slot == slotMarks {
		return m.takeBackMarks(back)
	}
	have, there, err := m.findChanged(c)
	if err != nil || !there { // gone, with everything that stood on it
		return m.gone(c.Link, err)
	}
	if back.To.damaged() {
		back.To = stand{Shaper: c.Instead}
	}
	stands := have.Root
	if c.Slot == slotIngress {
		stands = have.Ingress
	}
	if stands.equal(back.To) || stands.foreign() && !stands.equal(back.From) {
		return nil
	}
	back.Link = have.Link.Index
	return m.gone(back.Link, m.restore(back))
}

// gone forgives an error that came of the interface's going away.
func (m *Machine) gone(link int, err error) error {
	if err == nil {
		return nil
	}
	if links, e := m.Kernel.Links(); e == nil {
		if _, there := linkAt(links, link); !there {
			return nil
		}
	}
	return err
}

func (m *Machine) takeBackMarks(back change) error {
	have, err := m.Marks.Read()
	if err != nil {
		return err
	}
	if have.Owned || back.MarksTo == nil && !have.Present { // not ours, or gone
		return nil
	}
	if back.MarksTo != nil {
		if want, err := m.Marks.Fingerprint(*back.MarksTo); err == nil && have.Fingerprint == want {
			return nil
		}
	}
	return m.restore(back)
}
