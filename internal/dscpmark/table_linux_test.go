package dscpmark

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/nstest"
)

// foreign is what others may have, with counters that stand still in the lab.
const foreign = `nft -f - <<'E'
table inet fw {
	set good { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 }; }
	chain in { type filter hook input priority 0; policy accept; ip saddr @good tcp dport 9 counter accept; }
}
table ip nat { chain post { type nat hook postrouting priority 100; oifname "ppp9" masquerade; }
}
E`

func TestDeleteLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, foreign)
	before := nstest.Shell(t, l.edge, "nft -a list ruleset")
	other := example
	other.Classes = slices.Clone(example.Classes[:2])
	apply(t, l.edge, example)
	apply(t, l.edge, other)
	if during := nstest.Shell(t, l.edge, "nft -a list ruleset"); !strings.HasPrefix(during, before) || during == before {
		t.Errorf("with the table:\n%s\nbefore:\n%s", during, before)
	}
	for range 2 { // the second time there is none
		nstest.Inside(t, l.edge, func() (any, error) { return nil, Delete("") })
	}
	if after := nstest.Shell(t, l.edge, "nft -a list ruleset"); after != before {
		t.Errorf("after:\n%s\nbefore:\n%s", after, before)
	}
	if s := readIn(t, l.edge); s.Present || s.Damage != "" || len(s.Rules) > 0 {
		t.Errorf("read %+v", s)
	}
}

func TestApplyAgainDoesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	echo(t, l.isp, 7022)
	apply(t, l.edge, example)
	// Handles are given out anew with each transaction that makes a rule.
	handles := nstest.Shell(t, l.edge, "nft -a -s list ruleset")
	shuffled := example
	shuffled.Interfaces = []string{"wan0", "wan1", "wan0"}
	shuffled.Mask, shuffled.Table = 0xff, "trafficup"
	was := readIn(t, l.edge).Rules
	for i := range 100 {
		if i%25 == 0 {
			nstest.Inside(t, l.edge, func() (any, error) { return nil, talk("udp", "10.2.0.2:7022", 0) })
		}
		apply(t, l.edge, []Config{example, shuffled}[i%2])
		is := readIn(t, l.edge).Rules
		for j := range is {
			if is[j].Packets < was[j].Packets || is[j].Bytes < was[j].Bytes {
				t.Fatalf("a counter went back: %+v, then %+v", was[j], is[j])
			}
		}
		was = is
	}
	if got := nstest.Shell(t, l.edge, "nft -a -s list ruleset"); got != handles {
		t.Errorf("the table was made anew:\n%s\nbefore:\n%s", got, handles)
	}
	if was[2].Packets != 12 {
		t.Errorf("counted %+v, want 12 packets", was[2])
	}
}

func TestCheckChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, foreign)
	before := nstest.Shell(t, l.edge, "nft -a list ruleset")
	check := func(cfg Config) error {
		_, err := nstest.TryInside(l.edge, func() (any, error) { return nil, Check(cfg) })
		return err
	}
	if err := check(example); err != nil {
		t.Error(err)
	}
	if after := nstest.Shell(t, l.edge, "nft -a list ruleset"); after != before {
		t.Errorf("after:\n%s\nbefore:\n%s", after, before)
	}
	apply(t, l.edge, example)
	echo(t, l.isp, 7022)
	nstest.Inside(t, l.edge, func() (any, error) { return nil, talk("udp", "10.2.0.2:7022", 0) })
	before = nstest.Shell(t, l.edge, "nft -a list ruleset")
	other := example
	other.Classes = other.Classes[:1]
	if err := check(other); err != nil {
		t.Error(err)
	}
	if after := nstest.Shell(t, l.edge, "nft -a list ruleset"); after != before {
		t.Errorf("with a table, after:\n%s\nbefore:\n%s", after, before)
	}
	other.Classes = nil
	if err := check(other); err == nil {
		t.Error("a configuration without classes was found good")
	}
}

