package dscpmark

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

// Packets returns who changes the marks of packets, iptables-nft among them, and who
// takes packets past routes. Rules of the older iptables are not seen.
func Packets() (touches []Touch, offloads []Offload, err error) {
	err = with(func(c *nftables.Conn) error {
		if _, err := find(c, ""); err != nil {
			return fmt.Errorf("nftables: %w", named(err))
		}
		tables, err := c.ListTables()
		if err != nil {
			return fmt.Errorf("nftables: list tables: %w", named(err))
		}
		chains, err := c.ListChains()
		if err != nil {
			return fmt.Errorf("nftables: list chains: %w", named(err))
		}
		for _, t := range tables {
			own := slices.DeleteFunc(slices.Clone(chains), func(c *nftables.Chain) bool {
				return c.Table.Name != t.Name || c.Table.Family != t.Family
			})
			name := fmt.Sprintf("table %s %s", familyName(t.Family), t.Name)
			touches = append(touches, touchesOf(c, t, own, name)...)
			flows, err := c.ListFlowtables(t)
			if err != nil {
				continue // most kernels have none
			}
			for _, f := range flows {
				offloads = append(offloads, Offload{name + ", flowtable " + f.Name, f.Devices})
			}
		}
		return nil
	})
	return touches, offloads, err
}

func touchesOf(c *nftables.Conn, t *nftables.Table, chains []*nftables.Chain, name string) (all []Touch) {
	// A chain without a hook may be called by any that has one.
	reroutes := slices.ContainsFunc(chains, func(c *nftables.Chain) bool { return c.Type == nftables.ChainTypeRoute })
	for _, chain := range chains {
		rules, err := c.GetRules(t, chain)
		if err != nil {
			continue // it went meanwhile
		}
		touch := Touch{Where: name + ", chain " + chain.Name, Local: chain.Type == nftables.ChainTypeRoute || chain.Hooknum == nil && reroutes}
		for _, r := range rules {
			sets, clears := packetMark(r.Exprs)
			touch.Sets, touch.Clears = touch.Sets|sets, touch.Clears|clears
		}
		if touch.Sets|touch.Clears != 0 {
			all = append(all, touch)
		}
	}
	return all
}

// origin is what a register's bits are from: keep, the packet's mark; may, something
// else that can be one. All others are zero.
type origin struct{ keep, may uint32 }

// registers are those whose origin is known.
type registers map[uint32]origin

func (r registers) origin(register uint32) origin {
	if v, known := r[register]; known {
		return v
	}
	return origin{may: allBits}
}

// packetMark follows values through the registers of a rule to the packet's mark.
func packetMark(exprs []expr.Any) (sets, clears uint32) {
	regs := registers{}
	for _, e := range exprs {
		switch e := e.(type) {
		case *expr.Meta:
			switch {
			case e.Key != expr.MetaKeyMARK && !e.SourceRegister:
				delete(regs, e.Register)
			case e.Key != expr.MetaKeyMARK:
			case e.SourceRegister:
				v := regs.origin(e.Register)
				sets, clears = sets|v.may, clears|^(v.keep|v.may)
			default:
				regs[e.Register] = origin{keep: allBits}
			}
		case *expr.Bitwise:
			v := regs.origin(e.SourceRegister)
			delete(regs, e.DestRegister)
			if len(e.Mask) == 4 && len(e.Xor) == 4 {
				m, x := binaryutil.NativeEndian.Uint32(e.Mask), binaryutil.NativeEndian.Uint32(e.Xor)
				regs[e.DestRegister] = origin{v.keep & m, v.may&m | x}
			}
		case *expr.Immediate:
			delete(regs, e.Register)
			if len(e.Data) == 4 {
				regs[e.Register] = origin{may: binaryutil.NativeEndian.Uint32(e.Data)}
			}
		case *expr.Target:
			s, c := markTarget(e.Name, e.Rev, e.Info)
			sets, clears = sets|s, clears|c
		default:
			maps.DeleteFunc(regs, func(r uint32, _ origin) bool { return writes(e, r) })
		}
	}
	return sets, clears
}

// writes tells whether an expression puts something else into a register.
func writes(e expr.Any, reg uint32) bool {
	switch e := e.(type) {
	case *expr.Ct:
		return e.Register == reg && !e.SourceRegister
	case *expr.Payload:
		return e.DestRegister == reg
	case *expr.Lookup:
		return e.IsDestRegSet && e.DestRegister == reg
	case *expr.Numgen:
		return e.Register == reg
	case *expr.Hash:
		return e.DestRegister == reg
	}
	return false
}

// markTarget reads what iptables-nft leaves of -j MARK (struct xt_mark_tginfo2: mark,
// mask) and -j CONNMARK --restore-mark (struct xt_connmark_tginfo1: ctmark, ctmask,
// nfmask, mode).
func markTarget(name string, rev uint32, info xt.InfoAny) (sets, clears uint32) {
	raw, ok := info.(*xt.Unknown)
	if !ok || rev < 1 {
		return 0, 0
	}
	field := func(i int) uint32 { return binaryutil.NativeEndian.Uint32((*raw)[4*i:]) }
	const restore = 2
	switch {
	case name == "MARK" && rev == 2 && len(*raw) >= 8:
		return field(0), field(1) &^ field(0)
	case name == "CONNMARK" && len(*raw) >= 13 && (*raw)[12] == restore:
		return field(1), field(2) &^ field(1)
	}
	return 0, 0
}
