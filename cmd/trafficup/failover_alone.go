package main

import (
	"errors"
	"fmt"
	"net"
)

// aloneName is a socket that a loop holds, besides its directory: those of other
// directories would fight with it over the routes. It is one of the network namespace,
// as routes are, and goes with the process.
const aloneName = "@trafficup-failover"

// holdRoutes keeps other loops from this machine's routes. Who may not set routes holds
// nobody up by having the name.
func holdRoutes(sys *system, unlock func() error) (both func() error, err error) {
	l, err := net.Listen("unix", aloneName)
	if err == nil {
		go answerNobody(l)
		return func() error { return errors.Join(l.Close(), unlock()) }, nil
	}
	pid, trusted, asked := aloneHolder()
	if asked != nil || !trusted {
		sys.warn(fmt.Sprintf("a second failover would not be noticed: %s: %v (held by process %d)", aloneName, err, pid))
		return unlock, nil
	}
	_ = unlock()
	return nil, &failure{exitLocked, "stop that one: one failover sets the routes of a machine", fmt.Errorf("another failover runs here, with a state directory of its own: process %d", pid)}
}

// answerNobody takes those who ask who holds it, so that their number has no limit.
func answerNobody(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
	}
}
