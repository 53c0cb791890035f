package doctor

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fleeting are file systems whose files are gone with the machine's power, or
// with the container; remote those that another machine keeps, or a program.
var (
	fleeting = map[int64]string{unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay"}
	remote   = map[int64]string{
		unix.NFS_SUPER_MAGIC: "nfs", unix.CIFS_SUPER_MAGIC: "cifs", unix.SMB_SUPER_MAGIC: "smb", unix.SMB2_SUPER_MAGIC: "smb",
		unix.FUSE_SUPER_MAGIC: "fuse", unix.V9FS_MAGIC: "9p",
	}
)

// medium judges the file system that a directory lies on.
func medium(dir string) []Finding {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	for errors.Is(err, syscall.EINTR) {
		err = unix.Statfs(dir, &s)
	}
	if err != nil {
		return []Finding{warning("state medium", "df -h "+dir, "the file system cannot be asked: %v", err)}
	}
	return []Finding{space(dir, s.Bavail*uint64(s.Bsize), s.Ffree, s.Files > 0), kind(int64(s.Type))}
}

// kind judges a file system by its magic number.
func kind(magic int64) Finding {
	const what, do = "state medium", "give a --state-dir on a disk of this machine, or mount one there"
	magic &= 0xffffffff // some machines extend the sign
	if name := fleeting[magic]; name == "overlay" {
		return warning(what, "mount a volume there", "overlay: what a run keeps does not survive the container")
	} else if name != "" {
		return warning(what, do, "%s: what a run keeps does not survive a reboot", name)
	}
	if name := remote[magic]; name != "" {
		return warning(what, do, "%s: not on this machine's disk; locks and syncs may mean less there", name)
	}
	return ok(what, "a file system on a disk")
}

// writable tells whether this process may make files in a directory.
func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return &fs.PathError{Op: "write to", Path: dir, Err: err}
	}
	return nil
}

// usable tells whether this user may read a file, and write it; a directory has to
// be searched, too.
func usable(path string, write, dir bool) error {
	mode := uint32(unix.R_OK)
	if write {
		mode |= unix.W_OK
	}
	if dir {
		mode |= unix.X_OK
	}
	if err := unix.Access(path, mode); err != nil {
		return &fs.PathError{Op: "use", Path: path, Err: err}
	}
	return nil
}

func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
