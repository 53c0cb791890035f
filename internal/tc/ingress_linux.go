package tc

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Where filters of ingress and of clsact are, and our one among them.
const (
	ingressHandle uint32 = 0xffff << 16
	ingressHook   uint32 = 0xfffffff2
	egressHook    uint32 = 0xfffffff3 // of clsact
	redirectPrio  uint16 = 0x7a50
)

// Numbers of our filter: it remembers whose the ingress qdisc is, which has no
// place for that itself.
const (
	besideOthers uint32 = 1 // it was there
	withQdisc    uint32 = 2 // we made it, and take it away
)

// SetIngress sends what comes in by a link through s, at the root of an ifb of
// that name, which is made if there is none. An ingress qdisc or clsact that is
// there stays, with its filters. Another kind of link with that name is an
// error, as is anything after which s may be there in part.
func SetIngress(link int, ifb string, s Shaper) error {
	to, err := ensureIfb(ifb)
	if err != nil {
		return doing(err, link, "make %s", ifb)
	}
	if err := SetRoot(to, s); err != nil {
		return err
	}
	return doing(redirectTo(link, to), link, "redirect to %s", ifb)
}

// redirectTo adds our filter to a link, if it is not there as it has to be.
func redirectTo(link, to int) error {
	qs, err := Read(link)
	if err != nil {
		return err
	}
	want := filter{parent: ingressHook, prio: redirectPrio, protocol: protocolAll, handle: besideOthers, link: to}
	if !slices.ContainsFunc(qs, func(q Qdisc) bool { return q.Parent == Ingress }) {
		want.handle = withQdisc
		if err := set(qdiscs, head{link: link, handle: ingressHandle, parent: Ingress}, KindIngress, nil); err != nil {
			return known(err)
		}
	}
	_, ours, err := ingressFilters(link)
	if err != nil {
		return err
	}
	h := head{link: link, parent: ingressHook, info: want.info()}
	switch {
	case len(ours) == 1 && ours[0].link == to && ours[0].mask == 0 && ours[0].protocol == protocolAll:
		return nil
	case len(ours) > 0:
		want.handle = ours[0].handle
		if err := remove(filters, h); err != nil {
			return err
		}
	}
	h.handle = want.handle
	return set(filters, h, "u32", want.encode())
}

// ingressFilters returns how many of the filters for what comes in are others',
// and ours.
func ingressFilters(link int) (others int, ours []filter, err error) {
	found, err := list(filters, link, ingressHook)
	for _, m := range found {
		if uint16(m.info>>16) != redirectPrio {
			others++
		} else if f, ok := decodeFilter(m); ok {
			ours = append(ours, f)
		}
	}
	return others, ours, err
}

// DeleteIngress undoes SetIngress: it deletes our filter, the ingress qdisc if we
// made it and there is no other filter, and the ifb if we made it. An ifb that
// others made, or that their filters lead to, from whatever link, stays, with the
// kernel's default queue in place of ours: without it they would drop all that
// comes in. What is not there is no error, nor is a link that is gone, nor one of
// another kind that has the ifb's name: nothing can have been led there.
func DeleteIngress(link int, ifb string) error {
	if err := undirect(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return doing(err, link, "stop the redirection to %s", ifb)
	}
	l, err := netlink.LinkByName(ifb)
	switch {
	case errors.As(err, &netlink.LinkNotFoundError{}), err == nil && l.Type() != "ifb":
		return nil
	case err != nil:
		return doing(err, link, "delete %s", ifb)
	}
	used, err := anyRedirected(l.Attrs().Index)
	switch {
	case err != nil:
		return doing(err, link, "look who uses %s", ifb)
	case used || l.Attrs().Alias != IfbAlias:
		return deleteOurRoot(l.Attrs().Index)
	}
	return doing(netlink.LinkDel(l), link, "delete %s", ifb)
}

