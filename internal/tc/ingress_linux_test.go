package tc

import (
	"net"
	"os/exec"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestIngress holds that what comes in goes through the ifb, that setting it
// again changes nothing, and that nothing of it is left.
func TestIngress(t *testing.T) {
	inNamespace(t)
	a, b := pair(t)
	s := fifo(50e6, false)
	ok(t, SetIngress(a, "in0", s))
	in := index(t, "in0")
	if q := root(t, in); q.Shaper != s {
		t.Errorf("at the ifb's root is %+v", q)
	}
	for range 3 {
		ok(t, SetIngress(a, "in0", s))
	}
	before := packets(root(t, in))["Best Effort"]
	transmit(t, b, frame(false, 0, 100), frame(true, 0, 100), frame(false, 1, 100))
	if n := packets(root(t, in))["Best Effort"] - before; n < 3 {
		t.Errorf("%d of 3 packets came through the ifb", n)
	}
	if others, ours, err := ingressFilters(a); err != nil || others != 0 || len(ours) != 1 {
		t.Errorf("filters: %d of others, %+v, %v", others, ours, err)
	}

	// The ifb is made anew, by itself or with another number.
	ok(t, netlink.LinkDel(&netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Index: in}}))
	ok(t, SetIngress(a, "in0", s))
	in = index(t, "in0")
	if _, ours, err := ingressFilters(a); err != nil || len(ours) != 1 || ours[0].link != in {
		t.Errorf("link %d is the target of %+v, %v", in, ours, err)
	}

	for range 2 {
		ok(t, DeleteIngress(a, "in0"))
		qs, err := Read(a)
		ok(t, err)
		if len(qs) != 1 || !qs[0].Default {
			t.Errorf("left %+v", qs)
		}
		if _, err := net.InterfaceByName("in0"); err == nil {
			t.Error("the ifb is left")
		}
	}
}

// TestIngressOfOthers holds that filters and qdiscs that others have there stay.
func TestIngressOfOthers(t *testing.T) {
	inNamespace(t)
	a, _ := pair(t)
	s := fifo(50e6, false)
	for _, kind := range []string{"ingress", "clsact"} {
		tc(t, "qdisc", "add", "dev", "a", kind)
		tc(t, "filter", "add", "dev", "a", "ingress", "prio", "7", "protocol", "ip", "u32", "match", "u32", "0", "0", "action", "mirred", "egress", "redirect", "dev", "b")
		before := tc(t, "filter", "show", "dev", "a", "ingress")
		ok(t, SetIngress(a, "in0", s))
		ok(t, SetIngress(a, "in0", s))
		if others, ours, err := ingressFilters(a); err != nil || others == 0 || len(ours) != 1 {
			t.Errorf("filters: %d of others, %+v, %v", others, ours, err)
		}
		ok(t, DeleteIngress(a, "in0"))
		ok(t, DeleteIngress(a, "in0"))
		if after := tc(t, "filter", "show", "dev", "a", "ingress"); after != before {
			t.Errorf("there was\n%sis\n%s", before, after)
		}
		tc(t, "qdisc", "del", "dev", "a", kind)
	}
	if err := SetIngress(a, "b", s); err == nil {
		t.Error("a veth was taken for an ifb")
	}
	ok(t, SetRoot(index(t, "b"), s))
	ok(t, DeleteIngress(a, "b")) // it was never made
	if q := root(t, index(t, "b")); q.Shaper != s {
		t.Errorf("the veth has %+v", q)
	}
	ok(t, DeleteIngress(4711, "gone"))
}

// TestIfbOfOthers holds that an ifb that others made, or that another link's
// filter leads to, outlives DeleteIngress, and so does their empty ingress qdisc.
func TestIfbOfOthers(t *testing.T) {
	inNamespace(t)
	a, b := pair(t)
	s := fifo(50e6, false)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "in0", 1400
	ok(t, netlink.LinkAdd(&netlink.Ifb{LinkAttrs: attrs}))
	in := index(t, "in0")
	tc(t, "qdisc", "add", "dev", "a", "ingress")
	ok(t, SetIngress(a, "in0", s))
	ok(t, DeleteIngress(a, "in0"))
	if l, err := netlink.LinkByName("in0"); err != nil || l.Attrs().MTU != 1400 || !root(t, in).Default {
		t.Errorf("left %+v, %v, with %+v", l, err, root(t, in))
	}
	if qs, err := Read(a); err != nil || len(qs) != 2 {
		t.Errorf("left %+v, %v", qs, err)
	}
	tc(t, "qdisc", "add", "dev", "in0", "root", "handle", "42:", "tbf", "rate", "5mbit", "burst", "10kb", "limit", "50kb")
	ok(t, DeleteIngress(a, "in0"))
	if q := root(t, in); q.Handle != 0x42<<16 {
		t.Errorf("their queue became %+v", q)
	}

	ok(t, SetIngress(a, "in1", s)) // made by us
	in = index(t, "in1")
	for _, hook := range []string{"ingress", "egress"} {
		tc(t, "qdisc", "add", "dev", "b", "clsact")
		tc(t, "filter", "add", "dev", "b", hook, "prio", "7", "protocol", "ip", "u32", "match", "u32", "0", "0", "action", "mirred", "egress", "mirror", "dev", "in1")
		ok(t, SetIngress(a, "in1", s))
		ok(t, DeleteIngress(a, "in1"))
		if ours, led, err := Redirected(b, in); err != nil || ours || !led || !root(t, in).Default {
			t.Errorf("%s: it leads there: %v, %v, to %+v", hook, led, err, root(t, in))
		}
		tc(t, "qdisc", "del", "dev", "b", "clsact")
	}
	ok(t, DeleteIngress(a, "in1"))
	if _, err := net.InterfaceByName("in1"); err == nil {
		t.Error("ours is left")
	}
}

// TestSharedBlock reads where the filters of an ingress qdisc are.
func TestSharedBlock(t *testing.T) {
	inNamespace(t)
	a, _ := pair(t)
	tc(t, "qdisc", "add", "dev", "a", "ingress_block", "22", "ingress")
	qs, err := Read(a)
	ok(t, err)
	if !slices.ContainsFunc(qs, func(q Qdisc) bool { return q.Parent == Ingress && q.Block == 22 }) {
		t.Errorf("read %+v", qs)
	}
}

// tc runs the command of that name, which is another's view of the kernel.
func tc(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("tc"); err != nil {
		missing(t, "tc (Debian package iproute2)")
	}
	out, err := exec.Command("tc", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("tc %v: %v: %s", args, err, out)
	}
	return string(out)
}
