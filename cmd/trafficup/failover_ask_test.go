package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// An uplink is chosen for a week at most: for no time that can overflow.
func TestFailoverChoiceIsBounded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := writeConfig(t, "failover: {uplinks: [{name: leo, interface: wan0}, {name: lte, interface: wan1}], targets: [{icmp: 9.9.9.9}, {icmp: 8.8.8.8}]}\n")
	for length, want := range map[string]string{"168h": "no failover has run here", "168h1s": "want a time above 0 and of at most 7 days", "2562047h": "at most 7 days", "0s": "above 0"} {
		for _, ask := range [][]string{{"drill", "lte"}, {"switch", "lte", "--reason", "rain"}} {
			args := append([]string{"failover"}, append(ask, "--for", length, "--config", file, "--state-dir", t.TempDir())...)
			out, err := exec.Command(self, args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s for %s: %v, %s\nwant %s", ask[0], length, err, out, want)
			}
		}
	}
}
