package dscpmark

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestConfigRefused(t *testing.T) {
	good := func() Config {
		return Config{Interfaces: []string{"eth1"}, Classes: []Class{{Name: "bulk", DSCP: 1, Match: Match{Ports: []uint16{443}}}}}
	}
	if _, err := good().filled(); err != nil {
		t.Fatal(err)
	}
	prefix := netip.MustParsePrefix
	for want, change := range map[string]func(*Config){
		`table "a b"`:                  func(c *Config) { c.Table = "a b" },
		"side by side":                 func(c *Config) { c.Mask = 0xf0f },
		"room for 1 classes":           func(c *Config) { c.Mask = 1 << 31; c.Classes = append(c.Classes, Class{}) },
		"no uplink":                    func(c *Config) { c.Interfaces = nil },
		`interface ""`:                 func(c *Config) { c.Interfaces = []string{""} },
		`interface "$(touch pwned)"`:   func(c *Config) { c.Interfaces = []string{"$(touch pwned)"} },
		`interface "a/b"`:              func(c *Config) { c.Interfaces = []string{"a/b"} },
		`interface "eth*"`:             func(c *Config) { c.Interfaces = []string{"eth*"} },
		`interface "sixteen-letters-"`: func(c *Config) { c.Interfaces = []string{"sixteen-letters-"} },
		"no class":                     func(c *Config) { c.Classes = nil },
		`class "-"`:                    func(c *Config) { c.Classes[0].Name = "-" },
		`class "a\"b"`:                 func(c *Config) { c.Classes[0].Name = `a"b` },
		"two of that name":             func(c *Config) { c.Classes = append(c.Classes, c.Classes[0]) },
		"dscp 64":                      func(c *Config) { c.Classes[0].DSCP = 64 },
		"matches nothing":              func(c *Config) { c.Classes[0].Match = Match{} },
		"port 0":                       func(c *Config) { c.Classes[0].Match.Ports = []uint16{0} },
		"no packet is both": func(c *Config) {
			c.Classes[0].Match = Match{User: new(uint32(1)), Hosts: []netip.Prefix{prefix("10.0.0.0/8")}}
		},
		"host invalid":             func(c *Config) { c.Classes[0].Match.Hosts = []netip.Prefix{{}} },
		"host ::ffff:10.0.0.1/128": func(c *Config) { c.Classes[0].Match.Hosts = []netip.Prefix{prefix("::ffff:10.0.0.1/128")} },
		`cgroup "a/../b"`:          func(c *Config) { c.Classes[0].Match.CGroup = "a/../b" },
		`cgroup "a//b"`:            func(c *Config) { c.Classes[0].Match.CGroup = "a//b" },
		"odd characters":           func(c *Config) { c.Classes[0].Match.CGroup = "a\"\n" },
	} {
		c := good()
		change(&c)
		if _, err := c.filled(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

// TestMarks holds that classes that stay keep their value, that no two share one,
// and that no new one gets a value that was another's as long as there is room.
func TestMarksOfClasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 8).Draw(t, "width")
		mask := (uint32(1)<<width - 1) << rapid.IntRange(0, 32-width).Draw(t, "shift")
		step := mask & -mask
		room := int(mask / step)
		named := func(label string) (out []Class) {
			for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-h]`), 0, min(room, 8), rapid.ID[string]).Draw(t, label) {
				out = append(out, Class{Name: name})
			}
			return out
		}
		before, after := named("before"), named("after")
		old, stale := map[string]uint32{}, map[uint32]bool{}
		for i, v := range marks(before, mask, nil) {
			old[before[i].Name], stale[v] = v, true
		}
		fresh := 0
		for _, c := range after {
			if _, ok := old[c.Name]; !ok {
				fresh++
			}
		}
		seen := map[uint32]bool{}
		for i, v := range marks(after, mask, old) {
			if v == 0 || v&^mask != 0 || seen[v] {
				t.Fatalf("%s has %#x of mask %#x, taken: %v", after[i].Name, v, mask, seen)
			}
			seen[v] = true
			if was, ok := old[after[i].Name]; ok && was != v {
				t.Fatalf("%s had %#x and has %#x", after[i].Name, was, v)
			} else if !ok && stale[v] && fresh <= room-len(before) {
				t.Fatalf("%s, which is new, has %#x of %v", after[i].Name, v, old)
			}
		}
		// Values of another mask are of no use.
		for _, v := range marks(after, mask, map[string]uint32{"a": ^mask, "b": 0, "c": step, "d": step}) {
			if v == 0 || v&^mask != 0 {
				t.Fatalf("%#x of mask %#x", v, mask)
			}
		}
	})
}
