package netshape

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"trafficup/internal/dscpmark"
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

		"matches nothing":   {Name: "control"},
		"no packet is both": {Name: "bulk", User: "0", Hosts: []string{"192.0.2.1"}},
		"want a name of up": {Name: "a b", DSCP: "1", Ports: []int{1}},
		"below the root":    {Name: "bulk", CGroup: "../x"},
		"or prefix of IPv4": {Name: "bulk", Hosts: []string{"::ffff:192.0.2.1"}},
	} {
		if _, err := ParseClass(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q in it", s, err, want)
		}
	}
}

// What only all classes together show is found without the kernel.
func TestCheckClasses(t *testing.T) {
	one := must(ParseClass(ClassSpec{Name: "bulk", Ports: []int{443}}))
	if err := errors.Join(CheckClasses(nil, 5), CheckClasses([]dscpmark.Class{one}, 0), CheckClasses([]dscpmark.Class{one}, 1)); err != nil {
		t.Error(err)
	}
	two := one
	two.Name = "more"
	for want, err := range map[string]error{
		"two of that name":   CheckClasses([]dscpmark.Class{one, one}, 0),
		"side by side":       CheckClasses([]dscpmark.Class{one}, 5),
		"room for 1 classes": CheckClasses([]dscpmark.Class{one, two}, 1),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}
