//go:build unix

package doctor

import "golang.org/x/sys/unix"

// Files judges how many files may be open at once, for so many workers.
func Files(workers int) []Finding {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return []Finding{warning("open files", "ulimit -n", "the limit cannot be asked: %v", err)}
	}
	return []Finding{files(uint64(l.Cur), workers)}
}
