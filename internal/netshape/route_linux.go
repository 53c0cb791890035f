package netshape

import (
	"net/netip"

	"github.com/vishvananda/netlink"
)

// wayTo returns the interface by which packets to addr leave this machine. Where
// that is no end in itself, as a tunnel or a bridge, indirect is true: its packets
// leave by another.
func wayTo(addr netip.Addr) (name string, indirect bool, err error) {
	routes, err := netlink.RouteGet(addr.Unmap().AsSlice())
	if err != nil || len(routes) == 0 {
		return "", true, err
	}
	l, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", true, err
	}
	a, kind := l.Attrs(), l.Type()
	return a.Name, kind != "device" && kind != "veth" && kind != "dummy" || a.MasterIndex != 0, nil
}
