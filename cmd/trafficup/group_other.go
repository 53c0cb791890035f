//go:build !unix

package main

import "os/exec"

// grouped does nothing where there are no process groups.
func grouped(*exec.Cmd) {}
