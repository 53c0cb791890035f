package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"trafficup/internal/atomicfile"
)

// onDisk leaves out what depends on the file system of the tests.
func onDisk(all []Finding) (kept []Finding) {
	for _, f := range all {
		if f.What != "state medium" && f.What != "state space" {
			kept = append(kept, f)
		}
	}
	return kept
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const written, locks, nobody = "ok state writing: written, synced and removed", "ok state lock: work", "ok state lock: no run is under way"
	own := "ok state directory: " + dir
	expect(t, onDisk(State(dir)), own, written, locks, nobody)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	lock := filepath.Join(dir, "lock")
	unlock, err := atomicfile.TryLock(lock, "upload")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, onDisk(State(dir)), own, written, locks, fmt.Sprintf("ok state lock: a run is under way: held by pid %d on ", os.Getpid()))
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	expect(t, onDisk(State(dir)), own, written, locks, nobody) // this process lives, and the lock is free
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	expect(t, onDisk(State(dir)), "warning state directory: has mode 0755", written, locks, nobody)
	expect(t, onDisk(State(lock)), "failed state directory: is no directory")
	expect(t, onDisk(State(lock+"/x")), "failed state directory: not a directory")
}

func TestStateDirectoryToBeMade(t *testing.T) {
	dir := t.TempDir()
	expect(t, onDisk(State(filepath.Join(dir, "a", "b"))), "ok state directory: is not there yet; the first run makes it")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		expect(t, onDisk(State(filepath.Join(dir, "a"))), "failed state directory: is not there, and cannot be made: ")
		expect(t, onDisk(State(dir)), "ok state directory: ", "failed state directory: cannot be written")
	}
}

func TestLog(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.log")
	expect(t, []Finding{Log(file), Log(dir), Log(filepath.Join(dir, "none", "x.log")), Log(os.DevNull)},
		"ok log file: x.log can be written", "failed log file: is a directory", "failed log file: it cannot be made: ", "ok log file: ")
	if _, err := os.Stat(file); err == nil {
		t.Error("it was made")
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, []Finding{Log(file), Log(filepath.Join(file, "below"))}, "ok log file: x.log can be written", "failed log file: not a directory")
	if text, err := os.ReadFile(file); err != nil || string(text) != "x" {
		t.Errorf("changed: %q, %v", text, err)
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(file, 0o400); err != nil {
			t.Fatal(err)
		}
		expect(t, []Finding{Log(file)}, "failed log file: permission denied")
	}
}

// Only what names a process of this machine that has ended is known to be free.
func TestGone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("here the lock is asked")
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	const never = 1<<22 + 1 // above the largest process number there is
	for text, want := range map[string]bool{
		fmt.Sprintf("pid=%d host=%s command=upload since=x\n", never, host):       true,
		fmt.Sprintf("pid=%d host=%s command=upload since=x\n", os.Getpid(), host): false,
		fmt.Sprintf("pid=1 host=%s command=upload since=x\n", host):               false,
		fmt.Sprintf("pid=%d host=%s.other command=upload since=x\n", never, host): false,
		fmt.Sprintf("pid=-1 host=%s command=upload since=x\n", host):              false,
		"": false, "pid=": false, "x": false,
	} {
		if got := gone(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestInput(t *testing.T) {
	const settle = 3 * time.Second
	dir, now := t.TempDir(), time.Now().Add(time.Hour) // by when all has been left alone
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	one := write("a.ndjson", strings.Repeat("x", 1500))
	packed := write("b.json.gz", "\x1f\x8b\x08\x00")
	other := write("c.csv.zst", "\x28\xb5\x2f\xfd")
	expect(t, Input(one, settle, now), "ok input: a.ndjson: a file, 1.5 kB")
	expect(t, Input(packed, settle, now), "ok input: a file, gzip, 4 B")
	expect(t, Input(other, settle, now), "ok input: a file, zstd, 4 B")
	expect(t, Input(dir, settle, now), "ok input: 3 files, 1.5 kB")
	expect(t, Input("-", settle, now), "ok input: standard input")
	expect(t, Input(one, 2*time.Hour, now), "warning input: and may still be written")
	expect(t, Input(one, 0, now.Add(-2*time.Hour)), "ok input: ") // a clock that was set
	expect(t, Input(filepath.Join(dir, "none"), settle, now), "failed input: no such file")
	expect(t, Input(t.TempDir(), settle, now), "failed input: no log files")
	empty := write("d.ndjson", "")
	expect(t, Input(empty, settle, now), "failed input: d.ndjson is empty")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "e.csv")); err != nil {
		t.Fatal(err)
	}
	expect(t, Input(dir, settle, now), "ok input: 5 files", "failed input: is empty", "failed input: e.csv: no such file")
}
