//go:build !linux

package main

// aloneHolder is nobody: failover runs on Linux only.
func aloneHolder() (pid int, trusted bool, err error) { return 0, false, nil }
