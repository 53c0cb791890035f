package doctor

import (
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"trafficup/internal/dscpmark"
	"trafficup/internal/probe"
	"trafficup/internal/route"
)

// station has two uplinks that are well, and targets beyond them.
func station() Failover {
	l := route.Default()
	l.Uplinks = []route.Uplink{{Name: "leo", Interface: "wan0"}, {Name: "lte", Interface: "wan1"}}
	f := Failover{Layout: l, Metered: []bool{false, true}, Cuts: true}
	for _, icmp := range []string{"9.9.9.9", "8.8.8.8"} {
		t, err := probe.ParseTarget(probe.TargetSpec{ICMP: icmp})
		if err != nil {
			panic(err)
		}
		f.Targets = append(f.Targets, t)
	}
	f.Kernel.Links = []route.Link{{Name: "lo", Index: 1, Up: true, Carrier: true}}
	for n, name := range []string{"wan0", "wan1"} {
		net := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n), 0}), 24)
		f.Kernel.Links = append(f.Kernel.Links, route.Link{Name: name, Index: n + 2, Up: true, Carrier: true})
		f.Kernel.Addrs = append(f.Kernel.Addrs, route.Addr{Index: n + 2, Prefix: netip.PrefixFrom(net.Addr().Next().Next(), 24), Global: true})
		f.Kernel.Routes = append(f.Kernel.Routes,
			route.Route{Table: 254, Dst: net, Type: 1, Interface: name, Index: n + 2, Protocol: 2},
			route.Route{Table: 254, Dst: netip.MustParsePrefix("0.0.0.0/0"), Type: 1, Interface: name, Index: n + 2, Gateway: net.Addr().Next(), Metric: uint32(100 * (n + 1)), Protocol: 16})
	}
	return f
}

// healthy are the files of a machine that has nobody but us.
var healthy = map[string]string{
	"proc/self/status":                           "Gid:\t0\t0\t0\t0\nGroups:\t0\nCapEff:\t0000000000003000\n",
	"proc/sys/net/ipv4/ping_group_range":         "1\t0\n",
	"proc/sys/net/ipv4/conf/all/rp_filter":       "1\n",
	"proc/sys/net/ipv4/conf/wan0/rp_filter":      "0\n",
	"proc/sys/net/ipv4/conf/wan1/rp_filter":      "2\n",
	"run/systemd/netif/links/9":                  "",
	"usr/share/iproute2/rt_protos":               "# names\n16\tdhcp\n219\ttrafficup\n",
	"usr/share/iproute2/rt_tables":               "254\tmain\n",
	"etc/network/interfaces":                     "auto lo\niface lo inet loopback\n",
	"etc/systemd/networkd.conf":                  "[Network]\n#ManageForeignRoutes=yes\n",
	"usr/lib/systemd/network/80-x.network":       "[Match]\nName=x\n",
	"usr/lib/NetworkManager/conf.d/20-conn.conf": "[connectivity]\nuri=http://example.com/\n",
}

func machineWith(change map[string]string) fs.FS {
	m := maps.Clone(healthy)
	maps.Copy(m, change)
	return tree(m)
}

func TestFailoverOfAHealthyMachine(t *testing.T) {
	expect(t, station().Look(machineWith(nil)),
		"ok uplink leo: wan0: 10.0.0.2 by 10.0.0.1", "ok uplink lte: wan1: 10.0.1.2 by 10.0.1.1",
		"ok routes: nobody else uses rules 20998 to 21010, tables 8710 to 8712 or protocol 219",
		"ok rp_filter: strict on wan0: passes", "ok ping: CAP_NET_RAW", "ok marks: nobody else is seen to use bits 0x300", "ok connections: can be cut")
}

// bad is one thing that is wrong, and what has to be said of it and done about it.
type bad struct {
	change func(*Failover)
	files  map[string]string
	want   string // result, what: text
	do     string
}

