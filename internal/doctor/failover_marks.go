package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"trafficup/internal/route"
)

// marked is a program that gives packets marks.
type marked struct {
	who  string
	bits uint32 // that it may set, of its mask
	mark uint32 // the one that it sets; 0: any of the bits
}

// hits returns the name of the uplink whose probes such packets would be taken for:
// they would be sent by it alone.
func (m marked) hits(l route.Layout) string {
	for _, u := range l.Uplinks {
		if m.mark != 0 && m.mark&l.Mask == u.Mark || m.mark == 0 && u.Mark&^m.bits == 0 {
			return u.Name
		}
	}
	return ""
}

// marks finds who else uses bits of packet marks that are ours.
func (f Failover) marks(root fs.FS, filled route.Layout) (all []Finding) {
	const what = "marks"
	if f.Layout.Simple {
		return nil
	}
	ours := uint32(0)
	for _, u := range filled.Uplinks {
		ours |= u.Mark
	}
	users := slices.Concat(wireguard(root), known(root))
	for _, t := range f.Touches {
		users = append(users, marked{who: t.Where, bits: t.Sets})
	}
	used := uint32(0)
	for _, u := range users {
		if u.bits != ^uint32(0) { // a mark that is restored may be anything; it says nothing of what is free
			used |= u.bits
		}
	}
	free := filled.OtherMask(f.Kernel, used)
	for _, u := range users {
		name := u.hits(filled)
		switch {
		case name != "" && u.bits == ^uint32(0):
			all = append(all, warning(what, "it does no harm where no connection has one: conntrack -L | grep -v mark=0; else have it restore its own bits alone, such as: meta mark set ct mark & 0xff",
				"%s gives packets any mark that was kept of a connection: with bits %#x they leave by one uplink alone", u.who, ours))
		case name != "":
			all = append(all, warning(what, free, "%s marks packets with %s, of which %#x are failover's: such packets leave by %s alone", u.who, u.marks(), u.bits&ours, name))
		}
	}
	for _, t := range f.Touches {
		if t.Local && t.Clears&ours != 0 {
			all = append(all, warning(what, free, "%s takes bits %#x from the marks of what this machine sends: probes of an uplink leave by another one", t.Where, t.Clears&ours))
		}
	}
	if f.NoMarks != nil {
		all = append(all, warning(what, "run it with CAP_NET_ADMIN; or look yourself: nft list ruleset; iptables-save -t mangle", "who else marks packets cannot be told: %v", f.NoMarks))
	}
	if len(all) == 0 {
		all = append(all, ok(what, "nobody else is seen to use bits %#x", ours))
	}
	return all
}

func (m marked) marks() string {
	if m.mark != 0 {
		return fmt.Sprintf("%#x", m.mark)
	}
	return fmt.Sprintf("bits %#x", m.bits)
}

// wireguard finds the marks of tunnels. One that leads everything into itself has a
// mark that nobody wrote, wg-quick's own.
func wireguard(root fs.FS) (all []marked) {
	const own = 51820
	for _, n := range listed(root, "etc/wireguard/*.conf", "etc/systemd/network/*.netdev", "run/systemd/network/*.netdev") {
		s := sections(root, n)
		word := s["Interface"]["FwMark"]
		if word == "" {
			word = s["WireGuard"]["FirewallMark"]
		}
		mark, err := strconv.ParseUint(word, 0, 32)
		if everything := s["Peer"]["AllowedIPs"]; word == "" && s["Interface"]["Table"] == "" && (strings.Contains(everything, "0.0.0.0/0") || strings.Contains(everything, "::/0")) {
			mark, err = own, nil
		}
		if err == nil && mark != 0 {
			all = append(all, marked{"WireGuard (/" + n + ")", uint32(mark), uint32(mark)})
		}
	}
	return all
}

