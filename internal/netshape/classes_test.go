package netshape

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseClass(t *testing.T) {
	c, err := ParseClass(ClassSpec{Name: "bulk", User: "root", Ports: []int{443}, Hosts: nil})
	if err != nil || c.DSCP != 1 || *c.Match.User != 0 || c.Match.Ports[0] != 443 {
		t.Error(c, err)
	}
	c, err = ParseClass(ClassSpec{Name: "interactive", Hosts: []string{"192.168.1.20", "2001:db8::/64"}})
	if err != nil || c.DSCP != 18 || fmt.Sprint(c.Match.Hosts) != "[192.168.1.20/32 2001:db8::/64]" {
		t.Error(c, err)
	}
	if c, err = ParseClass(ClassSpec{Name: "control", CGroup: "system.slice/x.service", User: "4711"}); err != nil || c.DSCP != 46 || *c.Match.User != 4711 {
		t.Error(c, err)
	}
	if c, err = ParseClass(ClassSpec{Name: "bulk", DSCP: "cs1", Ports: []int{1}}); err != nil || c.DSCP != 8 {
		t.Error(c, err)
	}
	for want, s := range map[string]ClassSpec{
		"has no dscp": {Name: "video"},
		"is no DSCP":  {Name: "bulk", DSCP: "64"},
		"user":        {Name: "bulk", User: "nobody of that name"},
		"port 65536":  {Name: "bulk", Ports: []int{65536}},
		"port 0":      {Name: "bulk", Ports: []int{0}},
		`host "lan"`:  {Name: "bulk", Hosts: []string{"lan"}},
	} {
		if _, err := ParseClass(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q in it", s, err, want)
		}
	}
}
