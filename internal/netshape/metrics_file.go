package netshape

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// Shaped returns the names of the interfaces that were set up in this boot and not
// cleared, in order, also of those that are gone.
func (m *Machine) Shaped() (names []string, err error) {
	entries, err := m.FS.ReadDir(m.Dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil // as load does
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || CheckName(name) != nil {
			continue
		}
		switch r, err := m.recorded(name); {
		case err != nil:
			return nil, err
		case r != nil:
			names = append(names, name)
		}
	}
	return names, err
}

// Metrics returns what [WriteMetrics] makes of the status of names and of all that
// was set up in this boot. So all who watch an interface of this machine write the
// same, and none takes away what another says.
func (m *Machine) Metrics(names ...string) ([]byte, error) {
	shaped, err := m.Shaped()
	if err != nil {
		return nil, err
	}
	s, err := m.Status(slices.Compact(slices.Sorted(slices.Values(slices.Concat(names, shaped))))...)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = WriteMetrics(&b, s)
	return b.Bytes(), err
}
