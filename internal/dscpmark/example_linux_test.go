package dscpmark

import "net/netip"

// example has every kind of match but a cgroup, which not every machine has.
var example = Config{
	Interfaces: []string{"wan1", "wan0"},
	Classes: []Class{
		{Name: "bulk", DSCP: 1, Match: Match{User: new(uint32(12345)), Ports: []uint16{7443, 7080}}},
		{Name: "interactive", DSCP: 18, Match: Match{Ports: []uint16{7022}}},
		{Name: "desk", DSCP: 46, Match: Match{Hosts: []netip.Prefix{
			netip.MustParsePrefix("10.1.0.0/23"), netip.MustParsePrefix("fd01::2/128"), netip.MustParsePrefix("10.9.0.0/16"),
		}}},
		{Name: "own", DSCP: 8, Match: Match{User: new(uint32(12346))}},
	},
}
