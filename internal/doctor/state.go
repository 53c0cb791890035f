package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"trafficup/internal/atomicfile"
	"trafficup/internal/disk"
)

const (
	stateWhat = "state directory"
	lockWhat  = "state lock"
)

// State judges a state directory, and with it the file system it lies on. What
// it makes there is one file, which it removes.
func State(dir string) []Finding {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unmade(dir)
	case err != nil:
		return []Finding{failed(stateWhat, "give another --state-dir", "%v", err)}
	case !info.IsDir():
		return []Finding{failed(stateWhat, "give another --state-dir", "%s is no directory", dir)}
	}
	all := []Finding{ok(stateWhat, "%s, for its owner alone", dir)}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		all[0] = warning(stateWhat, fmt.Sprintf("chmod -R go-rwx %q", dir), "%s has mode %04o: others can get at records and tokens", dir, mode)
	}
	all = append(append(all, within(dir)...), try(dir)...)
	return append(all, medium(dir)...)
}

// unmade judges a state directory that the first run is to make.
func unmade(dir string) []Finding {
	above, err := filepath.Abs(dir)
	for err == nil && above != filepath.Dir(above) {
		above = filepath.Dir(above)
		if _, serr := os.Stat(above); !errors.Is(serr, fs.ErrNotExist) {
			err = serr
			break
		}
	}
	if err == nil {
		err = writable(above)
	}
	if err != nil {
		do := fmt.Sprintf("mkdir -p -m 700 %q, as somebody who may, and give it to the user of the runs", dir)
		return []Finding{failed(stateWhat, do, "%s is not there, and cannot be made: %v", dir, err)}
	}
	return append([]Finding{ok(stateWhat, "%s is not there yet; the first run makes it", dir)}, medium(above)...)
}

// try makes a file, locks it, writes it to the disk and removes it.
func try(dir string) (all []Finding) {
	// The name is that of a file which state check knows to be of no use, should
	// the machine stop right here.
	f, err := os.CreateTemp(dir, "doctor-*.tmp")
	if err != nil {
		return []Finding{failed(stateWhat, unwritableDo(dir, err), "cannot be written: %v", err)}
	}
	all = append(all, tryLock(f.Name()), holder(filepath.Join(dir, "lock")))
	_, err = f.Write(make([]byte, 4096))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return append([]Finding{failed(stateWhat, unwritableDo(dir, err), "a file cannot be written to the disk and removed: %v", err)}, all...)
	}
	return append([]Finding{ok("state writing", "a file was written, synced and removed")}, all...)
}

func unwritableDo(dir string, err error) string {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Sprintf("make room: df -h %[1]q; df -i %[1]q", dir)
	}
	return fmt.Sprintf("make it writable for this user, or give another --state-dir: ls -ld %q", dir)
}

// tryLock finds out whether locks of the kernel keep others away, which on some
// network file systems they do not.
func tryLock(path string) Finding {
	const do = "give a --state-dir on a local file system: without locks two runs may send at once"
	unlock, err := atomicfile.TryLock(path, "")
	if err != nil {
		return failed(lockWhat, do, "locks do not work: %v", err)
	}
	defer func() { _ = unlock() }() // the file goes, too
	second, err := atomicfile.TryLock(path, "")
	if err == nil {
		_ = second()
	}
	if !errors.Is(err, atomicfile.ErrLocked) {
		return failed(lockWhat, do, "locks do not keep others away")
	}
	return ok(lockWhat, "locks of the kernel work")
}

// holder names the run that holds the state directory. The lock is tried only
// where its text does not say that its holder has gone: for as long as that takes
// a run that starts would be turned away.
func holder(path string) Finding {
	text, err := disk.ReadFile(disk.OS{}, path) // a pipe is not waited for
	if errors.Is(err, fs.ErrNotExist) || err == nil && gone(string(text)) {
		return ok(lockWhat, "no run is under way")
	}
	if err != nil {
		return failed(lockWhat, fmt.Sprintf("give it to the user of the runs: ls -l %q", path), "%v", err)
	}
	unlock, err := atomicfile.TryLock(path, "")
	if taken, is := errors.AsType[*atomicfile.LockedError](err); is {
		return ok(lockWhat, "a run is under way: held by %s", taken.Holder)
	}
	if err != nil {
		return failed(lockWhat, fmt.Sprintf("give it to the user of the runs: ls -l %q", path), "%v", err)
	}
	_ = unlock()
	return ok(lockWhat, "no run is under way")
}

// gone tells that the text of a lock names a process of this machine that has
// ended.
func gone(text string) bool {
	var pid int
	var host string
	if n, err := fmt.Sscanf(text, "pid=%d host=%s ", &pid, &host); n != 2 || err != nil || pid <= 0 {
		return false
	}
	here, err := os.Hostname()
	return err == nil && host == here && !alive(pid)
}