func check(t *testing.T, cases map[string]bad) {
	t.Helper()
	for name, c := range cases {
		f := station()
		if c.change != nil {
			c.change(&f)
		}
		var found []Finding
		for _, one := range f.Look(machineWith(c.files)) {
			if one.Result != OK && one.Do == "" {
				t.Errorf("%s: nothing to do about %+v", name, one)
			}
			if one.Result != OK || strings.HasPrefix(c.want, "ok ") {
				found = append(found, one)
			}
		}
		result, text, _ := strings.Cut(c.want, ": ")
		if c.want == "" && len(found) == 0 {
			continue
		}
		if !slices.ContainsFunc(found, func(f Finding) bool {
			return string(f.Result)+" "+f.What == result && strings.Contains(f.Message, text) && strings.Contains(f.Do, c.do)
		}) || c.want == "" {
			t.Errorf("%s: found %+v\nwant %s\n%s", name, found, c.want, c.do)
		}
	}
}

// drop1 has no default by the second uplink.
func drop1(f *Failover) { f.Kernel.Routes = slices.Delete(f.Kernel.Routes, 3, 4) }

func TestFailoverUplinks(t *testing.T) {
	check(t, map[string]bad{
		"missing":    {func(f *Failover) { f.Kernel.Links = f.Kernel.Links[:2] }, nil, "warning uplink lte: wan1: no such interface", "there are wan0"},
		"all gone":   {func(f *Failover) { f.Kernel.Links = f.Kernel.Links[:1] }, nil, "failed uplink leo: no such interface", "plug it in"},
		"down":       {func(f *Failover) { f.Kernel.Links[1].Up = false }, nil, "warning uplink leo: wan0: interface is down", "ip link set wan0 up"},
		"no carrier": {func(f *Failover) { f.Kernel.Links[1].Carrier = false }, nil, "warning uplink leo: no carrier", "cable"},
		"no address": {func(f *Failover) { f.Kernel.Addrs = f.Kernel.Addrs[:1] }, map[string]string{"run/systemd/netif/links/3": "NETWORK_FILE=/etc/systemd/network/w.network\n"}, "warning uplink lte: no address", "networkctl renew wan1"},
		"no gateway": {drop1, nil, "warning uplink lte: no gateway: main holds no default by it", "write gateway: ADDRESS to lte in failover.uplinks"},
		"no gateway beside metric 0": {func(f *Failover) { drop1(f); f.Kernel.Routes[1].Metric = 0 }, map[string]string{"etc/network/interfaces.d/wan": "iface wan1 inet dhcp\n"},
			"warning uplink lte: no gateway", `/a\    metric 200' /etc/network/interfaces.d/wan && ifdown wan1 && ifup wan1`},
		"gateway off the link": {func(f *Failover) { drop1(f); f.Layout.Uplinks[1].Gateway4 = netip.MustParseAddr("10.7.0.1") }, nil,
			"warning routes: gateway 10.7.0.1 of lte is not in what wan1 is connected to (10.0.1.0/24): failover goes on without lte", "ip route replace default via 10.7.0.1 dev wan1 onlink"},
		"of a VRF": {func(f *Failover) {
			f.Kernel.Links[1].Master = "red"
			f.Kernel.Links = append(f.Kernel.Links, route.Link{Name: "red", Index: 9, VRF: true})
		}, nil, "warning uplink leo: part of a VRF red", "ip link set wan0 nomaster"},
		"same subnet": {func(f *Failover) { f.Kernel.Routes[2].Dst = f.Kernel.Routes[0].Dst }, nil,
			"warning routes: leo (wan0) and lte (wan1) are connected to the same addresses: 10.0.0.0/24 and 10.0.0.0/24: failover goes on without lte", "another subnet on its LAN side, such as 192.168.77.0/24"},
		"target is the gateway":  {func(f *Failover) { f.Targets[0].Addr = netip.MustParseAddrPort("10.0.1.1:0") }, nil, "warning targets: icmp 10.0.1.1 is the gateway of lte", "beyond the provider"},
		"target on the link":     {func(f *Failover) { f.Targets[0].Addr = netip.MustParseAddrPort("10.0.1.7:0") }, nil, "warning targets: icmp 10.0.1.7 is in the subnet of lte itself", "beyond the provider"},
		"a kernel without rules": {func(f *Failover) { f.Kernel.NoRules = true }, nil, "failed routes: CONFIG_IP_MULTIPLE_TABLES", "write failover.simple: true"},
		"rule among ours":        {func(f *Failover) { f.Kernel.Rules = []route.Rule{{Priority: 21001, Table: 50, Protocol: 3}} }, nil, "failed routes: rule of somebody else's among ours", "ip rule add pref 20992 lookup 50 protocol 3 && ip rule del pref 21001"},
		"route in our table":     {func(f *Failover) { f.Kernel.Routes[0].Table = 8711 }, nil, "failed routes: table 8711 holds a route of somebody else's", "ip route del 10.0.0.0/24 dev wan0 table 8711"},
		"rule that is passed by": {func(f *Failover) { f.Kernel.Rules = []route.Rule{{Priority: 32764, Table: 51820, Protocol: 3}} }, nil, "warning routes: behind ours", "a priority below 20993"},
		"protocol of another":    {nil, map[string]string{"etc/iproute2/rt_protos.d/other.conf": "219 other\n"}, "warning numbers: /etc/iproute2/rt_protos.d/other.conf calls protocol 219 other", "ip route show table all proto 219"},
		"table of another":       {nil, map[string]string{"etc/iproute2/rt_tables": "8712 dsl # second\n"}, "warning numbers: /etc/iproute2/rt_tables calls table 8712 dsl", "ip rule show table 8712"},
		"no flows are cut":       {func(f *Failover) { f.NoCuts = errors.New("no such subsystem") }, nil, "warning connections: cannot be cut: no such subsystem", "modprobe nf_conntrack_netlink"},
		"flows may not be cut":   {func(f *Failover) { f.NoCuts = fs.ErrPermission }, nil, "warning connections: cannot be cut", "run it with CAP_NET_ADMIN"},
		"no flows are to be cut": {func(f *Failover) { f.NoCuts, f.Cuts = errors.New("EPERM"), false }, nil, "", ""},
		"flowtable": {func(f *Failover) {
			f.Offloads = []dscpmark.Offload{{Where: "table inet fw, flowtable f", Devices: []string{"lan0", "wan1"}}}
		}, nil, "warning connections: table inet fw, flowtable f sends packets of lan0, wan1 past routes", "flow add"},
		"flowtable of the others": {func(f *Failover) { f.Offloads = []dscpmark.Offload{{Devices: []string{"lan0"}}} }, nil, "", ""},
		"flowtable of OpenWrt":    {nil, map[string]string{"etc/config/firewall": "config defaults\n\toption flow_offloading '1'\n"}, "warning connections: flow_offloading", "uci set firewall.@defaults[0].flow_offloading=0"},
	})
}

