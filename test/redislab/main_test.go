//go:build linux

package redislab

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := workshop(); err == nil {
			_ = os.RemoveAll(dir) // it is below the system's directory for such
		}
		os.Exit(code)
	}))
}

var workshop = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "redislab") })

// program builds trafficup, once, and lets the lab run before everything else. It
// has to be called before servers are started, which are of the lab.
func program(t *testing.T) string {
	t.Helper()
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the processes are not built for the race detector")
	}
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var built = sync.OnceValues(func() (string, error) {
	dir, err := workshop()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "trafficup")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, "trafficup/cmd/trafficup")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", err
	}
	hurry()
	return path, nil
})

// hurry lets this process, and those that it starts from now on, run before
// everything else on the machine, where that is allowed. All together they use a
// small part of it, but a call that comes late because others are busy says
// nothing about the limiter.
func hurry() {
	for again := true; again; {
		again = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, thread := range threads { // new ones have what their parents have
			id, _ := strconv.Atoi(thread.Name())
			attr, err := unix.SchedGetAttr(id, 0)
			if err != nil || attr.Policy == unix.SCHED_RR {
				continue
			}
			if unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0) != nil {
				return
			}
			again = true
		}
	}
}