// known are programs of which it is known what bits they use.
func known(root fs.FS) (all []marked) {
	for _, p := range []struct {
		who   string
		bits  uint32
		where []string
	}{
		{"mwan3", 0x3f00, []string{"etc/config/mwan3"}},
		{"kube-proxy", 0xc000, []string{"var/lib/kube-proxy/*", "var/lib/kubelet/config.yaml", "etc/rancher/k3s/k3s.yaml"}},
		{"Cilium", 0x0f00, []string{"etc/cni/net.d/*cilium*"}},
		{"Calico", 0xffff0000, []string{"etc/cni/net.d/*calico*"}},
		{"Tailscale", 0xff0000, []string{"var/lib/tailscale/tailscaled.state"}},
	} {
		if !there(root, p.where...) {
			continue
		}
		if p.who == "mwan3" {
			if m, err := strconv.ParseUint(option(root, p.where[0], "mmx_mask"), 0, 32); err == nil {
				p.bits = uint32(m)
			}
		}
		all = append(all, marked{who: p.who, bits: p.bits})
	}
	return all
}

// option is a value of a file of OpenWrt's.
func option(root fs.FS, file, name string) string {
	for line := range strings.Lines(text(root, file)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "option" && words[1] == name {
			return strings.Trim(words[2], `'"`)
		}
	}
	return ""
}

// numbers finds other names for the numbers that are ours.
func (f Failover) numbers(root fs.FS) (all []Finding) {
	for _, kind := range []struct {
		file, what string
		ours       func(n int) bool
	}{
		{"rt_protos", "protocol", func(n int) bool { return n == int(f.Layout.Protocol) }},
		{"rt_tables", "table", func(n int) bool { return n >= f.Layout.ActiveTable && n < f.Layout.FirstTable+route.MaxUplinks }},
	} {
		for _, file := range listed(root, "etc/iproute2/"+kind.file, "etc/iproute2/"+kind.file+".d/*.conf", "usr/share/iproute2/"+kind.file, "usr/lib/iproute2/"+kind.file) {
			for line := range strings.Lines(text(root, file)) {
				words := strings.Fields(line)
				if len(words) < 2 || words[1] == "trafficup" {
					continue
				}
				if n, err := strconv.ParseInt(words[0], 0, 32); err == nil && kind.ours(int(n)) {
					show := fmt.Sprintf("ip route show table all proto %d; ip rule show protocol %[1]d", n)
					if kind.what == "table" {
						show = fmt.Sprintf("ip route show table %d; ip rule show table %[1]d", n)
					}
					all = append(all, warning("numbers", "see whether it is in use, and give it another number there: "+show, "/%s calls %s %d %s: failover takes what has that number for its own", file, kind.what, n, words[1]))
				}
			}
		}
	}
	return all
}

// flows tells whether connections can be cut after a switch, and who keeps them from
// noticing one.
func (f Failover) flows(root fs.FS) (all []Finding) {
	const what = "connections"
	switch {
	case !f.Cuts:
	case f.NoCuts != nil:
		do := "modprobe nf_conntrack_netlink (OpenWrt: apk add kmod-nf-conntrack-netlink); or write flush_failover: -1s"
		if errors.Is(f.NoCuts, fs.ErrPermission) {
			do = "run it with CAP_NET_ADMIN; or write flush_failover: -1s"
		}
		all = append(all, warning(what, do, "those by an uplink that was left cannot be cut: %v", f.NoCuts))
	default:
		all = append(all, ok(what, "can be cut after a switch"))
	}
	for _, o := range f.Offloads {
		if slices.ContainsFunc(f.Layout.Uplinks, func(u route.Uplink) bool { return slices.Contains(o.Devices, u.Interface) }) {
			all = append(all, warning(what, "take the rule with flow add, and the flowtable, out of the file that sets it up", "%s sends packets of %s past routes and marks: what is forwarded may stay with an uplink that was left", o.Where, strings.Join(o.Devices, ", ")))
		}
	}
	if option(root, "etc/config/firewall", "flow_offloading") == "1" {
		all = append(all, warning(what, "uci set firewall.@defaults[0].flow_offloading=0; uci commit firewall; /etc/init.d/firewall restart", "the firewall sends packets past routes and marks (flow_offloading): what is forwarded may stay with an uplink that was left"))
	}
	return all
}
