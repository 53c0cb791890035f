package main

import (
	"net"
	"os"
	"time"
)

// notifyPatience is how long a service manager that does not listen is waited for: it
// reads itself anew at times.
const notifyPatience = 5 * time.Second

// notify tells the service manager how the program stands (sd_notify), if there
// is one that wants to know: READY=1, STATUS=…, STOPPING=1. A manager that cannot
// be told is none of our business.
func notify(state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(notifyPatience))
	_, _ = c.Write([]byte(state))
	_ = c.Close()
}
