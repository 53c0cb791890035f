package config

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"trafficup/internal/disk"
)

// maxFile bounds a configuration file, in bytes: what is larger is something else.
const maxFile = 1 << 20

// readSmall reads a regular file of at most maxFile bytes. A pipe is not waited
// for.
func readSmall(path string) ([]byte, error) {
	f, err := disk.OS{}.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("it is a directory")
	case !info.Mode().IsRegular():
		return nil, disk.ErrNotRegular
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return data, err
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
