package netshape

import (
	"strings"
	"testing"
	"testing/fstest"

	"trafficup/internal/dscpmark"
)

func TestCoexist(t *testing.T) {
	const sqmConfig = "\nconfig queue 'a'\n\toption interface 'wan'\n\toption enabled '1'\n\nconfig queue\n\toption enabled '0'\n\toption interface 'eth1'\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  []string // program, and what the text has in it
	}{
		"nobody":                  {},
		"networkd has cake":       {map[string]string{"etc/systemd/network/10-wan.network": "[Match]\nName=lan0 eth*\n[CAKE]\nBandwidth=9M\n"}, []string{"systemd-networkd: 10-wan.network gives it a queue of its own, [CAKE]"}},
		"of another":              {map[string]string{"etc/systemd/network/10-wan.network": "[Match]\nName=wan*\n[CAKE]\n"}, nil},
		"of all others":           {map[string]string{"etc/systemd/network/10-wan.network": "[Match]\nName=!eth1\n[CAKE]\n"}, nil},
		"of all but another":      {map[string]string{"etc/systemd/network/10-wan.network": "[Match]\nName=!wan*\n[CAKE]\n"}, []string{"systemd-networkd: [CAKE]"}},
		"by its hardware":         {map[string]string{"run/systemd/network/10-wan.network": "[Match]\nMACAddress=00:00:5e:00:53:01\n[FairQueueingControlledDelay]\n"}, []string{"systemd-networkd: [FairQueueingControlledDelay]"}},
		"in a drop-in":            {map[string]string{"run/systemd/network/10-wan.network": "[Match]\nName=eth1\n[Network]\nDHCP=yes\n", "usr/lib/systemd/network/10-wan.network.d/q.conf": "[TokenBucketFilter]\n"}, []string{"systemd-networkd: [TokenBucketFilter]"}},
		"networkd without queues": {map[string]string{"etc/systemd/network/10-wan.network": "[Match]\nName=eth1\n#[CAKE]\n[QDisc]\nParent=clsact\n"}, nil},

		"manager knows no ifb": {map[string]string{"run/NetworkManager/x": ""}, []string{"NetworkManager: ifb4eth1"}},
		"manager spares ifb":   {map[string]string{"run/NetworkManager/x": "", "etc/NetworkManager/conf.d/a.conf": "[keyfile]\nunmanaged-devices=mac:00:00:5e:00:53:01;interface-name:ifb4*\n"}, nil},
		"manager has queues":   {map[string]string{"run/NetworkManager/conf.d/a.conf": "[keyfile]\nunmanaged-devices=interface-name:ifb*\n", "etc/NetworkManager/system-connections/w.nmconnection": "[connection]\nid=w\ninterface-name=eth1\n\n[tc]\nqdisc.root=pfifo_fast\n"}, []string{"NetworkManager: w.nmconnection"}},
		"manager does not run": {map[string]string{"etc/NetworkManager/system-connections/w": "[connection]\ninterface-name=eth1\n[tc]\n"}, nil},

		"sqm of another, and off": {map[string]string{"etc/config/sqm": sqmConfig}, nil},
		"sqm on OpenWrt":          {map[string]string{"etc/config/sqm": strings.ReplaceAll(sqmConfig, "'0'", "'1'")}, []string{"sqm-scripts: ifb"}},
		"sqm elsewhere":           {map[string]string{"etc/sqm/eth1.iface.conf": ""}, []string{"sqm-scripts: ifb"}},

		"ruleset is flushed":     {map[string]string{"etc/nftables.conf": "#!/usr/sbin/nft -f\n\nflush ruleset\n"}, []string{"nftables: flush ruleset"}},
		"ruleset is not flushed": {map[string]string{"etc/nftables.conf": "# flush ruleset\nflush table inet filter\n"}, nil},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		one := must(Parse(Spec{Name: "eth1", Kind: KindCake, Up: "9mbit", Down: "50mbit"}))
		d := Desired{Interfaces: []Interface{one}, Classes: []dscpmark.Class{{Name: "bulk"}}}
		found := Coexist(root, d)
		if len(found) != len(c.want) {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		for i, n := range found {
			program, text, _ := strings.Cut(c.want[i], ": ")
			if n.Name != program || !strings.Contains(n.Text, text) || n.Do == "" {
				t.Errorf("%s: %+v", name, n)
			}
		}
		// Whoever sets up nothing is disturbed by nobody.
		d = Desired{Interfaces: []Interface{{Name: "eth1", Kind: None}}}
		if found := Coexist(root, d); len(found) > 0 {
			t.Errorf("%s, nothing wanted: %+v", name, found)
		}
	}
	if ifbName("eth1") != "ifb4eth1" {
		t.Error("sqm-scripts' name of an ifb is ours no more")
	}
}
