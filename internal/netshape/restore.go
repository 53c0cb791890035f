package netshape

import (
	"errors"
	"fmt"
)

// ErrNotRestored is wrapped by the error about what stood before and does not stand
// again. It is no reason to try once more.
var ErrNotRestored = errors.New("the kernel's default stands there now")

// restore is put for what stood before. Where that cannot stand again the kernel's
// default does ([ErrNotRestored]): nothing may keep a rate that was to be taken back.
func (m *Machine) restore(c change) error {
	err := m.put(c)
	what := c.To.String()
	if c.Slot == slotMarks {
		what = describeMarks(c.MarksTo)
	}
	switch {
	case err == nil && !c.To.whole():
		return fmt.Errorf("%s had more to it than can be put back: %w", what, ErrNotRestored)
	case err == nil:
		return nil
	}
	for _, plain := range c.plainer() {
		if m.put(plain) == nil {
			return fmt.Errorf("%s could not be put back (%w): %w", what, err, ErrNotRestored)
		}
	}
	return err
}

// plainer are the changes that leave the kernel's default in the place of c.To, the
// kindest first: others may lead their traffic to an ifb.
func (c change) plainer() (list []change) {
	if c.Slot == slotIngress && c.To.foreign() {
		ifb := c
		ifb.To = stand{Foreign: foreign{Kind: kindIFB, Classes: true}}
		list = append(list, ifb)
	}
	if !c.To.ours() && !c.To.foreign() && c.MarksTo == nil {
		return list
	}
	c.To, c.MarksTo = stand{}, nil
	return append(list, c)
}
