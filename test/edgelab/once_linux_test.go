package edgelab

import (
	"net"
	"strings"
	"testing"
	"time"
)

// A run that finds all as the one before left it changes nothing: connections by the
// uplink on standby go on, and a rule of somebody else's behind ours is warned of and
// is nothing that was done.
func TestOnceAfterOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.said = new(lines)
	b.in("edge", "ip rule add pref 32764 lookup 77")
	if _, said := b.once(); !strings.Contains(said, "switch: leo") || !strings.Contains(said, "routes: + ip") || strings.Contains(said, "routes: warning") {
		t.Errorf("it said\n%s", said)
	}
	// A flow that says nothing any more: one that is cut is not tracked anew.
	b.in("edge", "ip rule add pref 100 iif lan0 lookup 8712")
	fatal(t, b.within("lan", func() error {
		c, err := net.Dial("udp4", "9.9.9.9:7")
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = c.Write([]byte("?"))
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		return err
	}))
	if got := b.tracked("10.0.1.2"); len(got) != 1 {
		t.Fatalf("tracked are %v, want one of the uplink on standby", got)
	}
	time.Sleep(11 * time.Second) // else the one before may have been killed before it cut
	_, said := b.once()
	if strings.Contains(said, "routes: ") || strings.Contains(said, "switch: ") || !strings.Contains(said, "rule of somebody else's behind ours") {
		t.Errorf("the second said\n%s", said)
	}
	if got := b.tracked("10.0.1.2"); len(got) != 1 {
		t.Errorf("tracked are %v, want the same", got)
	}
}