func TestFailoverMetrics(t *testing.T) {
	zero := func(f *Failover) { f.Kernel.Routes[1].Metric = 0 }
	const says = "warning metric: the default by wan0 has metric 0"
	check(t, map[string]bad{
		"nobody knows who":   {zero, nil, says, "ip route add default via 10.0.0.1 dev wan0 metric 100 && ip route del default via 10.0.0.1 dev wan0 metric 0"},
		"NetworkManager":     {zero, map[string]string{"run/NetworkManager/devices/2": "[device]\nmanaged=true\nconnection-uuid=5fb0-1\n"}, says, "nmcli connection modify 5fb0-1 ipv4.route-metric 100 ipv6.route-metric 100 && nmcli connection up 5fb0-1"},
		"not its own":        {zero, map[string]string{"run/NetworkManager/devices/2": "[device]\nmanaged=false\n"}, says, "ip route add default"},
		"networkd":           {zero, map[string]string{"etc/systemd/network/10-wan.network": "[Match]\nName=wan0\n[Network]\nDHCP=ipv4\n", "run/systemd/netif/links/2": "NETWORK_FILE=/etc/systemd/network/10-wan.network\n"}, says, `install -d /etc/systemd/network/10-wan.network.d && printf '[DHCPv4]\nRouteMetric=100\n' >/etc/systemd/network/10-wan.network.d/90-trafficup.conf && networkctl reload && networkctl reconfigure wan0`},
		"netplan":            {zero, map[string]string{"etc/netplan/01.yaml": "network:\n  ethernets:\n    wan0:\n      dhcp4: true\n", "run/systemd/netif/links/2": "NETWORK_FILE=/run/systemd/network/10-netplan-wan0.network\n"}, says, "netplan set ethernets.wan0.dhcp4-overrides.route-metric=100 && netplan apply"},
		"netplan, with tags": {zero, map[string]string{"etc/netplan/01.yaml": "network:\n  ethernets:\n    eth0: {}\n  vlans:\n    wan0: {id: 7, link: eth0, dhcp4: true}\n"}, says, "where it is set up"},
		"netplan, static":    {zero, map[string]string{"etc/netplan/01.yaml": "network:\n  ethernets:\n    wan0:\n      routes: [{to: default, via: 10.0.0.1}]\n"}, says, "where it is set up"},
		"networkd, static":   {zero, map[string]string{"etc/systemd/network/10-wan.network": "[Network]\nGateway=10.0.0.1\n", "run/systemd/netif/links/2": "NETWORK_FILE=/etc/systemd/network/10-wan.network\n"}, says, "where it is set up"},
		"dhcpcd":             {zero, map[string]string{"run/dhcpcd/pid": "7"}, says, `printf 'interface wan0\nmetric 100\n' >>/etc/dhcpcd.conf && dhcpcd -n wan0`},
		"simple, above":      {func(f *Failover) { f.Layout.Simple = true; f.Kernel.Routes[1].Metric = 5 }, nil, "failed metric: the default by wan0 has metric 5 and comes before that of failover (5)", "metric 100"},
		"in another order":   {func(f *Failover) { f.Kernel.Routes[1].Metric = 600 }, nil, "warning metric: the default by wan1 (lte, metric 200) comes before that by wan0 (leo, metric 600): whenever failover does not run, wan1 carries", "metric 700"},
		"simple, in order":   {func(f *Failover) { f.Layout.Simple = true }, map[string]string{"proc/sys/net/ipv4/conf/all/rp_filter": "2"}, "", ""},
		"two of ifupdown":    {nil, map[string]string{"etc/network/interfaces": "iface wan0 inet dhcp\n\nauto wan1\niface wan1 inet static\n  address 10.0.1.2/24\n  gateway 10.0.1.1\n"}, "warning neighbour: ifupdown sets the default by wan1 with metric 0, and so those of wan0", `metric 200' /etc/network/interfaces && ifdown wan1`},
		"ifupdown, tabs":     {nil, map[string]string{"etc/network/interfaces": "iface\twan0\tinet\tdhcp\niface\twan1\tinet\tstatic\n\taddress\t10.0.1.2/24\n\tgateway\t10.0.1.1\n\n\tmetric\t200\n"}, "", ""},
		"ifupdown, local":    {nil, map[string]string{"etc/network/interfaces": "iface wan0 inet dhcp\niface wan1 inet static\n  address 10.0.1.2/24\n"}, "", ""},
		"ifupdown, metrics":  {nil, map[string]string{"etc/network/interfaces": "iface wan0 inet dhcp\n\nauto wan1\niface wan1 inet static\n  address 10.0.1.2/24\n  metric 200\n"}, "", ""},
	})
}

