package route

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tries is how often a list that changed while the kernel gave it out is asked
// for again.
const tries = 10

// Observe reads what the kernel has. It needs no rights.
func Observe(ctx context.Context) (k Kernel, err error) {
	_, err = os.Stat("/proc/sys/net/ipv6")
	k.IPv6 = err == nil
	links, err := Dump(ctx, netlink.LinkList)
	if err != nil {
		return k, fmt.Errorf("list links: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	k.Links = linksOf(links, names)
	families := []int{netlink.FAMILY_V4}
	if k.IPv6 {
		families = append(families, netlink.FAMILY_V6)
	}
	for _, family := range families {
		if err := k.read(ctx, family, names); err != nil {
			return k, err
		}
	}
	return k, nil
}

// read adds what there is of a family. names are those of interfaces.
func (k *Kernel) read(ctx context.Context, family int, names map[int]string) error {
	addrs, err := Dump(ctx, func() ([]netlink.Addr, error) { return netlink.AddrList(nil, family) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addrs {
		k.Addrs = append(k.Addrs, addrOf(a))
	}
	rules, err := Dump(ctx, func() ([]netlink.Rule, error) { return netlink.RuleList(family) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) { // built without CONFIG_IP_MULTIPLE_TABLES
		k.NoRules, err = true, nil
	}
	if err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	for _, r := range rules {
		k.Rules = append(k.Rules, ruleOf(r))
	}
	routes, err := Dump(ctx, func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Table != unix.RT_TABLE_LOCAL {
			k.Routes = append(k.Routes, routesOf(r, names)...)
		}
	}
	return nil
}

// Dump has the kernel give out a list, again if that changed meanwhile.
func Dump[T any](ctx context.Context, list func() ([]T, error)) (all []T, err error) {
	for range tries {
		if err = ctx.Err(); err != nil {
			return nil, err
		}
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return nil, err
}

func linksOf(links []netlink.Link, names map[int]string) (all []Link) {
	for _, l := range links {
		a := l.Attrs()
		all = append(all, Link{
			Name: a.Name, Index: a.Index,
			Up:           a.RawFlags&unix.IFF_UP != 0,
			Carrier:      a.RawFlags&unix.IFF_RUNNING != 0,
			PointToPoint: a.RawFlags&(unix.IFF_POINTOPOINT|unix.IFF_NOARP) != 0,
			Master:       names[a.MasterIndex],
			VRF:          l.Type() == "vrf",
		})
		if a.Statistics != nil {
			all[len(all)-1].Sent = a.Statistics.TxBytes
		}
	}
	return all
}

func addrOf(a netlink.Addr) Addr {
	return Addr{
		Index: a.LinkIndex, Prefix: prefixOf(a.IPNet),
		Global:     a.Scope == unix.RT_SCOPE_UNIVERSE,
		Tentative:  a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0,
		Deprecated: a.Flags&unix.IFA_F_DEPRECATED != 0,
		Secondary:  a.Flags&unix.IFA_F_SECONDARY != 0,
	}
}

func ruleOf(r netlink.Rule) Rule {
	own := Rule{
		V6: r.Family == netlink.FAMILY_V6, Priority: r.Priority,
		Mark: r.Mark, Not: r.Invert, From: prefixOf(r.Src), Table: r.Table, Protocol: r.Protocol,
		Suppress: r.SuppressPrefixlen == 0,
		Odd: r.Dst != nil || r.Tos != 0 || r.TunID != 0 || r.Goto != -1 || r.Flow > 0 ||
			r.IifName != "" || r.OifName != "" || r.SuppressIfgroup != -1 || r.SuppressPrefixlen > 0 ||
			r.Dport != nil || r.Sport != nil || r.IPProto != 0 || r.UIDRange != nil || r.Table == 0,
	}
	if r.Mask != nil {
		own.Mask = *r.Mask
	}
	return own
}

func routesOf(r netlink.Route, names map[int]string) []Route {
	own := Route{
		Table: r.Table, Dst: prefixOf(r.Dst), Metric: uint32(r.Priority), Type: uint8(r.Type),
		Gateway: addrFrom(r.Gw), Source: addrFrom(r.Src), Protocol: uint8(r.Protocol),
		OnLink:  r.Flags&unix.RTNH_F_ONLINK != 0,
		Metrics: Metrics{uint32(r.MTU), uint32(r.AdvMSS), uint32(r.Hoplimit), uint32(r.InitCwnd)},
		Odd:     r.Encap != nil || r.Via != nil || r.NewDst != nil || r.Tos != 0 || len(r.MultiPath) > 0,
	}
	if own.Type == unicast { // IPv6 has the others on lo
		own.Index, own.Interface = r.LinkIndex, names[r.LinkIndex]
	}
	if len(r.MultiPath) == 0 {
		return []Route{own}
	}
	var all []Route
	for _, hop := range r.MultiPath {
		one := own
		one.Gateway, one.Index, one.Interface = addrFrom(hop.Gw), hop.LinkIndex, names[hop.LinkIndex]
		one.OnLink = hop.Flags&unix.RTNH_F_ONLINK != 0
		all = append(all, one)
	}
	return all
}

func addrFrom(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a
}

func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	addr := addrFrom(n.IP)
	bits, size := n.Mask.Size()
	if size == 8*net.IPv4len {
		addr = addr.Unmap() // the library has 0.0.0.0 in sixteen bytes
	}
	return netip.PrefixFrom(addr, bits)
}
