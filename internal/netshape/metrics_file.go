package netshape

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
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

// SaveMetrics puts metrics in the place of the file at path, for a collector of
// another user that reads whole files (node_exporter's textfile: path ends in .prom).
// Several processes may save to one path. It is not synced: after a power cut the
// next round writes it again, and flash that is synced every few seconds wears out.
func SaveMetrics(path string, metrics []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("save metrics: %w", err)
		}
	}()
	// Its name does not end in .prom: the collector leaves it alone.
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp*")
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", path, p.Err) // the same each time
	} else if err != nil {
		return err
	}
	removeStale(path)
	_, err = f.Write(metrics)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error says more
	}
	return err
}

// stale is the age from which a temporary file has nobody any more who writes it.
const stale = time.Minute

// removeStale removes what those who were killed in SaveMetrics left beside path. What
// cannot be removed stays: it is in nobody's way.
func removeStale(path string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		random, ours := strings.CutPrefix(e.Name(), filepath.Base(path)+".tmp")
		if !ours || strings.Trim(random, "0123456789") != "" {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > stale {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}
