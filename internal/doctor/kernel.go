package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// files judges a limit of open files: a worker may have connections to several
// paths, and some that rest.
func files(limit uint64, workers int) Finding {
	need := uint64(4*workers + 64)
	if limit < need {
		return warning("open files", fmt.Sprintf("ulimit -n %d, or LimitNOFILE=%d in the unit", need, need), "%d allowed, %d may be needed", limit, need)
	}
	return ok("open files", "%d allowed", limit)
}

// Congestion judges whether the kernel has the algorithm that a path asks for.
// proc is /proc.
func Congestion(proc fs.FS, algorithm string) Finding {
	const what = "congestion"
	text, err := fs.ReadFile(proc, "sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return warning(what, "run it on Linux, with /proc mounted", "whether there is %s cannot be told: %v", algorithm, err)
	}
	has := strings.Fields(string(text))
	if !slices.Contains(has, algorithm) {
		return failed(what, "modprobe tcp_"+algorithm+", or leave paths.*.congestion out", "this kernel has no %s; it has %s", algorithm, strings.Join(has, ", "))
	}
	return ok(what, "the kernel has %s", algorithm)
}

// Shaping is what came of asking the kernel of this machine for what shaping needs, in
// the way that shaping does.
type Shaping struct {
	Denied  error    // why this process may change nothing, and ask for nothing; nil: it may
	Missing []string // what the kernel has not and cannot load: cake, htb, fq_codel, ingress, ifb
	NoMarks error    // why the kernel marks no packets; nil: it can
	// Contained: this process is in a container, which has to be given rights.
	Contained bool
}

// Edge judges the rights and the parts of the kernel that shaping and failover on
// a gateway need. root is /; binds tells that a path has an interface of its own.
func Edge(root fs.FS, s Shaping, binds bool) []Finding {
	release, err := fs.ReadFile(root, "proc/sys/kernel/osrelease")
	if err != nil {
		return []Finding{warning("kernel", "run it on Linux, with /proc mounted", "its release cannot be told")}
	}
	return append(rights(root, s, binds), parts(root, s, strings.TrimSpace(string(release)))...)
}

func rights(root fs.FS, s Shaping, binds bool) (all []Finding) {
	const what = "capability"
	do := `run it as root, or: setcap cap_net_admin,cap_net_raw+ep "$(command -v trafficup)"`
	if s.Contained {
		do = "start the container with the network and the rights of the host: --network host --cap-add NET_ADMIN --cap-add NET_RAW; or run it outside"
	}
	if s.Denied != nil {
		all = append(all, failed(what, do, "CAP_NET_ADMIN is not in effect; needed to shape, mark and route: %v", s.Denied))
	} else {
		all = append(all, ok(what, "CAP_NET_ADMIN is in effect"))
	}
	if !binds {
		return all
	}
	const raw = 13 // its bit
	mask, err := strconv.ParseUint(field(root, "proc/self/status", "CapEff"), 16, 64)
	switch {
	case err != nil:
		return append(all, warning(what, "run it on Linux, with /proc mounted", "whether CAP_NET_RAW is in effect cannot be told"))
	case mask>>raw&1 == 0:
		return append(all, warning(what, do, "CAP_NET_RAW is not in effect; kernels before 5.7 want it for paths with an interface"))
	}
	return append(all, ok(what, "CAP_NET_RAW is in effect"))
}

// part is a part of the kernel, and how it stands.
type part struct {
	module, openwrt string
	state           string // how the kernel has it; "": it cannot be told
	without         string // what there is without it
}

func (p part) missing() bool { return p.state == "missing" }

// parts judges what the kernel has: by asking it, or where that takes rights by its
// files.
func parts(root fs.FS, s Shaping, release string) (all []Finding) {
	state := func(name string, kinds ...string) string {
		switch {
		case s.Denied != nil:
			return module(root, release, name)
		case slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(s.Missing, k) }):
			return "missing"
		}
		return "there"
	}
	cake := part{"sch_cake", "kmod-sched-cake", state("sch_cake", "cake"), "without it: kind fq_codel, which is htb with fq_codel below"}
	codel := part{"sch_fq_codel", "kmod-sched-core", state("sch_fq_codel", "fq_codel"), "without it only cake can shape"}
	htb := part{"sch_htb", "kmod-sched-core", state("sch_htb", "htb"), codel.without}
	if cake.missing() && (codel.missing() || htb.missing()) {
		const none = "with neither cake nor htb and fq_codel nothing can be shaped"
		cake.without, codel.without, htb.without = none, none, none
	}
	ifb := part{"ifb", "kmod-ifb", state("ifb", "ifb", "ingress"), "without it only what is sent can be shaped, not what arrives"}
	nft := part{"nf_tables", "kmod-nft-core", state("nf_tables"), "without it only the program's own connections are marked"}
	if s.Denied == nil && s.NoMarks != nil {
		nft.state = "missing"
		nft.without += ": " + s.NoMarks.Error()
	}
	for _, p := range []part{cake, codel, htb, ifb, nft} {
		all = append(all, p.judge(release, cake.state == "there"))
	}
	return all
}

// judge says of a part whether it is there. Where cake is, the others that shape may
// be missing.
func (p part) judge(release string, cake bool) Finding {
	const what = "kernel module"
	switch {
	case p.missing() && cake && strings.HasPrefix(p.module, "sch_"):
		return ok(what, "%s is missing; cake does without", p.module)
	case p.missing():
		packages := fmt.Sprintf("install linux-modules-extra-%s (Debian, Ubuntu), kernel-modules-extra (Fedora) or %s (OpenWrt); %s", release, p.openwrt, p.without)
		return warning(what, packages, "%s is missing", p.module)
	case p.state == "":
		return warning(what, "run it with CAP_NET_ADMIN, which lets it ask the kernel; "+p.without, "whether there is %s cannot be told by files alone", p.module)
	}
	return ok(what, "%s is %s", p.module, p.state)
}

// module is how the kernel has a part: loaded, built in, loadable or missing; ""
// where that cannot be told.
func module(root fs.FS, release, name string) string {
	if _, err := fs.Stat(root, "sys/module/"+name); err == nil {
		return "loaded"
	}
	dir := "lib/modules/" + release + "/"
	state := ""
	for _, list := range []struct{ file, state string }{{"modules.builtin", "built in"}, {"modules.dep", "loadable"}} {
		text, err := fs.ReadFile(root, dir+list.file)
		if err != nil {
			continue
		}
		state = "missing"
		for line := range strings.Lines(string(text)) {
			file, _, _ := strings.Cut(strings.TrimSpace(line), ":") // modules.dep goes on with what it needs
			base, _, _ := strings.Cut(path.Base(file), ".ko")
			if strings.ReplaceAll(base, "-", "_") == name {
				return list.state
			}
		}
	}
	return state
}
