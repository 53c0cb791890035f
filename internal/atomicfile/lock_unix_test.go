//go:build unix

package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// child starts this test again in a process of its own, with path in its
// environment, and returns when it has said its first line.
func child(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "ATOMICFILE_LOCK="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = in.Close()
		_ = cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// holdLock is the child's part: to hold the lock until it is killed.
func holdLock(t *testing.T) (isChild bool) {
	path := os.Getenv("ATOMICFILE_LOCK")
	if path == "" {
		return false
	}
	if _, err := TryLock(path, "child"); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("locked\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return true
}

func TestLockIsFreedByDeath(t *testing.T) {
	if holdLock(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "lock")
	cmd := child(t, path)
	if who := taken(t, path).Holder; !strings.HasPrefix(who, fmt.Sprintf("pid %d on ", cmd.Process.Pid)) {
		t.Errorf("held by %q, want process %d", who, cmd.Process.Pid)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	unlock, err := TryLock(path, "")
	if err != nil {
		t.Fatalf("lock of a dead process: %v", err)
	}
	_ = unlock()
}

// A holder that does nothing is a holder: nobody guesses that it is dead.
func TestLockOfAStoppedProcess(t *testing.T) {
	if holdLock(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "lock")
	cmd := child(t, path)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("status %v, %v", status, err)
	}
	for range 100 {
		if who := taken(t, path).Holder; !strings.HasPrefix(who, fmt.Sprintf("pid %d on ", cmd.Process.Pid)) {
			t.Fatalf("held by %q", who)
		}
	}
}

// Processes race for a lock; whoever has it must be alone.
func TestLockIsHeldByOneOfMany(t *testing.T) {
	if path := os.Getenv("ATOMICFILE_LOCK"); path != "" {
		race(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "lock")
	var racers []*exec.Cmd
	for range 20 {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "ATOMICFILE_LOCK="+path)
		cmd.Stdout = new(strings.Builder)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		racers = append(racers, cmd)
	}
	for _, cmd := range racers {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, cmd.Stdout)
		}
	}
	turns, err := os.ReadFile(path + ".turns")
	if err != nil || len(turns) < len(racers) {
		t.Errorf("%d turns, %v", len(turns), err)
	}
	t.Logf("%d turns", len(turns))
}

// race takes the lock again and again, counts its turns, and marks each with a
// file that nobody else may have made.
func race(t *testing.T, path string) {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		unlock, err := TryLock(path, "race")
		if e, ok := errors.AsType[*LockedError](err); ok {
			if e.Holder != "another process" && !strings.HasPrefix(e.Holder, "pid ") {
				t.Fatal(e)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		mark, err := os.OpenFile(path+".mark", os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			t.Fatal("two hold the lock")
		}
		turns, terr := os.OpenFile(path+".turns", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err := errors.Join(err, terr); err != nil {
			t.Fatal(err)
		}
		_, err = turns.WriteString(".")
		if err := errors.Join(err, turns.Close(), mark.Close(), os.Remove(path+".mark"), unlock()); err != nil {
			t.Fatal(err)
		}
	}
}
