package dscpmark

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// rule is one rule to be.
type rule struct {
	chain string
	tag   tag
	parts []part
}

// base is one of the table's base chains, all of type filter and policy accept.
type base struct {
	name     string
	hook     *nftables.ChainHook
	hookName string
	priority nftables.ChainPriority
	prioName string
}

// bases are ours. Classes are found behind others' mangle chains, which may send
// a local packet out by another interface.
var bases = []base{
	{ChainOut, nftables.ChainHookOutput, "output", *nftables.ChainPriorityMangle + 1, "mangle + 1"},
	{ChainFwd, nftables.ChainHookForward, "forward", *nftables.ChainPriorityMangle + 1, "mangle + 1"},
	{ChainPost, nftables.ChainHookPostrouting, "postrouting", *nftables.ChainPriorityMangle, "mangle"},
}

// program is a filled configuration as rules.
type program struct {
	cfg         Config
	rules       []rule
	fingerprint string // of what the rules do, whatever the values of the ct mark
}

// compile turns a configuration into rules; old are the values of the ct mark
// that classes have now.
func compile(cfg Config, old map[string]uint32) (program, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return program{}, err
	}
	ids := make([]uint64, len(cfg.Classes))
	for i, cl := range cfg.Classes {
		if cl.Match.CGroup != "" {
			if ids[i], err = cgroupID(cl.Match.CGroup); err != nil {
				return program{}, fmt.Errorf("class %q: %w", cl.Name, err)
			}
		}
	}
	p := program{cfg: cfg, fingerprint: fingerprint(rulesOf(cfg, ids, marks(cfg.Classes, cfg.Mask, nil)))}
	p.rules = rulesOf(cfg, ids, marks(cfg.Classes, cfg.Mask, old))
	for i := range p.rules {
		t := &p.rules[i].tag
		t.index, t.of, t.fingerprint = i+1, len(p.rules), p.fingerprint
	}
	return p, nil
}

// rulesOf returns the rules, in order, with tags that name class and mark only.
func rulesOf(cfg Config, cgroups []uint64, marks []uint32) (out []rule) {
	add := func(chain, class string, mark uint32, parts ...part) {
		out = append(out, rule{chain, tag{class: class, mark: mark}, parts})
	}
	begin := func(chain string) { add(chain, "-", 0, elsewhere(cfg.Interfaces), stop()) }
	// classify adds a rule for each direction, as ports need it.
	classify := func(chain string, cl Class, mark uint32, who ...part) {
		then := []part{setCtMark(cfg.Mask, mark), count(), stop()}
		if len(cl.Match.Ports) == 0 {
			add(chain, cl.Name, mark, slices.Concat(who, then)...)
			return
		}
		add(chain, cl.Name, mark, slices.Concat(who, toPorts(cl.Match.Ports), then)...)
		add(chain, cl.Name, mark, slices.Concat(who, fromPorts(cl.Match.Ports), then)...)
	}
	// What is of no class loses the mark it had of an earlier table.
	rest := []part{setCtMark(cfg.Mask, 0), count()}

	begin(ChainOut)
	for i, cl := range cfg.Classes {
		var who []part
		if cl.Match.User != nil {
			who = append(who, skuid(*cl.Match.User))
		}
		if cl.Match.CGroup != "" {
			who = append(who, cgroup(cl.Match.CGroup, cgroups[i]))
		}
		if len(cl.Match.Hosts) == 0 {
			classify(ChainOut, cl, marks[i], who...)
		}
	}
	add(ChainOut, "-", 0, append([]part{hasSocket()}, rest...)...)

	begin(ChainFwd)
	for i, cl := range cfg.Classes {
		for _, host := range cl.Match.Hosts {
			classify(ChainFwd, cl, marks[i], source(host))
		}
		if !cl.Match.local() && len(cl.Match.Hosts) == 0 {
			classify(ChainFwd, cl, marks[i])
		}
	}
	add(ChainFwd, "-", 0, rest...)

	begin(ChainPost)
	for i, cl := range cfg.Classes {
		for _, family := range []byte{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6} {
			add(ChainPost, cl.Name, marks[i], hasCtMark(cfg.Mask, marks[i]), writeDSCP(family, cl.DSCP), count())
		}
	}
	return out
}

// fingerprint is over the bytecode, so that a table made by a version that did
// something else for the same configuration, or for a cgroup that was made anew,
// is not taken for the same.
func fingerprint(rules []rule) string {
	h := sha256.New()
	for _, b := range bases {
		fmt.Fprintln(h, b.name, *b.hook, b.priority)
	}
	for _, r := range rules {
		fmt.Fprintln(h, r.chain, r.tag.class)
		for _, p := range r.parts {
			for _, e := range p.exprs {
				code, err := expr.Marshal(unix.NFPROTO_INET, e)
				fmt.Fprintf(h, "%x %v\n", code, err)
			}
			if p.set != nil {
				fmt.Fprintf(h, "%x\n", p.set.keys)
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// Fingerprint returns what [Read] shows when the table is as [Apply] would make
// it. A class of a cgroup has another one when the cgroup was removed and made
// again. Errors are those of Apply that need no netlink.
func Fingerprint(cfg Config) (string, error) {
	p, err := compile(cfg, nil)
	return p.fingerprint, err
}

// Script returns what [Apply] does to a machine without the table, in the
// language of nft -f, for people.
func Script(cfg Config) (string, error) {
	p, err := compile(cfg, nil)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n", p.cfg.Table)
	for _, c := range bases {
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype filter hook %s priority %s; policy accept;\n", c.name, c.hookName, c.prioName)
		for _, r := range p.rules {
			if r.chain != c.name {
				continue
			}
			b.WriteString("\t\t")
			for _, s := range r.parts {
				b.WriteString(s.text + " ")
			}
			fmt.Fprintf(&b, "comment %q\n", r.tag)
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String(), nil
}

// cgroupID returns what the kernel knows a cgroup by.
func cgroupID(path string) (uint64, error) {
	root, err := cgroupRoot()
	if err != nil {
		return 0, err
	}
	// The inode would do where it has 64 bits; the handle always does.
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, filepath.Join(root, path), 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoCGroup
	}
	if err != nil {
		return 0, fmt.Errorf("cgroup %s: %w", path, err)
	}
	if len(h.Bytes()) != 8 {
		return 0, fmt.Errorf("cgroup %s: not of cgroup v2", path)
	}
	return binaryutil.NativeEndian.Uint64(h.Bytes()), nil
}

// cgroupRoot returns where cgroup v2 is mounted.
func cgroupRoot() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1], nil
		}
	}
	return "", fmt.Errorf("%w: cgroup v2 is not mounted", ErrNoCGroup)
}
