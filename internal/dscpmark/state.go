package dscpmark

import (
	"bytes"
	"fmt"
)

// State is the table as the kernel has it.
type State struct {
	Present     bool   // there is a table of that name
	Fingerprint string // of the [Config] it was made for; "" when it is not whole
	Damage      string // what is not whole about it, "" when nothing is
	Owned       bool   // by another program that runs: see [ErrOwned]
	Rules       []Rule // those that count, in the order of the kernel
	based       bool   // the base chains are as they should be
}

// Rule is one rule of the table with what it has counted since it was made.
type Rule struct {
	Chain   string `json:"chain"` // one of the constants
	Class   string `json:"class"` // "" for what leaves by an uplink and is of no class
	Mark    uint32 `json:"mark"`  // the value of our bits of the ct mark
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Chains of the table.
const (
	ChainOut  = "classify_out" // from this machine, by its socket
	ChainFwd  = "classify_fwd" // from the LAN
	ChainPost = "mark_post"    // writes the DSCP; two rules a class, IPv4 first
)

// tag is what a rule bears as its comment, so that the table alone tells what it
// was made for and whether all of it is there.
type tag struct {
	class       string // "-" for none
	mark        uint32
	index, of   int // counted over the whole table, from 1
	fingerprint string
}

func (t tag) String() string {
	return fmt.Sprintf("%s %#x %d/%d %s", t.class, t.mark, t.index, t.of, t.fingerprint)
}

// commentType is nft's type for a comment in a rule's user data, which is a
// sequence of type, length and value (NFTNL_UDATA_RULE_COMMENT).
const commentType = 0

func (t tag) userData() []byte {
	s := t.String()
	return append([]byte{commentType, byte(len(s) + 1)}, s+"\x00"...)
}

// parseTag reads what a rule bears. Others' rules bear something else or nothing.
func parseTag(userData []byte) (t tag, ok bool) {
	for b := userData; len(b) >= 2 && len(b) >= 2+int(b[1]); b = b[2+int(b[1]):] {
		if b[0] != commentType {
			continue
		}
		text := string(bytes.TrimSuffix(b[2:2+int(b[1])], []byte{0}))
		n, err := fmt.Sscanf(text, "%s %v %d/%d %s", &t.class, &t.mark, &t.index, &t.of, &t.fingerprint)
		if err == nil && n == 5 && t.String() == text {
			return t, true
		}
		return tag{}, false
	}
	return tag{}, false
}

// found is a rule of the table and its tag, empty when it has none of ours.
type found struct {
	chain string
	tag   tag
}

// judge sets Fingerprint and Damage by all the rules, in order, of a table whose
// base chains are right.
func (s *State) judge(all []found) {
	if len(all) == 0 {
		s.Damage = "its rules are gone"
		return
	}
	first, last := all[0].tag, all[len(all)-1].tag
	for i, f := range all {
		switch {
		case f.tag.fingerprint == "":
			s.Damage = fmt.Sprintf("chain %s has a rule that is not ours", f.chain)
		case f.tag.fingerprint != first.fingerprint:
			s.Damage = "it holds rules of two configurations"
		case f.tag.index != i+1:
			s.Damage = fmt.Sprintf("rule %d of %d is missing", i+1, f.tag.of)
		default:
			continue
		}
		return
	}
	if last.index != last.of {
		s.Damage = fmt.Sprintf("rule %d of %d is missing", last.index+1, last.of)
		return
	}
	s.Fingerprint = first.fingerprint
}