func TestDriftIsSeenAndRepaired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	want, err := Fingerprint(example)
	if err != nil {
		t.Fatal(err)
	}
	handle := regexp.MustCompile(`# handle (\d+)`)
	ruleHandle := func(text string) string {
		for line := range strings.Lines(nstest.Shell(t, l.edge, "nft -a list table inet trafficup")) {
			if strings.Contains(line, text) {
				return handle.FindStringSubmatch(line)[1]
			}
		}
		t.Fatalf("no rule has %q", text)
		return ""
	}
	for _, c := range []struct{ name, do, damage string }{
		{"nothing", "true", ""},
		{"ruleset flushed", "nft flush ruleset", "absent"},
		{"table flushed", "nft flush table inet trafficup", "its rules are gone"},
		{"rule deleted", "nft delete rule inet trafficup classify_out handle RULE", "rule 4 of 23 is missing"},
		{"last rule deleted", "nft delete rule inet trafficup mark_post handle LAST", "rule 23 of 23 is missing"},
		{"chain flushed", "nft flush chain inet trafficup mark_post", "rule 15 of 23 is missing"},
		{"chain deleted", "nft flush chain inet trafficup mark_post; nft delete chain inet trafficup mark_post", "chain mark_post is missing"},
		{"rule added", "nft add rule inet trafficup classify_out accept", "chain classify_out has a rule that is not ours"},
		{"rule replaced", "nft replace rule inet trafficup classify_out handle RULE accept", "chain classify_out has a rule that is not ours"},
		{"rule of another", `nft add rule inet trafficup mark_post accept comment '"own 0x4 24/24 0000000000000000"'`, "it holds rules of two configurations"},
		{"chain added", "nft add chain inet trafficup more", "chain more is not ours"},
		{"policy", "nft 'add chain inet trafficup classify_fwd { policy drop; }'", "chain classify_fwd has another type, hook, priority or policy"},
		{"dormant", "nft 'add table inet trafficup { flags dormant; }'", "it is dormant or has an owner"},
	} {
		t.Run(c.name, func(t *testing.T) {
			apply(t, l.edge, example)
			nstest.Shell(t, l.edge, strings.NewReplacer("RULE", ruleHandle("interactive 0x2 4/23"), "LAST", ruleHandle("own 0x4 23/23")).Replace(c.do))
			got := readIn(t, l.edge)
			if c.damage == "absent" {
				if got.Present || got.Fingerprint != "" {
					t.Errorf("read %+v", got)
				}
			} else if got.Damage != c.damage || got.Present != true || (got.Fingerprint == want) != (c.damage == "") {
				t.Errorf("damage %q, fingerprint %q; want %q", got.Damage, got.Fingerprint, c.damage)
			}
			apply(t, l.edge, example)
			if got := readIn(t, l.edge); got.Fingerprint != want || got.Damage != "" {
				t.Errorf("repaired: %+v", got)
			}
		})
	}
}

// TestForeignTableOfOurName holds that whatever bears the name is replaced whole.
func TestForeignTableOfOurName(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, `nft 'table inet trafficup { chain classify_out { type filter hook input priority 7; policy drop; tcp dport 22 accept; }
		set s { type ipv4_addr; }
		}'`)
	apply(t, l.edge, example)
	if s := nstest.Shell(t, l.edge, "nft list ruleset"); strings.Contains(s, "drop") || strings.Contains(s, "set s") {
		t.Error(s)
	}
}

