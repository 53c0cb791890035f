package dscpmark

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

// Collisions returns, in plain words, what of other tables gets in the way of
// cfg's or is got at by it: rules that write or read our bits of the ct mark,
// those of iptables-nft among them, and flowtables. Rules of the older iptables,
// and what other programs do with conntrack, are not seen.
func Collisions(cfg Config) (found []string, err error) {
	cfg, err = cfg.filled()
	if err != nil {
		return nil, err
	}
	err = with(func(c *nftables.Conn) error {
		if _, err := find(c, cfg.Table); err != nil {
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
			if t.Name != cfg.Table || t.Family != nftables.TableFamilyINet {
				found = append(found, collisionsWith(c, t, chains, cfg.Mask)...)
			}
		}
		return nil
	})
	slices.Sort(found)
	return found, err
}

// collisionsWith looks at one table. One that cannot be read is named, too.
func collisionsWith(c *nftables.Conn, t *nftables.Table, chains []*nftables.Chain, mask uint32) (found []string) {
	say := func(where, format string, a ...any) {
		found = append(found, fmt.Sprintf("table %s %s, %s: ", familyName(t.Family), t.Name, where)+fmt.Sprintf(format, a...))
	}
	for _, chain := range chains {
		if chain.Table.Name != t.Name || chain.Table.Family != t.Family {
			continue
		}
		where := "chain " + chain.Name
		rules, err := c.GetRules(t, chain)
		if err != nil {
			say(where, "cannot be read: %v", err)
			continue
		}
		var all use
		for _, r := range rules {
			u := ctMarkUse(r.Exprs)
			all.reads, all.writes = all.reads|u.reads, all.writes|u.writes
		}
		if n := all.writes & mask; n != 0 {
			say(where, "writes bits %#x of the ct mark that are ours", n)
		}
		if n := all.reads & mask; n != 0 {
			say(where, "reads bits %#x of the ct mark that are ours", n)
		}
	}
	flows, err := c.ListFlowtables(t)
	if err != nil {
		say("flowtables", "cannot be read: %v", err)
	}
	for _, f := range flows {
		say("flowtable "+f.Name, "takes packets of %s past postrouting, where they would get their DSCP", strings.Join(f.Devices, ", "))
	}
	return found
}

func familyName(f nftables.TableFamily) string {
	names := map[nftables.TableFamily]string{
		nftables.TableFamilyINet: "inet", nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6",
		nftables.TableFamilyARP: "arp", nftables.TableFamilyNetdev: "netdev", nftables.TableFamilyBridge: "bridge",
	}
	if name, ok := names[f]; ok {
		return name
	}
	return fmt.Sprint(byte(f))
}

// use is the bits of the ct mark that a rule looks at and may change.
type use struct{ reads, writes uint32 }

// derived is a register's value: (ct mark & keep) ^ xor.
type derived struct{ keep, xor uint32 }

const allBits = ^uint32(0)

// ctMarkUse follows the ct mark through the registers of a rule. The library
// forgets which register a ct mark is set from: it is taken to be the one written
// last, as nft and iptables-nft have it.
func ctMarkUse(exprs []expr.Any) (u use) {
	regs, last := map[uint32]derived{}, uint32(0)
	read := func(reg uint32) {
		if d, ok := regs[reg]; ok {
			u.reads |= d.keep
		}
	}
	other := func(reg uint32) {
		delete(regs, reg)
		last = reg
	}
	for _, e := range exprs {
		switch e := e.(type) {
		case *expr.Ct:
			switch {
			case e.Key != expr.CtKeyMARK:
				other(e.Register)
			case e.Register == 0 || e.SourceRegister:
				d := regs[last] // nothing of the ct mark is kept, when it is of something else
				u.writes |= ^d.keep | d.xor
			default:
				regs[e.Register], last = derived{keep: allBits}, e.Register
			}
		case *expr.Bitwise:
			d, ok := regs[e.SourceRegister]
			other(e.DestRegister)
			if ok && len(e.Mask) == 4 && len(e.Xor) == 4 {
				m, x := binaryutil.NativeEndian.Uint32(e.Mask), binaryutil.NativeEndian.Uint32(e.Xor)
				regs[e.DestRegister] = derived{d.keep & m, d.xor&m ^ x}
			}
		case *expr.Cmp:
			read(e.Register)
		case *expr.Range:
			read(e.Register)
		case *expr.Lookup:
			read(e.SourceRegister)
			if e.IsDestRegSet {
				other(e.DestRegister)
			}
		case *expr.Meta:
			if e.SourceRegister {
				read(e.Register)
			} else {
				other(e.Register)
			}
		case *expr.Immediate:
			other(e.Register)
		case *expr.Payload:
			other(e.DestRegister)
		case *expr.Target:
			u.add(xtables(e.Name, e.Rev, e.Info))
		case *expr.Match:
			u.add(xtables(e.Name, e.Rev, e.Info))
		}
	}
	return u
}

func (u *use) add(v use) { u.reads, u.writes = u.reads|v.reads, u.writes|v.writes }

// xtables reads what iptables-nft leaves of -j CONNMARK (struct
// xt_connmark_tginfo1: ctmark, ctmask, nfmask, mode) and -m connmark (struct
// xt_connmark_mtinfo1: mark, mask).
func xtables(name string, rev uint32, info xt.InfoAny) use {
	raw, ok := info.(*xt.Unknown)
	if !ok || rev < 1 {
		return use{}
	}
	field := func(i int) uint32 { return binaryutil.NativeEndian.Uint32((*raw)[4*i:]) }
	switch {
	case name == "connmark" && len(*raw) >= 8:
		return use{reads: field(1)}
	case name == "CONNMARK" && len(*raw) >= 13:
		const set, save, restore = 0, 1, 2
		switch (*raw)[12] {
		case set:
			return use{writes: field(0) | field(1)}
		case save:
			return use{writes: field(1) | field(2)}
		case restore:
			return use{reads: field(1)}
		}
	}
	return use{}
}
