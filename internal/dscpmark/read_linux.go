package dscpmark

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Read returns the table of that name, "" for the default, as the kernel has it.
// There being none is no error.
func Read(table string) (s State, err error) {
	err = with(func(c *nftables.Conn) error {
		s, err = read(c, cmp.Or(table, defaultTable))
		return err
	})
	return s, err
}

// read asks again when the table is not whole: it may have been swapped while it
// was read, or be part of a transaction of [Check] that is about to fail.
func read(c *nftables.Conn, table string) (s State, err error) {
	for n := range 5 {
		time.Sleep(time.Duration(n) * 10 * time.Millisecond)
		s, err = readOnce(c, table)
		if err != nil {
			return State{}, fmt.Errorf("nftables table inet %s: %w", table, named(err))
		}
		if s.Damage == "" {
			break
		}
	}
	return s, nil
}

// find returns the table, or nil.
func find(c *nftables.Conn, name string) (*nftables.Table, error) {
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if errors.Is(err, syscall.EINVAL) {
		// A kernel that has netfilter but not nftables calls the question invalid.
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, nil
}

// owned reads a flag (NFT_TABLE_F_OWNER). The kernel sends flags in the order of the
// network, and this library reads them in the machine's.
func owned(t *nftables.Table) bool { return binary.BigEndian.Uint32(native32(t.Flags))&2 != 0 }

func readOnce(c *nftables.Conn, name string) (s State, err error) {
	t, err := find(c, name)
	if err != nil || t == nil {
		return s, err
	}
	s.Present, s.Owned = true, owned(t)
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return s, err
	}
	s.Damage = judgeChains(t, chains)
	s.based = s.Damage == ""
	var all []found
	for _, b := range bases {
		rules, err := c.GetRules(t, &nftables.Chain{Name: b.name})
		if err != nil && s.based {
			return s, err
		}
		for _, r := range rules {
			t, _ := parseTag(r.UserData)
			all = append(all, found{b.name, t})
			if n := counterOf(r); n != nil {
				s.Rules = append(s.Rules, Rule{b.name, strings.TrimPrefix(t.class, "-"), t.mark, n.Packets, n.Bytes})
			}
		}
	}
	if s.based {
		s.judge(all)
	}
	return s, nil
}

// judgeChains returns what is wrong with the table and its base chains, or "".
func judgeChains(t *nftables.Table, all []*nftables.Chain) string {
	if t.Flags != 0 {
		return "it is dormant or has an owner"
	}
	have := map[string]*nftables.Chain{}
	for _, c := range all {
		if c.Table.Name == t.Name {
			have[c.Name] = c
		}
	}
	for _, b := range bases {
		c := have[b.name]
		delete(have, b.name)
		switch {
		case c == nil:
			return "chain " + b.name + " is missing"
		case c.Hooknum == nil || c.Priority == nil || c.Policy == nil || c.Type != nftables.ChainTypeFilter,
			*c.Hooknum != *b.hook, *c.Priority != b.priority, *c.Policy != nftables.ChainPolicyAccept:
			return "chain " + b.name + " has another type, hook, priority or policy"
		}
	}
	for name := range have {
		return "chain " + name + " is not ours"
	}
	return ""
}

func counterOf(r *nftables.Rule) *expr.Counter {
	for _, e := range r.Exprs {
		if n, ok := e.(*expr.Counter); ok {
			return n
		}
	}
	return nil
}
