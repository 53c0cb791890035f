package dscpmark

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// part is one statement of a rule: as nft writes it, and as the kernel runs it.
// Everything goes through register 1, as with nft.
type part struct {
	text  string
	exprs []expr.Any
	set   *set // what its lookup looks in, if any
}

// set is an anonymous set of keys of one type.
type set struct {
	typ    nftables.SetDatatype
	keys   [][]byte
	lookup *expr.Lookup
}

// oneOf matches what load leaves in the register with any of the keys, whose
// names are what nft calls them.
func oneOf(text string, load expr.Any, typ nftables.SetDatatype, names []string, keys [][]byte) part {
	if len(keys) == 1 {
		return part{text + " " + names[0], []expr.Any{load, equal(keys[0])}, nil}
	}
	s := &set{typ, keys, &expr.Lookup{SourceRegister: 1, SetName: "__set%d"}}
	return part{text + " { " + strings.Join(names, ", ") + " }", []expr.Any{load, s.lookup}, s}
}

func equal(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }

// elsewhere matches packets that leave by none of the interfaces. A set of names
// would be simpler, but this library has nft take its keys for numbers in the
// order of the network, and list names that it cannot load again. There is room
// for [maxInterfaces].
func elsewhere(interfaces []string) part {
	var p part
	for _, name := range interfaces {
		key := make([]byte, unix.IFNAMSIZ)
		copy(key, name)
		p.text += fmt.Sprintf("oifname != %q ", name)
		p.exprs = append(p.exprs, &expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: key})
	}
	p.text = strings.TrimSuffix(p.text, " ")
	return p
}

func skuid(uid uint32) part {
	return part{fmt.Sprintf("meta skuid %d", uid), []expr.Any{
		&expr.Meta{Key: expr.MetaKeySKUID, Register: 1},
		equal(binaryutil.NativeEndian.PutUint32(uid)),
	}, nil}
}

// hasSocket matches packets of a program's socket, whoever it belongs to: asking
// for the user of any other ends a rule.
func hasSocket() part {
	return part{"meta skuid >= 0", []expr.Any{
		&expr.Meta{Key: expr.MetaKeySKUID, Register: 1},
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Cmp{Op: expr.CmpOpGte, Register: 1, Data: make([]byte, 4)},
	}, nil}
}

func cgroup(path string, id uint64) part {
	level := strings.Count(path, "/") + 1
	return part{fmt.Sprintf("socket cgroupv2 level %d %q", level, path), []expr.Any{
		&expr.Socket{Key: expr.SocketKeyCgroupv2, Level: uint32(level), Register: 1},
		equal(binaryutil.NativeEndian.PutUint64(id)),
	}, nil}
}

// tcpOrUDP stands before a look at ports, which other protocols may not have.
func tcpOrUDP() part {
	return oneOf("meta l4proto", &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, nftables.TypeInetProto,
		[]string{"tcp", "udp"}, [][]byte{{unix.IPPROTO_TCP}, {unix.IPPROTO_UDP}})
}

// toPorts and fromPorts match the two directions of a connection to one of the
// ports. They are told apart, so that a port that a client happens to have is
// not taken for a server's.
func toPorts(ports []uint16) []part   { return portsOf("original", "dport", 2, ports) }
func fromPorts(ports []uint16) []part { return portsOf("reply", "sport", 0, ports) }

func portsOf(direction, field string, offset uint32, ports []uint16) []part {
	names, keys := make([]string, len(ports)), make([][]byte, len(ports))
	for i, p := range ports {
		names[i], keys[i] = fmt.Sprint(p), binaryutil.BigEndian.PutUint16(p)
	}
	var dir byte // IP_CT_DIR_ORIGINAL
	if direction == "reply" {
		dir = 1
	}
	return []part{
		tcpOrUDP(),
		{"ct direction " + direction, []expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, equal([]byte{dir})}, nil},
		oneOf("th "+field, &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
			nftables.TypeInetService, names, keys),
	}
}

// nfproto stands before everything that is of one family only. nft puts it there
// without being told.
func nfproto(family byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, equal([]byte{family})}
}

// source matches the source address with a prefix. Like nft it compares whole
// bytes where the prefix ends with one.
func source(p netip.Prefix) part {
	family, name, offset := byte(unix.NFPROTO_IPV4), "ip", uint32(12)
	if p.Addr().Is6() {
		family, name, offset = unix.NFPROTO_IPV6, "ip6", 8
	}
	addr, bits := p.Addr().AsSlice(), p.Bits()
	out := part{name + " saddr " + p.String(), nfproto(family), nil}
	if bits == p.Addr().BitLen() {
		out.text = name + " saddr " + p.Addr().String()
	}
	n := len(addr)
	if bits%8 == 0 {
		n = bits / 8
	}
	if n == 0 {
		out.text = "meta nfproto " + map[string]string{"ip": "ipv4", "ip6": "ipv6"}[name]
		return out
	}
	out.exprs = append(out.exprs, &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(n)})
	if bits%8 != 0 {
		mask := make([]byte, n)
		for i := range bits {
			mask[i/8] |= 0x80 >> (i % 8)
		}
		out.exprs = append(out.exprs, bitwise(mask, make([]byte, n)))
	}
	out.exprs = append(out.exprs, equal(addr[:n]))
	return out
}

func bitwise(mask, xor []byte) expr.Any {
	return &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(len(mask)), Mask: mask, Xor: xor}
}

var (
	loadCtMark = &expr.Ct{Key: expr.CtKeyMARK, Register: 1}
	native32   = binaryutil.NativeEndian.PutUint32
)

// setCtMark writes our bits of the ct mark and leaves the others.
func setCtMark(mask, value uint32) part {
	text := fmt.Sprintf("ct mark set ct mark & %#x | %#x", ^mask, value)
	if value == 0 {
		text = fmt.Sprintf("ct mark set ct mark & %#x", ^mask)
	}
	return part{text, []expr.Any{
		loadCtMark,
		bitwise(native32(^mask), native32(value)),
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1, SourceRegister: true},
	}, nil}
}

func hasCtMark(mask, value uint32) part {
	return part{fmt.Sprintf("ct mark & %#x == %#x", mask, value), []expr.Any{
		loadCtMark, bitwise(native32(mask), make([]byte, 4)), equal(native32(value)),
	}, nil}
}

// writeDSCP puts the DSCP into the header. In IPv4 it is the upper six bits of
// the second byte, in IPv6 it straddles the first two; ECN follows in both.
func writeDSCP(family byte, dscp uint8) part {
	write := &expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseNetworkHeader, Len: 2}
	name, mask, shift := "ip6", uint16(0xf03f), 6
	if family == unix.NFPROTO_IPV4 {
		name, mask, shift = "ip", 0xff03, 2
		write.CsumType, write.CsumOffset = expr.CsumTypeInet, 10
	}
	return part{fmt.Sprintf("%s dscp set %d", name, dscp), append(nfproto(family),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Len: 2},
		bitwise(binary.BigEndian.AppendUint16(nil, mask), binary.BigEndian.AppendUint16(nil, uint16(dscp)<<shift)),
		write,
	), nil}
}

func count() part { return part{"counter", []expr.Any{&expr.Counter{}}, nil} }

func stop() part {
	return part{"return", []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}, nil}
}
