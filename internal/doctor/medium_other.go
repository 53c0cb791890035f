//go:build !linux

package doctor

import (
	"fmt"
	"io/fs"
	"os"
)

// medium says nothing where the system is not known.
func medium(string) []Finding { return nil }

func writable(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o200 == 0 {
		err = fmt.Errorf("write to %s: %w", dir, fs.ErrPermission)
	}
	return err
}

// usable tells what this user may do only by trying.
func usable(path string, write, dir bool) error {
	flag := os.O_RDONLY
	if write && !dir {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// alive cannot be told everywhere: the lock is asked.
func alive(int) bool { return true }