func TestFailoverSysctl(t *testing.T) {
	none := map[string]string{"proc/self/status": "Gid:\t0\t0\t0\t0\nGroups:\t4 27\nCapEff:\t0000000000001000\n"}
	with := func(span string) map[string]string {
		m := maps.Clone(none)
		m["proc/sys/net/ipv4/ping_group_range"] = span
		return m
	}
	const loose = `printf 'net/ipv4/conf/wan0/rp_filter = 2\n' >/etc/sysctl.d/90-trafficup-rp.conf && sysctl -p /etc/sysctl.d/90-trafficup-rp.conf`
	check(t, map[string]bad{
		"nobody may ping":   {nil, none, "failed ping: neither CAP_NET_RAW is in effect, nor one of the groups 4, 27, 0 in net.ipv4.ping_group_range (1 0)", `printf 'net.ipv4.ping_group_range = 0 2147483647\n' >/etc/sysctl.d/90-trafficup-ping.conf && sysctl -p /etc/sysctl.d/90-trafficup-ping.conf`},
		"a group may":       {nil, with("20\t30\n"), "ok ping: group 27 may", ""},
		"everybody may":     {nil, with("0\t2147483647\n"), "ok ping: group 4 may", ""},
		"others may":        {nil, with("28\t30\n"), "failed ping: (28 30)", "sysctl"},
		"nobody is pinged":  {func(f *Failover) { f.Targets = f.Targets[:0] }, none, "", ""},
		"strict and simple": {func(f *Failover) { f.Layout.Simple = true }, nil, "warning rp_filter: strict on wan0: without rules", loose},
		"a name with a dot": {func(f *Failover) { f.Layout.Simple = true; f.Layout.Uplinks[0].Interface = "e.1" }, nil, "warning rp_filter: strict on e.1", "net/ipv4/conf/e.1/rp_filter = 2"},
		"without its rule":  {func(f *Failover) { f.Kernel.Rules = []route.Rule{{Priority: 21010, Table: 8710, Protocol: 219}} }, nil, "warning rp_filter: strict on wan0, and the rule for its address is missing", "trafficup failover run"},
		"loose everywhere":  {nil, map[string]string{"proc/sys/net/ipv4/conf/all/rp_filter": "2\n"}, "ok rp_filter: not strict", ""},
		"strict by its own": {nil, map[string]string{"proc/sys/net/ipv4/conf/all/rp_filter": "0\n", "proc/sys/net/ipv4/conf/wan0/rp_filter": "1\n"}, "ok rp_filter: strict on wan0", ""},
		"with its rule": {func(f *Failover) {
			f.Kernel.Rules = []route.Rule{{Priority: 21003, From: netip.MustParsePrefix("10.0.0.2/32"), Table: 8711, Protocol: 219}}
		}, nil, "ok rp_filter: passes", ""},
		"off for all of them": {nil, map[string]string{"proc/sys/net/ipv4/conf/all/rp_filter": "0\n"}, "ok rp_filter: not strict", ""},
	})
}

