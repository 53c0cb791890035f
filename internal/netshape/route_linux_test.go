package netshape

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The way to somebody is what the route says, whoever has the source address; and a
// device on top of the interface may be a way by it.
func TestWays(t *testing.T) {
	namespace(t)
	for _, line := range []string{
		"ip link set lo up", "ip addr add 10.50.0.1/32 dev lo", "ip addr add 10.99.0.1/24 dev up0",
		"ip route add 10.60.0.0/24 via 10.99.0.2 src 10.50.0.1",
		"ip link add over0 type bridge", "ip addr add 10.70.0.1/24 dev over0", "ip link set over0 up",
	} {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			lacks(t, line, err, string(out))
		}
	}
	for _, tt := range []struct {
		addr, iface string
		elsewhere   bool
	}{
		{"10.99.0.2", "up0", false}, {"10.60.0.5", "up0", false}, {"10.70.0.5", "up0", false}, {"192.0.2.1", "up0", false}, // no way at all
		{"10.99.0.2", "far0", true}, {"10.60.0.5", "far0", true}, {"127.0.0.1", "up0", true}, {"10.99.0.1", "up0", true},
		{"::ffff:10.99.0.2", "far0", true}, {"::1", "up0", true},
	} {
		target := "[" + tt.addr + "]:443"
		if got := Elsewhere(t.Context(), []string{target}, []string{tt.iface}); slices.Contains(got, target) != tt.elsewhere {
			t.Errorf("%s by %s: elsewhere %v", tt.addr, tt.iface, got)
		}
		if got := SSHPeer(tt.addr+" 50022 10.99.0.1 22", []string{tt.iface}); (got == "") != tt.elsewhere {
			t.Errorf("%s by %s: operator %q", tt.addr, tt.iface, got)
		}
	}
	if got := Elsewhere(t.Context(), []string{"nonsense", "no-such-host.invalid:1"}, []string{"up0"}); got != nil {
		t.Error(got)
	}
}
