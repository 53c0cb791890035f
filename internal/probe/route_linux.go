package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"trafficup/internal/route"
)

// Route asks the kernel for the way of a probe to dst, which sends nothing. It is
// an error, [ErrNoRoute], when there is none, when it leaves by another interface,
// or when it takes dst for a neighbour though dst is in none of the interface's
// subnets: whoever answers ARP for others would pass for it. A point-to-point
// link, which has no neighbours, needs no gateway. [ErrNoSource] is wrapped when
// the address to probe from is not, or no more, one of this machine.
func (b Binding) Route(ctx context.Context, dst netip.Addr) (Route, error) {
	if err := ctx.Err(); err != nil {
		return Route{}, err
	}
	src, err := b.source(dst)
	if err == nil {
		err = b.checkMark()
	}
	if err != nil {
		return Route{}, err
	}
	link, err := b.link()
	if err != nil {
		return Route{}, err
	}
	addrs, err := addresses(ctx, dst)
	if err != nil {
		return Route{}, fmt.Errorf("list addresses: %w", err)
	}
	if !has(addrs, src) {
		return Route{}, fmt.Errorf("%w: %s is not an address of this machine", ErrNoSource, src)
	}
	r, err := b.lookUp(dst, src)
	if err == nil {
		err = leaves(r, link, addrs, dst)
	}
	if err != nil {
		return Route{}, fmt.Errorf("%w: %s: %w", ErrNoRoute, b.way(dst, src), err)
	}
	return r, nil
}

func (b Binding) link() (netlink.Link, error) {
	link, err := netlink.LinkByName(b.Interface)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil, fmt.Errorf("%w: there is no interface %q: %w", ErrNoRoute, b.Interface, unix.ENODEV)
	}
	if err != nil {
		return nil, fmt.Errorf("look up interface %q: %w", b.Interface, err)
	}
	if i := link.Attrs().Index; b.Index != 0 && i != b.Index {
		return nil, fmt.Errorf("%w: the interface %q is another one now: index %d, not %d", ErrNoRoute, b.Interface, i, b.Index)
	}
	return link, nil
}

// addresses lists those of dst's family, of all interfaces.
func addresses(ctx context.Context, dst netip.Addr) ([]netlink.Addr, error) {
	family := netlink.FAMILY_V6
	if dst.Is4() {
		family = netlink.FAMILY_V4
	}
	return route.Dump(ctx, func() ([]netlink.Addr, error) { return netlink.AddrList(nil, family) })
}

func has(addrs []netlink.Addr, src netip.Addr) bool {
	for _, a := range addrs {
		if a.IP.Equal(src.AsSlice()) {
			return true
		}
	}
	return false
}

func (b Binding) lookUp(dst, src netip.Addr) (r Route, err error) {
	o := netlink.RouteGetOptions{SrcAddr: src.AsSlice(), Mark: b.Mark}
	if b.Device {
		o.Oif = b.Interface
		if dst.Is6() { // with a source the kernel keeps to the interface for bound sockets only
			o.SrcAddr = nil
		}
	}
	list, err := netlink.RouteGetWithOptions(dst.AsSlice(), &o)
	if err != nil {
		return r, err
	}
	if len(list) == 0 {
		return r, errors.New("the kernel says nothing")
	}
	gw := list[0].Gw
	if via, ok := list[0].Via.(*netlink.Via); ok { // IPv4 by a gateway of IPv6
		gw = via.Addr
	}
	r.Index = list[0].LinkIndex
	if g, ok := netip.AddrFromSlice(gw); ok {
		r.Gateway = g.Unmap()
	}
	return r, nil
}

// leaves refuses a way that is not by the link, or asks the link's neighbours for
// one who is none.
func leaves(r Route, link netlink.Link, addrs []netlink.Addr, dst netip.Addr) error {
	a := link.Attrs()
	if r.Index != a.Index {
		name := fmt.Sprintf("index %d", r.Index)
		if other, err := net.InterfaceByIndex(r.Index); err == nil {
			name = other.Name
		}
		return fmt.Errorf("leaves by %s", name)
	}
	if r.Gateway.IsValid() || a.RawFlags&(unix.IFF_POINTOPOINT|unix.IFF_NOARP) != 0 {
		return nil
	}
	for _, n := range addrs {
		subnet := n.IPNet
		if n.Peer != nil {
			subnet = n.Peer
		}
		if n.LinkIndex == a.Index && subnet.Contains(dst.AsSlice()) {
			return nil
		}
	}
	return errors.New("has no gateway, though the target is in none of the interface's subnets")
}
