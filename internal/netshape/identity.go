package netshape

import (
	"errors"
	"fmt"
	"slices"
)

// observeNamed reads the interface of that name, or the one that had it when it was
// set up and was renamed since: queues stay with a device, whatever its name.
func (m *Machine) observeNamed(name string, links []Link) (p present, ok bool, err error) {
	r, unread := m.recorded(name)
	if unread != nil && !errors.Is(unread, ErrUnreadable) {
		return p, false, unread
	}
	l, ok := linkOf(links, name)
	was, living := Link{}, false
	if r != nil {
		was, living = linkAt(links, r.Link)
	}
	switch {
	case !ok && living:
		p, err = m.observe(was, name, links)
		return p, true, err
	case !ok:
		return p, false, unread
	case r != nil && r.Link == l.Index:
		p, err = m.observe(l, name, links)
		return p, true, err
	}
	as, err := m.formerName(l)
	if err != nil && !errors.Is(err, ErrUnreadable) {
		return p, true, err
	}
	p, err = m.observe(l, as, links)
	return p, true, err
}

// formerName is the name that l had when it was set up; its own when it was not.
func (m *Machine) formerName(l Link) (string, error) {
	names, err := m.Shaped()
	if err != nil {
		return l.Name, err
	}
	for _, name := range names {
		r, err := m.recorded(name)
		if err != nil {
			return l.Name, err
		}
		if r != nil && r.Link == l.Index {
			return name, nil
		}
	}
	return l.Name, nil
}

// findChanged reads the interface that c changed, whatever its name is now, or the
// one that came back under its name.
func (m *Machine) findChanged(c change) (p present, ok bool, err error) {
	links, err := m.Kernel.Links()
	if err != nil {
		return p, false, fmt.Errorf("list interfaces: %w", err)
	}
	l, ok := linkAt(links, c.Link)
	if !ok {
		l, ok = linkOf(links, c.Interface)
	}
	if !ok {
		return p, false, nil
	}
	p, err = m.observe(l, c.Interface, links)
	return p, true, err
}

func linkAt(links []Link, index int) (l Link, ok bool) {
	i := slices.IndexFunc(links, func(l Link) bool { return l.Index == index })
	if i < 0 {
		return l, false
	}
	return links[i], true
}