func TestFailoverMarks(t *testing.T) {
	const tunnel = "[Interface]\nPrivateKey = x\n[Peer]\nAllowedIPs = 0.0.0.0/0, ::/0\n"
	touch := func(sets, clears uint32, local bool) func(*Failover) {
		return func(f *Failover) {
			f.Touches = []dscpmark.Touch{{Where: "table ip mangle, chain PREROUTING", Sets: sets, Clears: clears, Local: local}}
		}
	}
	check(t, map[string]bad{
		"a rule of another": {func(f *Failover) {
			f.Kernel.Rules = []route.Rule{{Priority: 1000, Mark: 0x100, Mask: 0x3f00, Table: 1, Protocol: 3}}
		}, nil, "warning routes: 0x100/0x3f00 lookup 1 protocol 3: no rule leads probes of leo to their table", "below failover: mask: 0xc000"},
		"wg-quick, a mark of its own": {nil, map[string]string{"etc/wireguard/wg0.conf": tunnel}, "", ""},
		"wg-quick, bits of ours":      {func(f *Failover) { f.Layout.Mask = 0x300 }, map[string]string{"etc/wireguard/wg0.conf": tunnel}, "warning marks: WireGuard (/etc/wireguard/wg0.conf) marks packets with 0xca6c, of which 0x200 are failover's: such packets leave by lte alone", "below failover: mask: 0x3000"},
		"a tunnel to some":            {nil, map[string]string{"etc/wireguard/wg0.conf": strings.ReplaceAll(tunnel, "0.0.0.0/0, ::/0", "10.9.0.0/16")}, "", ""},
		"a tunnel with its mark":      {nil, map[string]string{"etc/wireguard/wg0.conf": strings.Replace(tunnel, "[Peer]", "FwMark = 0x8000\n[Peer]", 1)}, "", ""},
		"a tunnel of networkd":        {nil, map[string]string{"etc/systemd/network/wg.netdev": "[WireGuard]\nFirewallMark=0x100\n"}, "warning marks: leave by leo alone", "mask: 0x600"},
		"mwan3":                       {nil, map[string]string{"etc/config/mwan3": "config globals 'globals'\n"}, "warning marks: mwan3 marks packets with bits 0x3f00", "mask: 0xc000"},
		"mwan3 elsewhere":             {nil, map[string]string{"etc/config/mwan3": "config globals 'globals'\n\toption mmx_mask '0x3F0000'\n"}, "", ""},
		"Cilium":                      {nil, map[string]string{"etc/cni/net.d/05-cilium.conflist": "{}"}, "warning marks: Cilium marks packets with bits 0xf00", "mask: 0x3000"},
		"others in other bits":        {nil, map[string]string{"etc/cni/net.d/10-calico.conflist": "{}", "var/lib/tailscale/tailscaled.state": "", "var/lib/kubelet/config.yaml": ""}, "", ""},
		"a chain":                     {touch(0x200, 0, false), nil, "warning marks: table ip mangle, chain PREROUTING marks packets with bits 0x200, of which 0x200 are failover's: such packets leave by lte alone", "mask: 0xc00"},
		"a chain that restores":       {touch(^uint32(0), 0, false), nil, "warning marks: gives packets any mark that was kept of a connection", "meta mark set ct mark & 0xff"},
		"a chain with one of two":     {touch(0x300, 0, false), nil, "warning marks: table ip mangle, chain PREROUTING marks packets with bits 0x300", ""},
		"a chain with another":        {touch(0x6000, 0, false), nil, "", ""},
		"a rule that takes all": {func(f *Failover) {
			f.Kernel.Rules = []route.Rule{{Priority: 20997, Not: true, Mark: 51820, Mask: 1<<32 - 1, Table: 51820, Protocol: 3}}
			f.Kernel.Routes = append(f.Kernel.Routes, route.Route{Table: 51820, Dst: netip.MustParsePrefix("0.0.0.0/0"), Type: 1, Interface: "wg0", Index: 9})
		}, nil, "warning routes: rule before ours takes the probes of leo, lte", "write Table = off to [Interface]"},
		"a chain elsewhere":  {touch(0x1, ^uint32(1), false), nil, "", ""},
		"a chain that takes": {touch(0x1, ^uint32(1), true), nil, "warning marks: takes bits 0x300 from the marks of what this machine sends", "mask:"},
		"it cannot be told":  {func(f *Failover) { f.NoMarks = errors.New("EPERM") }, nil, "warning marks: cannot be told: EPERM", "nft list ruleset"},
		"simple":             {func(f *Failover) { f.Layout.Simple = true; touch(0x200, 0, false)(f) }, map[string]string{"proc/sys/net/ipv4/conf/all/rp_filter": "0"}, "", ""},
	})
}

