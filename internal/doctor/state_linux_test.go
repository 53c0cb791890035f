package doctor

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMedium(t *testing.T) {
	for magic, want := range map[int64]string{
		unix.EXT4_SUPER_MAGIC:      "ok state medium: ",
		unix.TMPFS_MAGIC:           "warning state medium: tmpfs: what a run keeps does not survive a reboot",
		unix.RAMFS_MAGIC:           "warning state medium: ramfs",
		int64(int32(-0x7a7ba70a)):  "warning state medium: ramfs", // with the sign extended
		unix.OVERLAYFS_SUPER_MAGIC: "warning state medium: does not survive the container",
		unix.NFS_SUPER_MAGIC:       "warning state medium: nfs",
		unix.CIFS_SUPER_MAGIC:      "warning state medium: cifs",
		unix.FUSE_SUPER_MAGIC:      "warning state medium: fuse",
	} {
		expect(t, []Finding{kind(magic)}, want)
	}
	all := medium(t.TempDir())
	if len(all) != 2 || all[0].What != "state space" || all[1].What != "state medium" {
		t.Errorf("%v", all)
	}
	expect(t, medium("/nowhere"), "warning state medium: cannot be asked")
	if m := medium("/dev/shm"); len(m) == 2 && m[1].Result != Warning {
		t.Errorf("%s", short(m[1]))
	}
}

// A pipe is not opened: that would wait for its writer, or take from it.
func TestInputPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		lacks(t, "named pipes: "+err.Error())
	}
	expect(t, Input(pipe, 3*time.Second, time.Now()), "ok input: a pipe, read when a run starts")
	expect(t, onDisk(State(pipe)), "failed state directory: is no directory")
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "lock"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := holder(filepath.Join(dir, "lock")); f.Result != Failed {
		t.Errorf("%s", short(f))
	}
}
