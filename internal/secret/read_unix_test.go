//go:build unix

package secret

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"trafficup/internal/disk"
)

func TestReadFileDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if _, _, err := ReadFile(path); !errors.Is(err, disk.ErrNotRegular) {
		t.Errorf("pipe: %v", err)
	}
}