// deleteOurRoot is DeleteRoot where what stands there has a handle of ours.
func deleteOurRoot(link int) error {
	q, err := readRoot(link)
	if err != nil || q.Handle != CakeHandle && q.Handle != HTBHandle {
		return err
	}
	return DeleteRoot(link)
}

// anyRedirected reports whether a filter of any link leads to ifb.
func anyRedirected(ifb int) (bool, error) {
	links, err := netlink.LinkList()
	for range 4 { // the list may change while it is read
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
		links, err = netlink.LinkList()
	}
	for _, l := range links {
		ours, others, err := Redirected(l.Attrs().Index, ifb)
		if ours || others || err != nil && !errors.Is(err, unix.ENODEV) {
			return ours || others, err
		}
	}
	return false, err
}

// RestoreIngress undoes SetIngress where the ifb was somebody else's: it deletes
// our filter and puts q, as it was read, back at the ifb's root, whether anything
// is led there or not. A q without a kind is the kernel's default.
func RestoreIngress(link int, ifb string, q Qdisc) error {
	if err := undirect(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return doing(err, link, "stop the redirection to %s", ifb)
	}
	to, err := ensureIfb(ifb)
	switch {
	case err != nil:
		return doing(err, link, "make %s", ifb)
	case q.Kind == "":
		return DeleteRoot(to)
	}
	return RestoreRoot(to, q)
}

// Redirected reports whether our filter, and whether one of others, leads what comes
// in by a link to ifb, the index of another, or what clsact sees going out. 0 is the
// index of one that is gone.
func Redirected(link, ifb int) (ours, others bool, err error) {
	for _, hook := range []uint32{ingressHook, egressHook} {
		found, err := filtersAt(hook, link)
		if err != nil {
			return false, false, err
		}
		for _, f := range found {
			switch {
			case !leadsTo(f, ifb):
			case f.Attrs().Priority == redirectPrio:
				ours = true
			default:
				others = true
			}
		}
	}
	return ours, others, nil
}

func filtersAt(hook uint32, link int) (found []netlink.Filter, err error) {
	l := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: link}} // only its index counts
	for range 5 {                                                  // the list may change while it is read
		if found, err = netlink.FilterList(l, hook); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // there is no ingress qdisc
	}
	return found, err
}

func leadsTo(f netlink.Filter, ifb int) bool {
	var actions []netlink.Action
	switch f := f.(type) {
	case *netlink.U32:
		actions = f.Actions
	case *netlink.MatchAll:
		actions = f.Actions
	case *netlink.Flower:
		actions = f.Actions
	}
	return slices.ContainsFunc(actions, func(a netlink.Action) bool {
		m, ok := a.(*netlink.MirredAction)
		return ok && m.Ifindex == ifb
	})
}

func undirect(link int) error {
	qs, err := Read(link)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(qs, func(q Qdisc) bool { return q.Parent == Ingress })
	if i < 0 {
		return nil
	}
	others, ours, err := ingressFilters(link)
	if err != nil || len(ours) == 0 {
		return err
	}
	if qs[i].Kind == KindIngress && others == 0 && ours[0].handle == withQdisc {
		return remove(qdiscs, head{link: link, handle: ingressHandle, parent: Ingress})
	}
	return remove(filters, head{link: link, parent: ingressHook, info: ours[0].info()})
}

// ensureIfb returns the index of an ifb that is up.
func ensureIfb(name string) (int, error) {
	l, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		if err := netlink.LinkAdd(&netlink.Ifb{LinkAttrs: attrs}); err != nil {
			return 0, err
		}
		if l, err = netlink.LinkByName(name); err == nil {
			err = netlink.LinkSetAlias(l, IfbAlias)
		}
	}
	switch {
	case err != nil:
		return 0, err
	case l.Type() != "ifb":
		return 0, fmt.Errorf("it is a %s already", l.Type())
	}
	return l.Attrs().Index, netlink.LinkSetUp(l)
}
