package dscpmark

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables/expr"

	"trafficup/internal/nstest"
)

// golden is the bytecode of some rules as nft --debug=netlink prints it. The
// words of data are printed as a little-endian machine reads them.
const golden = `
classify_out
[ meta load oifname => reg 1 ]
[ cmp neq reg 1 0x306e6177 0x00000000 0x00000000 0x00000000 ]
[ immediate reg 0 return ]
classify_out
[ meta load skuid => reg 1 ]
[ cmp eq reg 1 0x000003e8 ]
[ meta load l4proto => reg 1 ]
[ lookup reg 1 set __set%d ] 06 11
[ ct load direction => reg 1 ]
[ cmp eq reg 1 0x00000000 ]
[ payload load 2b @ transport header + 2 => reg 1 ]
[ lookup reg 1 set __set%d ] 0050 01bb
[ ct load mark => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0xffff0fff ) ^ 0x00001000 ]
[ ct set mark with reg 1 ]
[ counter pkts 0 bytes 0 ]
[ immediate reg 0 return ]
classify_out
[ meta load skuid => reg 1 ]
[ cmp eq reg 1 0x000003e8 ]
[ meta load l4proto => reg 1 ]
[ lookup reg 1 set __set%d ] 06 11
[ ct load direction => reg 1 ]
[ cmp eq reg 1 0x00000001 ]
[ payload load 2b @ transport header + 0 => reg 1 ]
[ lookup reg 1 set __set%d ] 0050 01bb
[ ct load mark => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0xffff0fff ) ^ 0x00001000 ]
[ ct set mark with reg 1 ]
[ counter pkts 0 bytes 0 ]
[ immediate reg 0 return ]
classify_out
[ meta load skuid => reg 1 ]
[ byteorder reg 1 = hton(reg 1, 4, 4) ]
[ cmp gte reg 1 0x00000000 ]
[ ct load mark => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0xffff0fff ) ^ 0x00000000 ]
[ ct set mark with reg 1 ]
[ counter pkts 0 bytes 0 ]
classify_fwd
[ meta load oifname => reg 1 ]
[ cmp neq reg 1 0x306e6177 0x00000000 0x00000000 0x00000000 ]
[ immediate reg 0 return ]
classify_fwd
[ meta load nfproto => reg 1 ]
[ cmp eq reg 1 0x00000002 ]
[ payload load 4b @ network header + 12 => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0x00feffff ) ^ 0x00000000 ]
[ cmp eq reg 1 0x0000000a ]
[ ct load mark => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0xffff0fff ) ^ 0x00002000 ]
[ ct set mark with reg 1 ]
[ counter pkts 0 bytes 0 ]
[ immediate reg 0 return ]
classify_fwd
[ meta load nfproto => reg 1 ]
[ cmp eq reg 1 0x0000000a ]
[ payload load 16b @ network header + 8 => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0xffffffff 0xf8ffffff 0x00000000 0x00000000 ) ^ 0x00000000 0x00000000 0x00000000 0x00000000 ]
[ cmp eq reg 1 0x000000fd 0x00000000 0x00000000 0x00000000 ]
[ ct load mark => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0xffff0fff ) ^ 0x00002000 ]
[ ct set mark with reg 1 ]
[ counter pkts 0 bytes 0 ]
[ immediate reg 0 return ]
classify_fwd
[ ct load mark => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0xffff0fff ) ^ 0x00000000 ]
[ ct set mark with reg 1 ]
[ counter pkts 0 bytes 0 ]
mark_post
[ meta load oifname => reg 1 ]
[ cmp neq reg 1 0x306e6177 0x00000000 0x00000000 0x00000000 ]
[ immediate reg 0 return ]
mark_post
[ ct load mark => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0x0000f000 ) ^ 0x00000000 ]
[ cmp eq reg 1 0x00001000 ]
[ meta load nfproto => reg 1 ]
[ cmp eq reg 1 0x00000002 ]
[ payload load 2b @ network header + 0 => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0x000003ff ) ^ 0x00000400 ]
[ payload write reg 1 => 2b @ network header + 0 csum_type 1 csum_off 10 csum_flags 0x0 ]
[ counter pkts 0 bytes 0 ]
mark_post
[ ct load mark => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0x0000f000 ) ^ 0x00000000 ]
[ cmp eq reg 1 0x00001000 ]
[ meta load nfproto => reg 1 ]
[ cmp eq reg 1 0x0000000a ]
[ payload load 2b @ network header + 0 => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0x00003ff0 ) ^ 0x00004000 ]
[ payload write reg 1 => 2b @ network header + 0 csum_type 0 csum_off 0 csum_flags 0x0 ]
[ counter pkts 0 bytes 0 ]
mark_post
[ ct load mark => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0x0000f000 ) ^ 0x00000000 ]
[ cmp eq reg 1 0x00002000 ]
[ meta load nfproto => reg 1 ]
[ cmp eq reg 1 0x00000002 ]
[ payload load 2b @ network header + 0 => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0x000003ff ) ^ 0x0000b800 ]
[ payload write reg 1 => 2b @ network header + 0 csum_type 1 csum_off 10 csum_flags 0x0 ]
[ counter pkts 0 bytes 0 ]
mark_post
[ ct load mark => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0x0000f000 ) ^ 0x00000000 ]
[ cmp eq reg 1 0x00002000 ]
[ meta load nfproto => reg 1 ]
[ cmp eq reg 1 0x0000000a ]
[ payload load 2b @ network header + 0 => reg 1 ]
[ bitwise reg 1 = ( reg 1 & 0x00003ff0 ) ^ 0x0000800b ]
[ payload write reg 1 => 2b @ network header + 0 csum_type 0 csum_off 0 csum_flags 0x0 ]
[ counter pkts 0 bytes 0 ]
`

