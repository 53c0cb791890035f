package dscpmark

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"trafficup/internal/nstest"
)

func TestCollisions(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, `nft -f - <<'E'
table ip vpn {
	chain pre { type filter hook prerouting priority -150; ct mark set 0x1; }
	chain high { ct mark set ct mark & 0xffff00ff | 0x0100; }
	chain some { ct mark set ct mark | 0x4; }
	chain plain { ct mark 0x1 accept; }
	chain masked { ct mark & 0x0f00 == 0x0100 accept; }
	chain restore { meta mark set ct mark; }
	chain save { ct mark set meta mark & 0xff00; }
	chain packets { meta mark 0x1 meta mark set 0x2; ct state new accept; }
	chain mapped { ct mark & 0x3 vmap { 1 : accept }; }
}
table inet trafficup2 {
	chain a { ct mark set ct mark & 0xffffff00; }
}
E`)
	apply(t, l.edge, example) // its own rules are none
	want := []string{
		"table inet trafficup2, chain a: writes bits 0xff of the ct mark that are ours",
		"table ip vpn, chain plain: reads bits 0xff of the ct mark that are ours",
		"table ip vpn, chain mapped: reads bits 0x3 of the ct mark that are ours",
		"table ip vpn, chain some: writes bits 0x4 of the ct mark that are ours",
		"table ip vpn, chain pre: writes bits 0xff of the ct mark that are ours",
		"table ip vpn, chain restore: reads bits 0xff of the ct mark that are ours",
		"table ip vpn, chain save: writes bits 0xff of the ct mark that are ours",
	}
	slices.Sort(want)
	if got := nstest.Inside(t, l.edge, func() ([]string, error) { return Collisions(example) }); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	moved := example
	moved.Mask = 0x0f0000
	want = []string{
		"table ip vpn, chain plain: reads bits 0xf0000 of the ct mark that are ours",
		"table ip vpn, chain pre: writes bits 0xf0000 of the ct mark that are ours",
		"table ip vpn, chain restore: reads bits 0xf0000 of the ct mark that are ours",
		"table ip vpn, chain save: writes bits 0xf0000 of the ct mark that are ours",
	}
	if got := nstest.Inside(t, l.edge, func() ([]string, error) { return Collisions(moved) }); !slices.Equal(got, want) {
		t.Errorf("mask moved: got  %q\nwant %q", got, want)
	}
}

// TestFlowtable has the kernel's answers made up: few kernels have flowtables.
func TestFlowtable(t *testing.T) {
	attrs := func(a ...netlink.Attribute) []byte {
		b, err := netlink.MarshalAttributes(a)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	devices := attrs(netlink.Attribute{Type: nftables.NFTA_DEVICE_NAME, Data: []byte("lan0\x00")}, netlink.Attribute{Type: nftables.NFTA_DEVICE_NAME, Data: []byte("wan0\x00")})
	body := attrs(
		netlink.Attribute{Type: nftables.NFTA_FLOWTABLE_NAME, Data: []byte("f\x00")},
		netlink.Attribute{Type: nftables.NFTA_FLOWTABLE_HOOK, Data: attrs(netlink.Attribute{Type: nftables.NFTA_FLOWTABLE_DEVS, Data: devices})},
	)
	c, err := nftables.New(nftables.WithTestDial(func([]netlink.Message) ([]netlink.Message, error) {
		return []netlink.Message{{
			Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | nftables.NFT_MSG_NEWFLOWTABLE},
			Data:   append([]byte{unix.NFPROTO_INET, 0, 0, 0}, body...),
		}}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"table inet fw, flowtable f: takes packets of lan0, wan0 past postrouting, where they would get their DSCP"}
	if got := collisionsWith(c, &nftables.Table{Name: "fw", Family: nftables.TableFamilyINet}, nil, 0xff); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestIptables has the rules as iptables-nft puts them: the extension's own
// struct is all there is to go by.
func TestIptables(t *testing.T) {
	info := func(words ...uint32) *xt.Unknown {
		var b xt.Unknown
		for _, w := range words {
			b = binary.NativeEndian.AppendUint32(b, w)
		}
		return &b
	}
	mode := func(m byte, words ...uint32) *xt.Unknown {
		b := append(*info(words...), m, 0, 0, 0)
		return &b
	}
	for _, c := range []struct {
		rule string
		e    expr.Any
		want use
	}{
		{"--set-xmark 0x10/0xf0", &expr.Target{Name: "CONNMARK", Rev: 1, Info: mode(0, 0x10, 0xf0, 0xffffffff)}, use{writes: 0xf0}},
		{"--set-xmark 0x10/0x0", &expr.Target{Name: "CONNMARK", Rev: 2, Info: mode(0, 0x10, 0, 0xffffffff)}, use{writes: 0x10}},
		{"--save-mark", &expr.Target{Name: "CONNMARK", Rev: 1, Info: mode(1, 0, 0xffffffff, 0xffffffff)}, use{writes: allBits}},
		{"--restore-mark --nfmask 0xf --ctmask 0xf", &expr.Target{Name: "CONNMARK", Rev: 1, Info: mode(2, 0, 0xf, 0xf)}, use{reads: 0xf}},
		{"--mark 0x1/0x3", &expr.Match{Name: "connmark", Rev: 1, Info: info(1, 3, 0)}, use{reads: 3}},
		{"MARK", &expr.Target{Name: "MARK", Rev: 2, Info: info(1, 0xff)}, use{}},
		{"cut off", &expr.Target{Name: "CONNMARK", Rev: 1, Info: info(1, 2)}, use{}},
		{"cut off", &expr.Match{Name: "connmark", Rev: 1, Info: info(1)}, use{}},
	} {
		if got := ctMarkUse([]expr.Any{c.e}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.rule, got, c.want)
		}
	}
}
