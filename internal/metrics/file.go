package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Save puts a page in the place of the file at path, for a collector of another
// user that reads whole files (node_exporter's textfile: path ends in .prom).
// Several processes may save to one path. It is not synced: after a power cut the
// next round writes it again, and flash that is synced every few seconds wears out.
func Save(path string, page []byte) (err error) {
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
	_, err = f.Write(page)
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

// removeStale removes what those who were killed in Save left beside path. What
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
