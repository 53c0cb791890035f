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

// capabilities that shaping and probing need, by their bits.
var capabilities = []struct {
	bit       uint
	name, why string
}{
	{12, "CAP_NET_ADMIN", "shaping, routes and rules"},
	{13, "CAP_NET_RAW", "probes, and sockets bound to an interface"},
}

// Edge judges the rights and the parts of the kernel that shaping and failover on
// a gateway need. root is /.
func Edge(root fs.FS) []Finding {
	release, err := fs.ReadFile(root, "proc/sys/kernel/osrelease")
	if err != nil {
		return []Finding{warning("kernel", "run it on Linux, with /proc mounted", "its release cannot be told")}
	}
	return append(rights(root), modules(root, strings.TrimSpace(string(release)))...)
}

func rights(root fs.FS) (all []Finding) {
	const what = "capability"
	mask, err := strconv.ParseUint(field(root, "proc/self/status", "CapEff"), 16, 64)
	if err != nil {
		return []Finding{warning(what, "run it on Linux, with /proc mounted", "the rights of this process cannot be told")}
	}
	for _, c := range capabilities {
		if mask>>c.bit&1 == 0 {
			do := `run it as root, or: setcap cap_net_admin,cap_net_raw+ep "$(command -v trafficup)"`
			all = append(all, failed(what, do, "%s is not in effect; needed for %s", c.name, c.why))
			continue
		}
		all = append(all, ok(what, "%s is in effect", c.name))
	}
	return all
}

func modules(root fs.FS, release string) (all []Finding) {
	for _, m := range []struct{ name, openwrt, otherwise string }{
		{"sch_cake", "kmod-sched-cake", "without it: htb + fq_codel"},
		{"sch_fq_codel", "kmod-sched-core", "without it queues grow long under load"},
		{"sch_htb", "kmod-sched-core", "without it only cake can shape"},
		{"ifb", "kmod-ifb", "without it only what is sent can be shaped, not what arrives"},
		{"nf_tables", "kmod-nft-core", "without it packets are marked by iptables, or by the program's own sockets alone"},
	} {
		const what = "kernel module"
		packages := fmt.Sprintf("install linux-modules-extra-%s (Debian, Ubuntu), kernel-modules-extra (Fedora) or %s (OpenWrt); %s", release, m.openwrt, m.otherwise)
		switch state := module(root, release, m.name); state {
		case "missing":
			all = append(all, warning(what, packages, "%s is missing", m.name))
		case "":
			all = append(all, warning(what, "look on the host, where this is a container; "+m.otherwise, "%s is not loaded, and without /lib/modules/%s whether it can be is not known", m.name, release))
		default:
			all = append(all, ok(what, "%s is %s", m.name, state))
		}
	}
	return all
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
