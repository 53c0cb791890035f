package tc

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestSupport holds that asking tells the truth and leaves nothing.
func TestSupport(t *testing.T) {
	inNamespace(t)
	before, err := Read(loopback)
	ok(t, err)
	has, err := Support()
	ok(t, err)
	after, err := Read(loopback)
	ok(t, err)
	if !reflect.DeepEqual(before, after) {
		t.Errorf("it was %v, is %v", before, after)
	}
	a, _ := pair(t)
	for _, kind := range []Kind{KindCake, KindFqCodel, KindHTB, KindIngress} {
		h := head{link: a, handle: 1 << 16, parent: Root}
		options := Cake{}.encode()
		switch kind {
		case KindFqCodel:
			options = FqCodel{}.encode(false)
		case KindHTB:
			options = encodeHTB()
		case KindIngress:
			h, options = head{link: a, handle: ingressHandle, parent: Ingress}, nil
		}
		err := known(set(qdiscs, h, kind, options))
		if has[kind] != (err == nil) || err != nil && !errors.Is(err, ErrUnknownKind) {
			t.Errorf("supported %v, making one: %v", has, err)
		}
		ok(t, DeleteRoot(a))
	}
	t.Log(has)
}

func TestSetCakeWhereThereIsNone(t *testing.T) {
	inNamespace(t)
	if has, err := Support(); err != nil || has[KindCake] {
		t.Skip("this kernel has cake", err)
	}
	a, _ := pair(t)
	if err := SetRoot(a, Shaper{Kind: KindCake}); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("got %v", err)
	}
}

func TestNoSuchLink(t *testing.T) {
	inNamespace(t)
	for what, err := range map[string]error{
		"set":    SetRoot(4711, Shaper{Kind: KindHTB, HTB: HTB{Rate: 8e6}}),
		"delete": DeleteRoot(4711),
	} {
		if !errors.Is(err, unix.ENODEV) {
			t.Errorf("%s: %v", what, err)
		}
	}
	a, _ := pair(t)
	for _, s := range []Shaper{{}, {Kind: KindFqCodel}, {Kind: KindHTB}} {
		if err := SetRoot(a, s); err == nil {
			t.Errorf("%v was set", s)
		}
	}
}

// TestWithoutRights is for the tests of who may do what; any user may read.
func TestWithoutRights(t *testing.T) {
	inNamespace(t)
	a, _ := pair(t)
	dropRights(t)
	if _, err := Read(a); err != nil {
		t.Errorf("read: %v", err)
	}
	_, err := Support()
	for what, err := range map[string]error{
		"set": SetRoot(a, Shaper{Kind: KindHTB, HTB: HTB{Rate: 8e6}}), "support": err, "delete": DeleteRoot(a),
		"ingress": SetIngress(a, "ifbx", Shaper{Kind: KindHTB, HTB: HTB{Rate: 8e6}}),
	} {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// dropRights takes the calling thread's capabilities for the test.
func dropRights(t *testing.T) {
	t.Helper()
	h := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	ok(t, unix.Capget(h, &had[0]))
	none := had
	none[0].Effective, none[1].Effective = 0, 0
	ok(t, unix.Capset(h, &none[0]))
	t.Cleanup(func() { ok(t, unix.Capset(h, &had[0])) })
}

// TestForeign reads what others have set, deletes it twice, and restores it.
func TestForeign(t *testing.T) {
	inNamespace(t)
	a, _ := pair(t)
	if q := root(t, a); q.Kind != "noqueue" || !q.Default || q.Shaper != (Shaper{}) {
		t.Errorf("a veth has %+v", q)
	}
	ok(t, DeleteRoot(a))
	attrs := netlink.QdiscAttrs{LinkIndex: a, Handle: netlink.MakeHandle(0x11, 0), Parent: netlink.HANDLE_ROOT}
	for kind, q := range map[Kind]netlink.Qdisc{
		"tbf":   &netlink.Tbf{QdiscAttrs: attrs, Rate: 1e6, Limit: 1e5, Buffer: 1e4},
		"pfifo": &netlink.GenericQdisc{QdiscAttrs: attrs, QdiscType: "pfifo"},
		"bfifo": &netlink.GenericQdisc{QdiscAttrs: attrs, QdiscType: "bfifo"},
	} {
		ok(t, netlink.QdiscReplace(q))
		is := root(t, a)
		if is.Kind != kind || is.Handle != 0x11<<16 || is.Default || is.Shaper != (Shaper{}) || len(is.Raw) == 0 {
			t.Errorf("read %+v", is)
		}
		ok(t, DeleteRoot(a))
		ok(t, DeleteRoot(a))
		if q := root(t, a); !q.Default {
			t.Errorf("after deletion %+v", q)
		}
		ok(t, RestoreRoot(a, is))
		if q := root(t, a); q.Kind != kind || q.Handle != is.Handle || !slices.Equal(q.Raw, is.Raw) {
			t.Errorf("restored %+v, want %+v", q, is)
		}
		ok(t, SetRoot(a, fifo(8e6, false)))
		if q := root(t, a); q.Shaper != fifo(8e6, false) {
			t.Errorf("in its place stands %+v", q)
		}
		ok(t, DeleteRoot(a))
	}
}

// TestDefaults reads the kernel's own roots: of a queue with several hardware
// queues, and of a single one.
func TestDefaults(t *testing.T) {
	inNamespace(t)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.TxQLen = "ifb0", 4, 32
	ok(t, netlink.LinkAdd(&netlink.Ifb{LinkAttrs: attrs}))
	attrs.Index = index(t, "ifb0")
	ok(t, netlink.LinkSetUp(&netlink.Ifb{LinkAttrs: attrs}))
	qs, err := Read(attrs.Index)
	ok(t, err)
	if len(qs) == 0 {
		t.Fatal("no qdiscs")
	}
	for _, q := range qs {
		t.Logf("%s parent %x", q.Kind, q.Parent)
		if !q.Default {
			t.Errorf("%+v is nobody's", q)
		}
	}
}
