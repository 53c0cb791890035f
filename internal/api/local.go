package api

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// localLimits are what the system says when it has nothing left to connect with.
var localLimits = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE}

// localFault finds the fault of this machine that kept it from connecting: nil,
// [ErrLocalLimit] or [ErrNoNetwork]. A host that cannot be reached is not among
// them: the fault may be the API's.
func localFault(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case slices.ContainsFunc(localLimits, func(e syscall.Errno) bool { return strings.Contains(dns.Err, e.Error()) }):
			return ErrLocalLimit // package net keeps its words only
		case dns.IsNotFound:
			return nil // somebody answered
		}
		return ErrNoNetwork
	}
	call, _ := errors.AsType[*os.SyscallError](err)
	switch {
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ENETDOWN):
		return ErrNoNetwork
	case errors.Is(err, syscall.ENODEV), call != nil && call.Syscall == "bind" && errors.Is(err, syscall.EADDRNOTAVAIL):
		return ErrNoNetwork // the path's interface or source address is not there, as with a modem that is off
	case slices.ContainsFunc(localLimits, func(e syscall.Errno) bool { return errors.Is(err, e) }):
		return ErrLocalLimit
	}
	return nil
}
