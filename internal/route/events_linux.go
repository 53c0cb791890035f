package route

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

var groups = []uint{
	unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
}

// Events tells of changes, those that [Do] makes among them, until the context ends
// or the kernel tells no more, and then closes the channel. Changes that nobody has
// taken yet are one, so that a reader that takes its time misses none and is not
// flooded. The namespace is that of the calling thread. Listen before the first
// [Observe].
func Events(ctx context.Context) (<-chan struct{}, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, groups...)
	if err != nil {
		return nil, fmt.Errorf("listen to routes: %w", err)
	}
	out := make(chan struct{}, 1)
	stop := context.AfterFunc(ctx, s.Close)
	go func() {
		defer close(out)
		defer func() {
			if stop() {
				s.Close()
			}
		}()
		listen(s, out)
	}()
	return out, nil
}

func listen(s *nl.NetlinkSocket, out chan<- struct{}) {
	for {
		switch _, from, err := s.Receive(); {
		case errors.Is(err, unix.EINTR), err == nil && from.Pid != 0: // not the kernel
			continue
		case errors.Is(err, unix.ENOBUFS): // it had more to tell than there was room for
		case err != nil:
			return
		}
		select {
		case out <- struct{}{}:
		default:
		}
	}
}