func TestFailoverManagers(t *testing.T) {
	const both = "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules = off\n"
	running := func(files ...string) map[string]string {
		m := map[string]string{"run/systemd/netif/state": "OPER_STATE=routable\n"}
		for n := 0; n < len(files); n += 2 {
			m[files[n]] = files[n+1]
		}
		return m
	}
	const fix = `printf '[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n' >/etc/systemd/networkd.conf.d/90-trafficup.conf && systemctl restart systemd-networkd`
	const takes = "warning neighbour: systemd-networkd takes away routes and rules"
	const metered = "[device]\nmanaged=true\nconnection-uuid=u\n"
	check(t, map[string]bad{
		"networkd":                  {nil, running(), takes, fix},
		"networkd, at the next":     {nil, map[string]string{"etc/systemd/system/multi-user.target.wants/systemd-networkd.service": ""}, takes, fix},
		"networkd with netplan":     {nil, running("etc/netplan/1.yaml", "network: {}\n"), "warning neighbour: as netplan apply has it do", fix},
		"networkd told":             {nil, running("etc/systemd/networkd.conf.d/a.conf", both), "ok neighbour: systemd-networkd leaves", ""},
		"networkd told in main":     {nil, running("etc/systemd/networkd.conf", both), "ok neighbour: systemd-networkd leaves", ""},
		"networkd told by package":  {nil, running("usr/lib/systemd/networkd.conf.d/a.conf", both), "ok neighbour: systemd-networkd leaves", ""},
		"told half":                 {nil, running("etc/systemd/networkd.conf.d/a.conf", "[Network]\nManageForeignRoutes=no\n"), "warning neighbour: not set to no: ManageForeignRoutingPolicyRules)", fix},
		"told in another section":   {nil, running("etc/systemd/networkd.conf.d/a.conf", strings.Replace(both, "Network", "DHCPv4", 1)), takes, fix},
		"told otherwise later":      {nil, running("etc/systemd/networkd.conf.d/a.conf", both, "run/systemd/networkd.conf.d/x.conf", "[Network]\nManageForeignRoutes=yes\n"), "warning neighbour: ManageForeignRoutes in /run/systemd/networkd.conf.d/x.conf", "/etc/systemd/networkd.conf.d/zz-trafficup.conf"},
		"hidden by a nearer one":    {nil, running("etc/systemd/networkd.conf.d/a.conf", "", "usr/lib/systemd/networkd.conf.d/a.conf", both), takes, fix},
		"the main one is not first": {nil, running("usr/lib/systemd/networkd.conf", both), takes, fix}, // that in /etc is
		"networkd does not run":     {nil, map[string]string{"run/systemd/netif/leases/x": ""}, "", ""},

		"NetworkManager asks":      {nil, map[string]string{"run/NetworkManager/x": ""}, "ok neighbour: adds 20000", ""},
		"it asks what is paid for": {nil, map[string]string{"run/NetworkManager/devices/3": metered}, "warning neighbour: asks by lte, which is paid for", `printf '[connectivity]\nenabled=false\n' >/etc/NetworkManager/conf.d/90-trafficup.conf && nmcli general reload`},
		"it asks what is not":      {nil, map[string]string{"run/NetworkManager/devices/2": metered}, "ok neighbour: adds 20000", ""},
		"it asks nobody":           {nil, map[string]string{"run/NetworkManager/devices/3": metered, "etc/NetworkManager/conf.d/90-trafficup.conf": "[connectivity]\nenabled=false\n"}, "ok neighbour: NetworkManager leaves", ""},
		"it is old":                {nil, map[string]string{"run/NetworkManager/x": "", "usr/lib/x86_64-linux-gnu/NetworkManager/1.30.6/a.so": ""}, "warning neighbour: NetworkManager 1.30.6 takes away", "1.36"},
		"it is new":                {nil, map[string]string{"run/NetworkManager/x": "", "usr/lib64/NetworkManager/1.44.2-1.fc39/a.so": ""}, "ok neighbour: adds 20000", ""},
		"dhcpcd":                   {nil, map[string]string{"run/dhcpcd.pid": "1"}, "ok neighbour: dhcpcd sets its own", ""},
	})
}

