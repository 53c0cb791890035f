package tc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Read returns the qdiscs of the link with that index, with their statistics.
// That of an ifb, which shapes what comes in, is read with the ifb's index. A
// link that does not exist has none.
func Read(link int) ([]Qdisc, error) {
	found, err := list(qdiscs, link, 0)
	if err != nil {
		return nil, doing(err, link, "read the qdiscs")
	}
	var qs []Qdisc
	for _, m := range found {
		qs = append(qs, m.qdisc())
	}
	for i, q := range qs {
		if q.Kind == KindHTB && q.Parent == Root && q.Handle == HTBHandle {
			if err := readHTB(link, &qs[i], qs); err != nil {
				return nil, doing(err, link, "read the classes")
			}
		}
	}
	return qs, nil
}

// readRoot returns what stands at the root; its Kind is "" if nothing does.
func readRoot(link int) (Qdisc, error) {
	qs, err := Read(link)
	for _, q := range qs {
		if q.Parent == Root {
			return q, err
		}
	}
	return Qdisc{}, err
}

// SetRoot makes s the root of a link, whatever stands there. One of the same
// kind with this package's handle is changed in place and keeps its counters
// and its queue, another is replaced; until a new HTB has its classes, some
// milliseconds, packets pass it unshaped. After an error s may be there in part;
// unix.ENODEV says that there is no such link.
func SetRoot(link int, s Shaper) error {
	switch {
	case s.Kind == KindCake:
		err := set(qdiscs, head{link: link, handle: CakeHandle, parent: Root}, KindCake, s.Cake.encode())
		return doing(known(err), link, "set cake")
	case s.Kind == KindHTB && s.HTB.Rate >= 8:
		return doing(setHTB(link, s.HTB), link, "set htb")
	case s.Kind == KindHTB:
		return doing(errors.New("htb needs a rate"), link, "set htb")
	}
	return doing(fmt.Errorf("%q is not a shaper", s.Kind), link, "set the root")
}

// RestoreRoot makes a qdisc that was read before the root of a link again, with
// the handle and the options it had, not with its counters. For one with
// classes, and for a kind whose options the kernel writes in another form than
// it reads, that is not enough or fails. One of the kernel's own cannot be set;
// it returns by DeleteRoot.
func RestoreRoot(link int, q Qdisc) error {
	err := set(qdiscs, head{link: link, handle: q.Handle, parent: Root}, q.Kind, q.Raw)
	return doing(known(err), link, "restore %s", q.Kind)
}

// DeleteRoot deletes what stands at the root of a link, whose it may be, with
// all below it; the kernel's default returns. It is no error if that is there
// already.
func DeleteRoot(link int) error {
	return doing(remove(qdiscs, head{link: link, parent: Root}), link, "delete the root")
}

// known names the reason of a kernel that has no such kind.
func known(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%w (%w)", ErrUnknownKind, err)
	}
	return err
}

// loopback is the index of that link in every namespace.
const loopback = 1

// Support tells which kinds the kernel can make: cake, fq_codel, htb and
// ingress. It changes nothing, though the kernel may load a module. It needs the
// same rights as a change: errors.Is(err, unix.EPERM) says they are missing.
func Support() (map[Kind]bool, error) {
	has := map[Kind]bool{}
	for _, kind := range []Kind{KindCake, KindFqCodel, KindHTB, KindIngress} {
		// No kind can have block 0. The kernel says so when it has found the
		// kind, and before it makes the qdisc.
		var a attrs
		a.text(tcaKind, string(kind))
		a.u32(tcaBlock, 0)
		_, err := send(qdiscs, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE, head{link: loopback, handle: CakeHandle, parent: Root}, a)
		switch {
		case err == nil:
			return nil, errors.Join(fmt.Errorf("tc: the kernel made a %s that cannot be", kind), DeleteRoot(loopback))
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
			has[kind] = true
		case !errors.Is(err, unix.ENOENT):
			return nil, fmt.Errorf("tc: ask the kernel for %s: %w", kind, err)
		}
	}
	return has, nil
}
