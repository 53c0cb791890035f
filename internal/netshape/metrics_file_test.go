package netshape

import (
	"slices"
	"strings"
	"testing"
)

// All that was set up is told of, whoever asks, and nothing else that lies in the
// state directory.
func TestMetricsOfMachine(t *testing.T) {
	b := newBox(t, "eth1", "wwan0", "lan0")
	b.apply(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}})
	other := cakeAt("5mbit")
	other.Name = "wwan0"
	b.apply(t, Desired{Interfaces: []Interface{other}})
	b.k.remove("wwan0")
	if names := must(b.Shaped()); !slices.Equal(names, []string{"eth1", "wwan0"}) {
		t.Errorf("shaped are %q", names)
	}
	one, two := string(must(b.Metrics("eth1"))), string(must(b.Metrics("wwan0")))
	if one != two || strings.Contains(one, "lan0") || !strings.Contains(one, `interface_present{interface="wwan0"} 0`) {
		t.Errorf("%s\n---\n%s", one, two)
	}
	if text := string(must(b.Metrics("lan0"))); !strings.Contains(text, `shaped{interface="lan0"} 0`) {
		t.Error(text)
	}
	b.Boot = "boot2"
	if names := must(b.Shaped()); len(names) > 0 {
		t.Errorf("shaped in another boot: %q", names)
	}
}
