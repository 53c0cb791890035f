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
	redirectPrio  uint16 = 0x7a50
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
	if !slices.ContainsFunc(qs, func(q Qdisc) bool { return q.Parent == Ingress }) {
		if err := set(qdiscs, head{link: link, handle: ingressHandle, parent: Ingress}, KindIngress, nil); err != nil {
			return known(err)
		}
	}
	want := filter{parent: ingressHook, prio: redirectPrio, protocol: protocolAll, handle: 1, link: to}
	_, ours, err := ingressFilters(link)
	if err != nil {
		return err
	}
	h := head{link: link, parent: ingressHook, info: want.info()}
	switch {
	case len(ours) == 1 && ours[0].link == to && ours[0].mask == 0 && ours[0].protocol == protocolAll:
		return nil
	case len(ours) > 0:
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

// DeleteIngress undoes SetIngress: it deletes our filter, the ingress qdisc if
// there is no other filter, and the ifb. An ifb that filters of others lead to
// stays, with the kernel's default queue: without it they would drop all that
// comes in. What is not there is no error, nor is a link that is gone.
func DeleteIngress(link int, ifb string) error {
	if err := undirect(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return doing(err, link, "stop the redirection to %s", ifb)
	}
	l, err := netlink.LinkByName(ifb)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil && l.Type() != "ifb" {
		err = fmt.Errorf("it is a %s", l.Type())
	}
	if err != nil {
		return doing(err, link, "delete %s", ifb)
	}
	led, err := Redirected(link, l.Attrs().Index)
	switch {
	case err != nil && !errors.Is(err, unix.ENODEV):
		return doing(err, link, "look who uses %s", ifb)
	case led:
		return DeleteRoot(l.Attrs().Index)
	}
	return doing(netlink.LinkDel(l), link, "delete %s", ifb)
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

// Redirected reports whether a filter, whose it may be, leads what comes in by a
// link to ifb, the index of another.
func Redirected(link, ifb int) (bool, error) {
	l := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: link}} // only its index counts
	var found []netlink.Filter
	var err error
	for range 5 { // the list may change while it is read
		if found, err = netlink.FilterList(l, ingressHook); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return false, nil // there is no ingress qdisc
	}
	return slices.ContainsFunc(found, func(f netlink.Filter) bool { return leadsTo(f, ifb) }), err
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
	if qs[i].Kind == KindIngress && others == 0 {
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
		l, err = netlink.LinkByName(name)
	}
	switch {
	case err != nil:
		return 0, err
	case l.Type() != "ifb":
		return 0, fmt.Errorf("it is a %s already", l.Type())
	}
	return l.Attrs().Index, netlink.LinkSetUp(l)
}
