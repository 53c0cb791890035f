package tc

import (
	"errors"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// inNamespace moves the test into a network namespace of its own, which goes
// away with it. Subtests would run on other threads, in the machine's own, and
// are not for such a test.
func inNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	if os.Getuid() != 0 {
		missing(t, "root")
	}
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := netns.New()
	if err != nil {
		missing(t, "the right to make network namespaces: "+err.Error())
	}
	t.Cleanup(func() {
		err := errors.Join(ns.Close(), netns.Set(before), before.Close())
		if err != nil {
			t.Error(err)
			return
		}
		runtime.UnlockOSThread()
	})
	return ns
}

// missing fails a test that cannot run where all has to be there.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("missing: " + what)
	}
	t.Skip("missing: " + what)
}

// inLab is set in the kernel of the link lab, which has what this one may lack.
const inLab = "TRAFFICUP_LINKLAB"

// needLab skips a test that the link lab runs in a kernel of its own
// (TestShapers of test/linklab), unless it is there.
func needLab(t *testing.T) {
	t.Helper()
	if os.Getenv(inLab) == "" {
		t.Skip("needs cake and netem: TestShapers in test/linklab runs it")
	}
}

// ok ends the test at an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func index(t *testing.T, name string) int {
	t.Helper()
	l, err := netlink.LinkByName(name)
	ok(t, err)
	return l.Attrs().Index
}

// pair makes two ends of a veth, a and b, both up and here.
func pair(t *testing.T) (a, b int) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "a"
	ok(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "b"}))
	a, b = index(t, "a"), index(t, "b")
	for _, i := range []int{a, b} {
		attrs.Index = i
		ok(t, netlink.LinkSetUp(&netlink.Veth{LinkAttrs: attrs}))
	}
	return a, b
}

// root is what stands at the root of a link.
func root(t *testing.T, link int) Qdisc {
	t.Helper()
	q, err := readRoot(link)
	ok(t, err)
	return q
}

// frame is an IPv4 or IPv6 packet with UDP in an Ethernet frame, with no
// receiver. dscp is six bits.
func frame(v6 bool, dscp byte, size int) []byte {
	b := make([]byte, 14, 14+size)
	copy(b, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x08, 0x00})
	if v6 {
		b[12], b[13] = 0x86, 0xdd
		tc := dscp << 2
		ip := make([]byte, 40)
		ip[0], ip[1], ip[5], ip[6], ip[7] = 0x60|tc>>4, tc<<4, byte(size-40), unix.IPPROTO_UDP, 64
		copy(ip[8:], net.ParseIP("fd00::1"))
		copy(ip[24:], net.ParseIP("fd00::2"))
		b = append(b, ip...)
	} else {
		ip := make([]byte, 20)
		ip[0], ip[1], ip[3], ip[8], ip[9] = 0x45, dscp<<2, byte(size), 64, unix.IPPROTO_UDP
		copy(ip[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
		b = append(b, ip...)
	}
	return b[:14+size]
}

// transmit sends frames out by a link.
func transmit(t *testing.T, link int, frames ...[]byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	ok(t, err)
	defer unix.Close(fd)
	for _, f := range frames {
		to := &unix.SockaddrLinklayer{Ifindex: link, Protocol: uint16(f[12]) | uint16(f[13])<<8, Halen: 6}
		ok(t, unix.Sendto(fd, f, 0, to))
	}
}
