package route

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Do carries out a plan; it needs CAP_NET_ADMIN. A step that fails does not hold
// up the others, so that one uplink's trouble is not another's, except that no
// rule is added behind one that could not be: what was done then stands, and the
// next plan starts from there. What is to be removed may be gone already. A plan
// with refusals is not begun ([ErrRefused]).
func Do(ctx context.Context, p Plan) error {
	if err := p.Err(); err != nil {
		return err
	}
	var all []error
	noRules := false
	for _, s := range p.Steps {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(all, err)...)
		}
		if noRules && s.isRule() && s.Op == Add {
			continue
		}
		if err := s.do(); err != nil {
			all = append(all, fmt.Errorf("%s: %w", s.Command(), err))
			noRules = noRules || s.isRule() && s.Op == Add
		}
	}
	return errors.Join(all...)
}

// Remove removes everything of a layout's, and returns what that was.
func Remove(ctx context.Context, l Layout) (Plan, error) {
	k, err := Observe(ctx)
	if err != nil {
		return Plan{}, err
	}
	p := l.Removal(k)
	return p, Do(ctx, p)
}

func (s Step) do() (err error) {
	if s.isRule() {
		if s.Op == Delete {
			err = netlink.RuleDel(s.Rule.message())
		} else {
			err = netlink.RuleAdd(s.Rule.message())
		}
	} else {
		_, err = s.Route.message(s.Op).Execute(unix.NETLINK_ROUTE, 0)
	}
	gone := errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
	if s.Op == Delete && gone {
		return nil
	}
	return err
}

func (r Rule) message() *netlink.Rule {
	m := netlink.NewRule()
	m.Family, m.Priority, m.Table, m.Protocol, m.Invert = netlink.FAMILY_V4, r.Priority, r.Table, r.Protocol, r.Not
	if r.V6 {
		m.Family = netlink.FAMILY_V6
	}
	if r.Mask != 0 {
		m.Mark, m.Mask = r.Mark, &r.Mask
	}
	if r.From.IsValid() {
		m.Src = &net.IPNet{IP: r.From.Addr().AsSlice(), Mask: net.CIDRMask(r.From.Bits(), r.From.Addr().BitLen())}
	}
	if r.Suppress {
		m.SuppressPrefixlen = 0
	}
	return m
}

// message is written here because the library's metric is an int, which has no
// room for the highest ones on small machines.
func (r Route) message(op Op) *nl.NetlinkRequest {
	kind, flags := unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE
	switch op {
	case Add:
		flags |= unix.NLM_F_EXCL // what somebody else put there meanwhile is not ours to replace
	case Change:
		flags |= unix.NLM_F_REPLACE
	case Delete:
		kind, flags = unix.RTM_DELROUTE, unix.NLM_F_ACK
	}
	req := nl.NewNetlinkRequest(kind, flags)
	req.AddData(r.header(op))
	number := func(attr int, n uint32) {
		if n != 0 {
			req.AddData(nl.NewRtAttr(attr, nl.Uint32Attr(n)))
		}
	}
	address := func(attr int, a netip.Addr) {
		if a.IsValid() {
			req.AddData(nl.NewRtAttr(attr, a.AsSlice()))
		}
	}
	number(unix.RTA_TABLE, uint32(r.Table))
	address(unix.RTA_DST, r.Dst.Addr())
	number(unix.RTA_PRIORITY, r.Metric)
	if op != Delete || !r.Odd { // several next hops go together
		address(unix.RTA_GATEWAY, r.Gateway)
		address(unix.RTA_PREFSRC, r.Source)
		number(unix.RTA_OIF, uint32(r.Index))
	}
	if op != Delete && r.Metrics != (Metrics{}) {
		req.AddData(r.Metrics.attribute())
	}
	return req
}

func (m Metrics) attribute() *nl.RtAttr {
	all := nl.NewRtAttr(unix.RTA_METRICS, nil)
	for attr, n := range map[int]uint32{unix.RTAX_MTU: m.MTU, unix.RTAX_ADVMSS: m.AdvMSS, unix.RTAX_HOPLIMIT: m.HopLimit, unix.RTAX_INITCWND: m.InitCwnd} {
		if n != 0 {
			all.AddRtAttr(attr, nl.Uint32Attr(n))
		}
	}
	return all
}

func (r Route) header(op Op) *nl.RtMsg {
	m := &nl.RtMsg{RtMsg: unix.RtMsg{
		Family: unix.AF_INET, Dst_len: uint8(r.Dst.Bits()), Protocol: r.Protocol, Type: r.Type,
	}}
	switch {
	case r.v6():
		m.Family = unix.AF_INET6
	case op == Delete:
		m.Scope = unix.RT_SCOPE_NOWHERE // any
	case r.Type == unicast && !r.Gateway.IsValid():
		m.Scope = unix.RT_SCOPE_LINK
	}
	if r.OnLink {
		m.Flags |= unix.RTNH_F_ONLINK
	}
	return m
}
