package doctor

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const neighbour = "neighbour"

// networkd finds out whether systemd-networkd is here, and would take our routes and
// rules away. That its directory below /run is there says nothing.
func (f Failover) networkd(root fs.FS) []Finding {
	if !there(root, "run/systemd/netif/state", "etc/systemd/system/*/systemd-networkd.service", "etc/systemd/system/dbus-org.freedesktop.network1.service") {
		return nil
	}
	dirs := []string{"etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd", "lib/systemd"}
	values, from := map[string]string{}, map[string]string{}
	for _, file := range layered(root, dirs, "networkd.conf", "networkd.conf.d") {
		for key, value := range sections(root, file)["Network"] {
			values[key], from[key] = value, file
		}
	}
	var takes []string
	name := "90-trafficup.conf"
	for _, key := range []string{"ManageForeignRoutes", "ManageForeignRoutingPolicyRules"} {
		if no(values[key]) {
			continue
		}
		by := ""
		if from[key] != "" {
			by = " in /" + from[key]
		}
		if path.Base(path.Dir(from[key])) == "networkd.conf.d" && path.Base(from[key]) >= name {
			name = "zz-trafficup.conf" // the last one counts
		}
		takes = append(takes, key+by)
	}
	if len(takes) == 0 {
		return []Finding{ok(neighbour, "systemd-networkd leaves routes and rules of others alone")}
	}
	when := "starts"
	if len(netplanFiles(root)) > 0 {
		when = "starts, as netplan apply has it do,"
	}
	return []Finding{warning(neighbour,
		drop("/etc/systemd/networkd.conf.d/"+name, `[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n`)+" && systemctl restart systemd-networkd",
		"systemd-networkd takes away routes and rules that are not its own when it %s: until failover has put them back the order of main decides (not set to no: %s)", when, strings.Join(takes, ", "))}
}

// networkManager tells what NetworkManager does to uplinks, and to what is ours.
func (f Failover) networkManager(root fs.FS) (all []Finding) {
	if !there(root, "run/NetworkManager") {
		return nil
	}
	if v, old := oldManager(root); old {
		all = append(all, warning(neighbour, "update it to 1.36 or later; until then failover puts back within ten seconds what it takes",
			"NetworkManager %s takes away routes of others by the interfaces it looks after", v))
	}
	asks := false
	dirs := []string{"etc/NetworkManager", "run/NetworkManager", "usr/lib/NetworkManager"}
	for _, file := range layered(root, dirs, "NetworkManager.conf", "conf.d") {
		s := sections(root, file)["connectivity"]
		if _, set := s["uri"]; set {
			asks = s["uri"] != ""
		}
		if s["enabled"] != "" {
			asks = asks && !no(s["enabled"])
		}
	}
	var metered []string
	for i, u := range f.Layout.Uplinks {
		if who, _ := f.keeper(root, u.Interface); who == byManager && f.Metered[i] {
			metered = append(metered, u.Name)
		}
	}
	const harmless = "NetworkManager adds 20000 to the metric of a default by which its own check does not get through"
	switch {
	case asks && len(metered) > 0:
		all = append(all, warning(neighbour, drop("/etc/NetworkManager/conf.d/90-trafficup.conf", `[connectivity]\nenabled=false\n`)+" && nmcli general reload",
			"%s, and asks by %s, which is paid for, every five minutes", harmless, strings.Join(metered, ", ")))
	case asks:
		all = append(all, ok(neighbour, "%s: rules of failover come first", harmless))
	default:
		all = append(all, ok(neighbour, "NetworkManager leaves routes of others alone"))
	}
	return all
}

// oldManager tells a version below 1.36 by the directory of its plug-ins.
func oldManager(root fs.FS) (version string, old bool) {
	for _, dir := range listed(root, "usr/lib/NetworkManager/[0-9]*", "usr/lib64/NetworkManager/[0-9]*", "usr/lib/*/NetworkManager/[0-9]*") {
		version = path.Base(dir)
		parts := strings.FieldsFunc(version, func(r rune) bool { return r == '.' || r == '-' })
		if len(parts) < 2 {
			continue
		}
		major, err := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err == nil && err2 == nil {
			return version, major < 1 || major == 1 && minor < 36
		}
	}
	return "", false
}

// others are those who bring defaults of their own, and have no quarrel with ours.
func (f Failover) others(root fs.FS) (all []Finding) {
	var open []string // uplinks by ifupdown whose default gets metric 0
	for _, u := range f.Layout.Uplinks {
		if who, file := f.keeper(root, u.Interface); who == byIfupdown && noMetric(stanza(text(root, file), u.Interface)) {
			open = append(open, u.Interface)
		}
	}
	for i, name := range open {
		if len(open) > 1 {
			all = append(all, warning(neighbour, f.setMetric(root, name, uint32(100*(i+1))),
				"ifupdown sets the default by %s with metric 0, and so those of %s: only the first one that comes up gets one", name, strings.Join(slices.Delete(slices.Clone(open), i, i+1), ", ")))
		}
	}
	if dhcpcdRuns(root) {
		all = append(all, ok(neighbour, "dhcpcd sets its own routes and metrics again when they are changed: failover changes none of them"))
	}
	return all
}
