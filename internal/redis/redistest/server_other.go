//go:build !linux

package redistest

import "syscall"

// mortal is for Linux only: elsewhere a process may outlive a test that is killed.
func mortal() *syscall.SysProcAttr { return nil }
