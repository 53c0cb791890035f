//go:build linux

package linklab

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBootIsKilled holds that a guest that does not end leaves no process.
func TestBootIsKilled(t *testing.T) {
	wanted(t)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	err := Boot(ctx, io.Discard, dir, "/bin/sleep", "1000")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the deadline has passed", err)
	}
	if left := processesWith(t, dir); len(left) > 0 {
		t.Errorf("processes left: %q", left)
	}
}

// TestBootEndsWithTheGuest holds that a kernel that halts and yet does not end costs
// neither the result nor the time of the test. A script stands in for it.
func TestBootEndsWithTheGuest(t *testing.T) {
	wanted(t)
	dir := t.TempDir()
	script := "#!/bin/sh\nprintf 'reboot: Sys'; sleep 0.1; echo 'tem halted'; sleep 1000; : " + dir
	if err := os.WriteFile(filepath.Join(dir, kernel), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if err := Boot(t.Context(), io.Discard, dir, "/bin/true"); err != nil {
		t.Error(err)
	}
	if left := processesWith(t, dir); len(left) > 0 {
		t.Errorf("processes left: %q", left)
	}
}

// processesWith returns the command lines that hold text.
func processesWith(t *testing.T, text string) (found []string) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if line, _ := os.ReadFile(f); strings.Contains(string(line), text) {
			found = append(found, string(line))
		}
	}
	return found
}
