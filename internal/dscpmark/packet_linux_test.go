package dscpmark

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/nftables/xt"

	"trafficup/internal/nstest"
)

// Who changes the marks of packets is found by what its rules do, in the kernel's own
// words.
func TestPackets(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, `nft -f - <<'E'
table ip vpn {
	chain pre { type filter hook prerouting priority -150; tcp dport 22 meta mark set 0x1; }
	chain high { meta mark set meta mark & 0xffff00ff | 0x0100; }
	chain some { meta mark set meta mark | 0x4; }
	chain reads { meta mark 0x1 accept; ct mark set meta mark; }
	chain restore { meta mark set ct mark & 0xff; }
	chain dice { meta mark set numgen random mod 2; }
}
table inet out {
	chain route { type route hook output priority mangle; meta mark set 0x10; }
	chain called { meta mark set meta mark & 0xff; }
}
E`)
	want := []Touch{
		{"table ip vpn, chain pre", 0x1, ^uint32(0x1), false},
		{"table ip vpn, chain high", 0x100, 0xfe00, false},
		{"table ip vpn, chain some", 0x4, 0, false},
		{"table ip vpn, chain restore", 0xff, ^uint32(0xff), false},
		{"table ip vpn, chain dice", allBits, 0, false},
		{"table inet out, chain route", 0x10, ^uint32(0x10), true},
		{"table inet out, chain called", 0, ^uint32(0xff), true},
	}
	got := nstest.Inside(t, l.edge, func() ([]Touch, error) { touches, _, err := Packets(); return touches, err })
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("not found: %+v", w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("found %+v", got)
	}
}

// iptables-nft leaves the extension's own struct.
func TestMarkTarget(t *testing.T) {
	info := func(words ...uint32) *xt.Unknown {
		var b xt.Unknown
		for _, w := range words {
			b = binary.NativeEndian.AppendUint32(b, w)
		}
		return &b
	}
	for name, c := range map[string]struct {
		target       string
		rev          uint32
		info         xt.InfoAny
		sets, clears uint32
	}{
		"set-mark":     {"MARK", 2, info(0x10, 0xffffffff), 0x10, ^uint32(0x10)},
		"set-xmark":    {"MARK", 2, info(0x100, 0x300), 0x100, 0x200},
		"older":        {"MARK", 1, info(0x100, 0x300), 0, 0},
		"restore":      {"CONNMARK", 1, info(0, 0xff, 0x1ff, 2), 0xff, 0x100},
		"save":         {"CONNMARK", 1, info(0, 0xff, 0x1ff, 1), 0, 0},
		"something":    {"LOG", 2, info(1, 2), 0, 0},
		"not that big": {"CONNMARK", 1, info(1), 0, 0},
	} {
		if sets, clears := markTarget(c.target, c.rev, c.info); sets != c.sets || clears != c.clears {
			t.Errorf("%s: sets %#x, clears %#x", name, sets, clears)
		}
	}
}
