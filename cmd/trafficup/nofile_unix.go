//go:build unix

package main

import (
	"math"
	"syscall"
)

// openFileLimit returns how many files this process may have open at once, by the
// soft limit. Go has raised that to the hard one before main.
func openFileLimit() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return math.MaxUint64 // unknown: nothing to warn of
	}
	return uint64(l.Cur)
}