// TestSwapUnderTraffic swaps two configurations while packets pass, and wants
// every one of them marked as one or the other says, and no connection harmed.
func TestSwapUnderTraffic(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := newTap(t, l.isp, "wan0")
	echo(t, l.isp, 7022)
	// The second has another DSCP, another order, one class less and one more.
	first, second := example, example
	second.Classes = []Class{
		{Name: "new", DSCP: 40, Match: Match{Ports: []uint16{7999}}},
		example.Classes[2],
		{Name: "interactive", DSCP: 34, Match: Match{Ports: []uint16{7022, 7023}}},
	}
	second.Classes[1].DSCP = 10
	apply(t, l.edge, first)
	stop := make(chan struct{})
	var talkers sync.WaitGroup
	for _, from := range []string{l.edge, l.lan} {
		for _, network := range []string{"tcp4", "tcp6", "udp4", "udp6"} {
			to := map[byte]string{'4': "10.2.0.2:7022", '6': "[fd02::2]:7022"}[network[3]]
			c := nstest.Inside(t, from, func() (net.Conn, error) { return dial(network, to, 0) })
			talkers.Go(func() {
				defer func() { _ = c.Close() }()
				if n, err := chatter(c, stop); err != nil {
					t.Errorf("%s from %s broke after %d messages: %v", network, c.LocalAddr(), n, err)
				}
			})
		}
	}
	swaps := nstest.Inside(t, l.edge, func() (n int, err error) {
		defer close(stop)
		for ; err == nil && n < 40; n++ {
			err = Apply([]Config{second, first}[n%2])
			time.Sleep(2 * time.Millisecond)
		}
		return n, err
	})
	talkers.Wait()
	seen, bad := map[uint8]int{}, 0
	for done := false; !done; {
		select {
		case pkt := <-p.packets:
			if !strings.Contains(pkt.flow, ":7022") {
				continue // neighbour discovery and the like
			}
			seen[pkt.dscp]++
			// A packet may be of the class of one, with the DSCP of the other.
			right := pkt.dscp == 18 || pkt.dscp == 34
			if strings.Contains(pkt.flow, "10.1.0.2 ") || strings.Contains(pkt.flow, "fd01::2 ") {
				right = right || pkt.dscp == 46 || pkt.dscp == 10
			}
			if !right || !pkt.goodSum {
				if bad++; bad < 5 {
					t.Errorf("%+v", pkt)
				}
			}
		case <-time.After(100 * time.Millisecond):
			done = true
		}
	}
	if n := p.dropped(t); n > 0 {
		t.Errorf("the tap lost %d packets", n)
	}
	if seen[18] == 0 || seen[34] == 0 || seen[10] == 0 {
		t.Error("the swaps were not seen")
	}
	t.Logf("%d swaps, packets by dscp: %v, wrong: %d", swaps, seen, bad)
}

// chatter sends messages, each when the last was answered, until stop. One of
// UDP that is lost is an error like any other.
func chatter(c net.Conn, stop chan struct{}) (n int, err error) {
	buf := make([]byte, 2048)
	for {
		select {
		case <-stop:
			return n, nil
		default:
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err = c.Write(buf[:1000]); err == nil {
			_, err = c.Read(buf)
		}
		if err != nil {
			return n, err
		}
		n++
	}
}

func TestUnprivileged(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, foreign)
	before := nstest.Shell(t, l.edge, "nft -a list ruleset")
	for name, attr := range map[string]*syscall.SysProcAttr{
		"nobody":                        {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
		"root of another namespace":     {Cloneflags: syscall.CLONE_NEWUSER, UidMappings: []syscall.SysProcIDMap{{HostID: 0, Size: 1}}},
		"nobody, with other privileges": {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: []uintptr{13}},
	} {
		if got, want := helper(t, l.edge, attr, "try"), strings.Repeat("permission\n", 5); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if after := nstest.Shell(t, l.edge, "nft -a list ruleset"); after != before {
		t.Errorf("after:\n%s\nbefore:\n%s", after, before)
	}
}

func TestManyRules(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cfg := Config{Interfaces: []string{"wan0"}, Mask: 0xffff0000}
	for i := range 200 {
		cl := Class{Name: fmt.Sprintf("c%d", i), DSCP: uint8(i % 64)}
		for j := range 5 {
			cl.Match.Hosts = append(cl.Match.Hosts, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j), 0}), 24+j%2))
		}
		cfg.Classes = append(cfg.Classes, cl)
	}
	apply(t, l.edge, cfg)
	apply(t, l.edge, example)
	apply(t, l.edge, cfg)
	if s := readIn(t, l.edge); len(s.Rules) != 1402 || s.Fingerprint == "" {
		t.Errorf("%d rules, %q", len(s.Rules), s.Damage)
	}
}

// TestMarksStay holds that a class keeps its value of the ct mark when others
// come before it, go, or when rules were lost.
func TestMarksStay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	apply(t, l.edge, example)
	other := example
	other.Classes = []Class{{Name: "new", DSCP: 40, Match: Match{Ports: []uint16{7999}}}, example.Classes[3], example.Classes[1]}
	nstest.Shell(t, l.edge, "nft flush chain inet trafficup classify_out")
	apply(t, l.edge, other)
	for _, r := range readIn(t, l.edge).Rules {
		if want := map[string]uint32{"": 0, "new": 5, "own": 4, "interactive": 2}[r.Class]; r.Mark != want {
			t.Errorf("%+v, want mark %d", r, want)
		}
	}
}
