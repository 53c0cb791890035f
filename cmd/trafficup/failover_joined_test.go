package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"trafficup/internal/config"
	"trafficup/internal/failover"
	routes "trafficup/internal/route"
)

// An uplink takes what is said of it, or else what netshape gives its interface.
func TestUplinkRates(t *testing.T) {
	c := Config{new(config.Loaded)}
	c.Failover.Uplinks = []config.FailoverUplink{{Name: "leo", Interface: "wan0", Up: "12mbit"}, {Name: "lte", Interface: "wan1"}, {Name: "geo", Interface: "wan2"}, {Name: "dsl", Interface: "wan3"}}
	c.Netshape.Interfaces = []config.ShapedInterface{{Name: "wan0", Up: "9mbit"}, {Name: "wan1", Up: "90% of 10mbit"}, {Name: "wan3", Up: "unlimited"}}
	var uplinks []routes.Uplink
	for _, u := range c.Failover.Uplinks {
		uplinks = append(uplinks, routes.Uplink{Name: u.Name, Interface: u.Interface})
	}
	if got, want := c.uplinkRates(uplinks), []uint64{12e6, 9e6, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Mistakes in what failover has to do with other sections are told by their keys.
func TestFailoverJoinedFaults(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"failover: {site: \"501\"}":                                                       "failover.site: needs to know where Redis is",
		"failover: {site: \"501\"}\nredis: {url: \"redis://r.example\"}":                  "failover.site: needs the name under which machines share: give redis.group",
		"failover: {site: \"5:1\"}\nredis: {url: \"redis://r.example\", group: stations}": `failover.site: "5:1": want letters, digits`,
		"failover: {uplinks: [{name: leo, interface: wan0, up: 9}]}":                      "failover.uplinks[0].up: rate \"9\" has no unit: write 9kbit or 9mbit",
	} {
		cmd := exec.Command(self, "config", "check", "--config", writeConfig(t, text+"\n"))
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || cmd.ProcessState.ExitCode() != exitUsage {
			t.Errorf("%s: %v, %s", text, err, out)
		}
	}
}

// Down is reached with any number of looks, also when good ones are among them.
func TestLooksThatAreRemembered(t *testing.T) {
	for _, preset := range []string{"leo", "geo", "lte", "strict"} {
		rules, err := failover.Preset(preset)
		if err != nil {
			t.Fatal(err)
		}
		for down := 1; down <= 60; down++ {
			if r := over(rules, config.Failover{Down: down}); r.BadOf > r.Of || r.Of > 64 || down == rules.Down && r != rules {
				t.Errorf("%s, down %d: %d bad ones of %d", preset, down, r.BadOf, r.Of)
			}
		}
	}
}
