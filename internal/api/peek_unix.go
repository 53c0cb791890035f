//go:build unix

package api

import "syscall"

// peekSilent reports that the socket is open and has nothing to read.
func peekSilent(fd uintptr) bool {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err == syscall.EINTR {
			continue
		}
		return err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
	}
}
