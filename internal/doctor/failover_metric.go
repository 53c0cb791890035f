package doctor

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"trafficup/internal/route"
)

// metrics finds defaults in main that leave no room for ours, and an order of them
// that is not that of the uplinks: it decides when failover does not run.
func (f Failover) metrics(root fs.FS, filled route.Layout) (all []Finding) {
	const what = "metric"
	have := map[string]uint32{}
	for _, r := range f.defaults() {
		if r.Dst.Addr().Is6() {
			continue
		}
		if n, there := have[r.Interface]; !there || r.Metric < n {
			have[r.Interface] = r.Metric
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		place := uint32(100 * (1 + max(0, slices.IndexFunc(filled.Uplinks, func(u route.Uplink) bool { return u.Interface == name }))))
		switch n := have[name]; {
		case f.Layout.Simple && n <= f.Layout.Metric:
			all = append(all, failed(what, f.setMetric(root, name, place), "the default by %s has metric %d and comes before that of failover (%d): in simple mode nothing is switched", name, n, f.Layout.Metric))
			have[name] = place
		case n == 0:
			all = append(all, warning(what, f.setMetric(root, name, place), "the default by %s has metric 0: another uplink's default cannot be set beside it, and without failover it always decides", name))
			have[name] = place
		}
	}
	for i, better := range filled.Uplinks {
		for _, worse := range filled.Uplinks[i+1:] {
			first, has := have[better.Interface]
			second, also := have[worse.Interface]
			if has && also && second <= first {
				all = append(all, warning(what, f.setMetric(root, worse.Interface, first+100), "the default by %s (%s, metric %d) comes before that by %s (%s, metric %d): whenever failover does not run, %[1]s carries", worse.Interface, worse.Name, second, better.Interface, better.Name, first))
			}
		}
	}
	return all
}

// Who looks after an interface.
const (
	byNetplan  = "netplan"
	byManager  = "NetworkManager"
	byNetworkd = "systemd-networkd"
	byDhcpcd   = "dhcpcd"
	byIfupdown = "ifupdown"
)

// keeper tells who looks after an interface, and the file or profile that says how;
// "" where that cannot be told.
func (f Failover) keeper(root fs.FS, name string) (who, file string) {
	index := 0
	for _, l := range f.Kernel.Links {
		if l.Name == name {
			index = l.Index
		}
	}
	managed := sections(root, fmt.Sprintf("run/NetworkManager/devices/%d", index))
	link := sections(root, fmt.Sprintf("run/systemd/netif/links/%d", index))
	for _, n := range netplanFiles(root) {
		if strings.Contains(text(root, n), " "+name+":") {
			return byNetplan, n
		}
	}
	switch {
	case managed["device"]["managed"] == "true":
		return byManager, managed["device"]["connection-uuid"]
	case link[""]["NETWORK_FILE"] != "":
		return byNetworkd, link[""]["NETWORK_FILE"]
	}
	for _, n := range listed(root, "etc/network/interfaces", "etc/network/interfaces.d/*") {
		if stanza(text(root, n), name) != "" {
			return byIfupdown, n
		}
	}
	if dhcpcdRuns(root) {
		return byDhcpcd, "etc/dhcpcd.conf"
	}
	return "", ""
}

func dhcpcdRuns(root fs.FS) bool {
	return len(listed(root, "run/dhcpcd.pid", "run/dhcpcd/pid", "run/dhcpcd-*.pid", "run/dhcpcd/*.pid")) > 0
}

// setMetric is what gives the default by an interface a metric, for good.
func (f Failover) setMetric(root fs.FS, name string, metric uint32) string {
	switch who, file := f.keeper(root, name); {
	case who == byNetplan && netplanAsks(root, name) && !strings.Contains(name, "."): // which would be a place in its tree
		return fmt.Sprintf("netplan set ethernets.%s.dhcp4-overrides.route-metric=%d && netplan apply", name, metric)
	case who == byManager:
		if file == "" {
			file = `"$(nmcli -g GENERAL.CONNECTION device show ` + name + `)"`
		}
		return fmt.Sprintf("nmcli connection modify %s ipv4.route-metric %d ipv6.route-metric %d && nmcli connection up %[1]s", file, metric, metric)
	case who == byNetworkd && networkdAsks(root, file):
		dir := "/etc/systemd/network/" + path.Base(file) + ".d"
		return drop(dir+"/90-trafficup.conf", fmt.Sprintf(`[DHCPv4]\nRouteMetric=%d\n`, metric)) + " && networkctl reload && networkctl reconfigure " + name
	case who == byIfupdown:
		return fmt.Sprintf("%s && ifdown %s && ifup %[2]s", setStanza(file, name, metric), name)
	case who == byDhcpcd:
		return fmt.Sprintf(`printf 'interface %s\nmetric %d\n' >>/etc/dhcpcd.conf && dhcpcd -n %[1]s`, name, metric)
	}
	for _, r := range f.defaults() {
		if r.Interface == name && !r.Dst.Addr().Is6() {
			way := "default"
			if r.Gateway.IsValid() {
				way += " via " + r.Gateway.String()
			}
			return fmt.Sprintf("give it metric %d where it is set up; until the next start: ip route add %s dev %s metric %[1]d && ip route del %[2]s dev %[3]s metric %d", metric, way, name, r.Metric)
		}
	}
	return fmt.Sprintf("give the default by %s metric %d where it is set up", name, metric)
}

// renew has an interface ask for an address again.
func (f Failover) renew(root fs.FS, name string) string {
	who, file := f.keeper(root, name)
	switch who {
	case byNetplan:
		return "netplan apply"
	case byManager:
		if file != "" {
			return "nmcli connection up " + file
		}
		return "nmcli device connect " + name
	case byNetworkd:
		return "networkctl renew " + name
	case byIfupdown:
		return fmt.Sprintf("ifdown %s; ifup %[1]s", name)
	case byDhcpcd:
		return "dhcpcd -n " + name
	}
	return "see who sets it up: ip addr show " + name
}

// drop is a command that writes a file, and its directory.
func drop(file, text string) string {
	return fmt.Sprintf(`install -d %s && printf '%s' >%s`, path.Dir(file), text, file)
}
