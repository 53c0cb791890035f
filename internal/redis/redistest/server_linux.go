package redistest

import "syscall"

// mortal has a process end with the test, should that be killed.
func mortal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