// What gives an interface of ifupdown a metric does so whatever stood there before, once
// however often, and to no other.
func TestStanzaIsSet(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("another sed")
	}
	const others = "# wan.1 has: metric 7\nauto lo\niface wan01 inet dhcp\n\tmetric 5\n"
	const rest = "allow-hotplug eth9\niface eth9 inet dhcp\n    metric 9\n"
	for name, c := range map[string][2]string{
		"none":      {"iface wan.1 inet dhcp\n", "iface wan.1 inet dhcp\n    metric 300\n"},
		"one":       {"  iface wan.1 inet static\n  address 10.0.1.2/24\n  metric 100\n\n  mtu 1400\n", "  iface wan.1 inet static\n    metric 300\n  address 10.0.1.2/24\n\n  mtu 1400\n"},
		"tabs":      {"iface\twan.1\tinet\tdhcp\n\tmetric\t100\n", "iface\twan.1\tinet\tdhcp\n    metric 300\n"},
		"and of v6": {"iface wan.1 inet dhcp\niface wan.1 inet6 auto\n  metric 1\n", "iface wan.1 inet dhcp\n    metric 300\niface wan.1 inet6 auto\n  metric 1\n"},
	} {
		file := filepath.Join(t.TempDir(), "interfaces")
		if err := os.WriteFile(file, []byte(others+c[0]+rest), 0o600); err != nil {
			t.Fatal(err)
		}
		command := setStanza(strings.TrimPrefix(file, "/"), "wan.1", 300)
		for range 2 {
			if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		if got, _ := os.ReadFile(file); string(got) != others+c[1]+rest {
			t.Errorf("%s: %s made it\n%s", name, command, got)
		}
	}
}
