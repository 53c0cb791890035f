package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
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

// TestWithin looks at a state directory that was used by another user, as one who
// is not root.
func TestWithin(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of others")
	}
	const nobody = 65534
	dir := t.TempDir()
	for _, open := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put := func(name string, mode os.FileMode, owner int) {
		name = filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err == nil {
			err = os.WriteFile(name, nil, 0o600)
		}
		if err == nil {
			err = errors.Join(os.Chmod(name, mode), os.Chown(name, owner, -1), os.Chown(filepath.Dir(name), nobody, -1))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	look := func() (all []Finding) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // and never unlocked: the thread ends with its rights
			if _, _, no := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); no != 0 {
				t.Error(no)
				return
			}
			all = within(dir)
		}()
		<-done
		return all
	}
	put("ledger/1.wal", 0o600, nobody)
	put("runs/report.json", 0o600, nobody)
	put("deadletters/a.ndjson", 0o400, nobody) // is only read
	put("lock", 0o600, 0)                      // judged by itself
	put("sandbox/ledger/1.wal", 0o600, 0)
	put("token.json", 0o600, nobody)
	expect(t, look())
	put("ledger/2.wal", 0o644, 0)
	expect(t, look(), "failed state directory: 1 of 8 files and directories in it cannot be used; the first: use "+dir+"/ledger/2.wal: permission denied")
	put("token.json", 0o600, 0)
	if err := os.Chown(filepath.Join(dir, "ledger"), 0, -1); err != nil {
		t.Fatal(err)
	}
	expect(t, look(), "failed state directory: 2 of 6 files and directories in it cannot be used; the first: use "+dir+"/ledger: permission denied")
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
