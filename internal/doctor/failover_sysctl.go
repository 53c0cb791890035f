package doctor

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"trafficup/internal/probe"
	"trafficup/internal/route"
)

// strict is the value of rp_filter with which a packet is dropped unless an answer to
// it would leave by the interface that it came by.
const strict = 1

// reverse tells whether the filter of reverse paths lets answers in by an uplink that
// is not in use: the higher of two values counts, so a 2 of its own is loose even
// where all are strict.
func (f Failover) reverse(root fs.FS, filled route.Layout) []Finding {
	const what = "rp_filter"
	var names, bare []string
	for _, u := range filled.Uplinks {
		if max(number(root, "all/rp_filter"), number(root, u.Interface+"/rp_filter")) != strict {
			continue
		}
		names = append(names, u.Interface)
		if f.stands() && u.Source4.IsValid() && !slices.ContainsFunc(f.Kernel.Rules, func(r route.Rule) bool {
			return r.Protocol == f.Layout.Protocol && r.From.IsValid() && r.From.Addr() == u.Source4 && r.Table == u.Table
		}) {
			bare = append(bare, u.Interface)
		}
	}
	which := strings.Join(names, ", ")
	switch {
	case len(names) == 0:
		return []Finding{ok(what, "not strict")}
	case f.Layout.Simple:
		var lines string
		for _, n := range names {
			lines += fmt.Sprintf(`net/ipv4/conf/%s/rp_filter = 2\n`, n)
		}
		return []Finding{warning(what, sysctl("90-trafficup-rp.conf", lines), "strict on %s: without rules (failover.simple) what comes in by an uplink that is not in use is dropped", which)}
	case len(bare) > 0:
		return []Finding{warning(what, "have failover run: it puts the rules back within ten seconds: trafficup failover run",
			"strict on %s, and the rule for its address is missing: answers to probes are dropped, and it looks dead", strings.Join(bare, ", "))}
	}
	return []Finding{ok(what, "strict on %s: passes, as each address has a rule of its own with failover", which)}
}

// stands tells that failover has rules in the kernel.
func (f Failover) stands() bool {
	return slices.ContainsFunc(f.Kernel.Rules, func(r route.Rule) bool { return r.Protocol == f.Layout.Protocol })
}

func number(root fs.FS, name string) int {
	n, _ := strconv.Atoi(strings.TrimSpace(text(root, "proc/sys/net/ipv4/conf/"+name)))
	return n
}

// sysctl is a command that sets values for now and for later starts.
func sysctl(file, lines string) string {
	return fmt.Sprintf(`%s && sysctl -p /etc/sysctl.d/%s`, drop("/etc/sysctl.d/"+file, lines), file)
}

// ping tells whether targets can be pinged: by a group that may, or by a capability.
func (f Failover) ping(root fs.FS) []Finding {
	const what, raw = "ping", 13
	if !slices.ContainsFunc(f.Targets, func(t probe.Target) bool { return t.Kind == probe.ICMP }) {
		return nil
	}
	mask, err := strconv.ParseUint(field(root, "proc/self/status", "CapEff"), 16, 64)
	if err != nil {
		return []Finding{warning(what, "run it on Linux, with /proc mounted", "whether this process may ping cannot be told")}
	}
	if mask>>raw&1 == 1 {
		return []Finding{ok(what, "CAP_NET_RAW is in effect")}
	}
	var low, high, group int
	span := strings.Join(strings.Fields(text(root, "proc/sys/net/ipv4/ping_group_range")), " ")
	_, err = fmt.Sscan(span, &low, &high)
	groups := strings.Fields(field(root, "proc/self/status", "Groups"))
	if gids := strings.Fields(field(root, "proc/self/status", "Gid")); len(gids) > 1 {
		groups = append(groups, gids[1]) // the one in effect
	}
	for _, g := range groups {
		if _, e := fmt.Sscan(g, &group); e == nil && err == nil && low <= group && group <= high {
			return []Finding{ok(what, "group %d may, by net.ipv4.ping_group_range", group)}
		}
	}
	return []Finding{failed(what, sysctl("90-trafficup-ping.conf", `net.ipv4.ping_group_range = 0 2147483647\n`)+`; or: setcap cap_net_admin,cap_net_raw+ep "$(command -v trafficup)"`,
		"neither CAP_NET_RAW is in effect, nor one of the groups %s in net.ipv4.ping_group_range (%s): every target of kind icmp fails", strings.Join(groups, ", "), span)}
}
