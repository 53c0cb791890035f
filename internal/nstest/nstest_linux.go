// Package nstest has tests work in network namespaces.
package nstest

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Shell runs commands in a namespace, "" is this one, and returns what they print.
func Shell(t *testing.T, ns, script string) string {
	t.Helper()
	args := []string{"sh", "-ec", script}
	if ns != "" {
		args = append([]string{"ip", "netns", "exec", ns}, args...)
	}
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// Inside runs do in a namespace, on a thread that dies with it.
func Inside[T any](t *testing.T, ns string, do func() (T, error)) T {
	t.Helper()
	v, err := TryInside(ns, do)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TryInside is Inside for what may fail.
func TryInside[T any](ns string, do func() (T, error)) (v T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		var fd *os.File
		if fd, err = os.Open("/run/netns/" + ns); err != nil {
			return
		}
		defer func() { _ = fd.Close() }()
		if err = unix.Setns(int(fd.Fd()), unix.CLONE_NEWNET); err == nil {
			v, err = do()
		}
	}()
	<-done
	return v, err
}
