package main

import "github.com/coreos/go-systemd/v22/daemon"

// notify tells the service manager how the program stands (sd_notify), if there
// is one that wants to know: READY=1, STATUS=…, STOPPING=1. A manager that cannot
// be told is none of our business.
func notify(state string) { _, _ = daemon.SdNotify(false, state) }
