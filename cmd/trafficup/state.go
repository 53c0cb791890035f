package main

import (
	"path/filepath"

	"trafficup/internal/disk"
)

// state is a state directory, held by this run alone until it is closed.
type state struct {
	fs  disk.FS
	dir string
}

// letters is where the dead letters are.
func (s *state) letters() string { return filepath.Join(s.dir, "deadletters") }