func TestRulesAreNftsBytecode(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the golden text is of a little-endian machine")
	}
	p, err := compile(Config{
		Interfaces: []string{"wan0"}, Mask: 0xf000,
		Classes: []Class{
			{Name: "bulk", DSCP: 1, Match: Match{User: new(uint32(1000)), Ports: []uint16{443, 80, 443}}},
			{Name: "desk", DSCP: 46, Match: Match{Hosts: []netip.Prefix{netip.MustParsePrefix("10.0.1.0/23"), netip.MustParsePrefix("fd00::/61")}}},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range p.rules {
		got = append(got, r.chain)
		for _, s := range r.parts {
			for _, e := range s.exprs {
				got = append(got, printed(e, s.set))
			}
		}
	}
	want := strings.Split(strings.TrimSpace(golden), "\n")
	for i := range max(len(got), len(want)) {
		if g, w := at(got, i), at(want, i); g != w {
			t.Fatalf("line %d: got  %s\nwant %s", i+1, g, w)
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "nothing"
}

// printed writes an expression as nft does, and behind a lookup what is in its set.
func printed(e expr.Any, s *set) string {
	switch e := e.(type) {
	case *expr.Meta:
		return fmt.Sprintf("[ meta load %s => reg %d ]", map[expr.MetaKey]string{expr.MetaKeyOIFNAME: "oifname", expr.MetaKeySKUID: "skuid",
			expr.MetaKeyL4PROTO: "l4proto", expr.MetaKeyNFPROTO: "nfproto"}[e.Key], e.Register)
	case *expr.Cmp:
		return fmt.Sprintf("[ cmp %s reg %d %s ]", map[expr.CmpOp]string{expr.CmpOpEq: "eq", expr.CmpOpNeq: "neq", expr.CmpOpGte: "gte"}[e.Op], e.Register, words(e.Data))
	case *expr.Lookup:
		out := fmt.Sprintf("[ lookup reg %d set %s ]", e.SourceRegister, e.SetName)
		for _, k := range s.keys {
			out += fmt.Sprintf(" %x", k)
		}
		return out
	case *expr.Byteorder:
		return fmt.Sprintf("[ byteorder reg %d = %s(reg %d, %d, %d) ]", e.DestRegister, map[expr.ByteorderOp]string{expr.ByteorderHton: "hton"}[e.Op], e.SourceRegister, e.Size, e.Len)
	case *expr.Ct:
		key := map[expr.CtKey]string{expr.CtKeyMARK: "mark", expr.CtKeyDIRECTION: "direction"}[e.Key]
		if e.SourceRegister {
			return fmt.Sprintf("[ ct set %s with reg %d ]", key, e.Register)
		}
		return fmt.Sprintf("[ ct load %s => reg %d ]", key, e.Register)
	case *expr.Bitwise:
		return fmt.Sprintf("[ bitwise reg %d = ( reg %d & %s ) ^ %s ]", e.DestRegister, e.SourceRegister, words(e.Mask), words(e.Xor))
	case *expr.Payload:
		where := fmt.Sprintf("%db @ %s header + %d", e.Len, map[expr.PayloadBase]string{expr.PayloadBaseNetworkHeader: "network", expr.PayloadBaseTransportHeader: "transport"}[e.Base], e.Offset)
		if e.OperationType == expr.PayloadWrite {
			return fmt.Sprintf("[ payload write reg %d => %s csum_type %d csum_off %d csum_flags %#x ]", e.SourceRegister, where, e.CsumType, e.CsumOffset, e.CsumFlags)
		}
		return fmt.Sprintf("[ payload load %s => reg %d ]", where, e.DestRegister)
	case *expr.Counter:
		return fmt.Sprintf("[ counter pkts %d bytes %d ]", e.Packets, e.Bytes)
	case *expr.Verdict:
		return fmt.Sprintf("[ immediate reg 0 %s ]", map[expr.VerdictKind]string{expr.VerdictReturn: "return"}[e.Kind])
	}
	return fmt.Sprintf("%T", e)
}

func words(b []byte) string {
	var out []string
	for b = slices.Clone(b); len(b) > 0; b = b[4:] {
		for len(b) < 4 {
			b = append(b, 0)
		}
		out = append(out, fmt.Sprintf("%#08x", binary.LittleEndian.Uint32(b)))
	}
	return strings.Join(out, " ")
}

// TestScriptIsWhatApplyDoes holds that nft makes of the script, bit by bit, what
// Apply makes, and that the table can be saved and loaded like any other.
func TestScriptIsWhatApplyDoes(t *testing.T) {
	t.Parallel()
	one := example
	one.Interfaces, one.Mask = []string{"wan0"}, 0x3f00
	everyone := Config{Interfaces: []string{"wan0"}, Classes: []Class{{Name: "all", DSCP: 63, Match: Match{
		Hosts: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"), netip.MustParsePrefix("fd00:1::/32")}}}}}
	for i, cfg := range []Config{example, one, everyone} {
		l := newLab(t)
		apply(t, l.edge, cfg)
		script, err := Script(cfg)
		if err != nil {
			t.Fatal(err)
		}
		nstest.Shell(t, l.lan, "nft -f - <<'E'\n"+script+"E")
		nstest.Shell(t, l.edge, "nft -s list ruleset | ip netns exec "+l.isp+" nft -f -")
		want := bytecode(t, l.edge)
		if got := bytecode(t, l.lan); got != want {
			t.Errorf("%d: the script makes\n%s\nApply makes\n%s", i, got, want)
		}
		if got := bytecode(t, l.isp); got != want {
			t.Errorf("%d: saved and loaded\n%s\nbefore\n%s", i, got, want)
		}
		if got := nstest.Inside(t, l.lan, func() (State, error) { return Read("") }); got.Fingerprint == "" {
			t.Errorf("%d: the script's table reads as damaged: %s", i, got.Damage)
		}
	}
}

var volatile = regexp.MustCompile(`(?m)^(inet trafficup \w+) .*$|( set __set)\d+ 0x0`)

// bytecode lists the table's rules without handles and numbers of sets.
func bytecode(t *testing.T, ns string) string {
	text := nstest.Shell(t, ns, "nft --debug=netlink list table inet trafficup")
	_, text, ok := strings.Cut(text, "inet trafficup classify_out") // behind the sets
	if !ok {
		t.Fatal(text)
	}
	return volatile.ReplaceAllString(strings.TrimSpace(text), "$1$2")
}

func TestFingerprint(t *testing.T) {
	base, err := Fingerprint(example)
	if err != nil || len(base) != 16 {
		t.Fatal(base, err)
	}
	for what, change := range map[string]func(*Config){
		"DSCP":      func(c *Config) { c.Classes[0].DSCP = 2 },
		"port":      func(c *Config) { c.Classes[0].Match.Ports = []uint16{7443, 7081} },
		"user":      func(c *Config) { c.Classes[0].Match.User = new(uint32(1)) },
		"host":      func(c *Config) { c.Classes[2].Match.Hosts = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")} },
		"name":      func(c *Config) { c.Classes[0].Name = "bulky" },
		"order":     func(c *Config) { slices.Reverse(c.Classes) },
		"interface": func(c *Config) { c.Interfaces = []string{"wan0", "wan2"} },
		"mask":      func(c *Config) { c.Mask = 0xf0 },
	} {
		c := example
		c.Classes = slices.Clone(c.Classes)
		change(&c)
		if got, err := Fingerprint(c); err != nil || got == base {
			t.Errorf("%s: %s, %v", what, got, err)
		}
	}
	// What a class is called by in the ct mark now makes no difference.
	p, err := compile(example, map[string]uint32{"bulk": 7, "own": 1})
	if err != nil || p.fingerprint != base || p.rules[1].tag.mark != 7 {
		t.Errorf("with other marks: %s, %+v, %v", p.fingerprint, p.rules[1].tag, err)
	}
}
