package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// queue is a root, as tc tells.
type queue struct {
	Dev     string
	Kind    string
	Handle  string
	Root    bool
	Options map[string]any
	Packets uint64
	Bytes   uint64
}

// roots are those of all interfaces.
func (u *uplinkBench) roots() map[string]queue {
	u.t.Helper()
	var list []queue
	fatal(u.t, json.Unmarshal([]byte(u.sh("tc -s -j qdisc show")), &list))
	roots := map[string]queue{}
	for _, q := range list {
		if q.Root {
			roots[q.Dev] = q
		}
	}
	return roots
}

// has says in which options of cake, as tc names them, q differs from want and, where
// want says nothing, from those that are usual here.
func (q queue) has(want map[string]any) (wrong []string) {
	if q.Kind != "cake" || q.Handle != "7a50:" {
		return []string{q.Kind + " " + q.Handle}
	}
	usual := map[string]any{
		"bandwidth": 1125000.0, "diffserv": "diffserv4", "flowmode": "dual-srchost", "nat": true, "wash": false, "ingress": false, "ack-filter": "disabled",
		"split_gso": true, "rtt": 100000.0, "raw": true, "overhead": 0.0, "atm": nil, "mpu": nil, "fwmark": "0",
	}
	for option, value := range usual {
		if v, ok := want[option]; ok {
			value = v
		}
		if q.Options[option] != value {
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", option, q.Options[option], value))
		}
	}
	for option := range q.Options {
		if _, ok := usual[option]; !ok {
			wrong = append(wrong, "nobody asked for "+option)
		}
	}
	return wrong
}

// Each option that the configuration knows is set, each at an interface of its own:
// tc says so, and so does status. The same once more is nothing to do.
func TestNetshapeCakeOptions(t *testing.T) {
	needLab(t)
	u := newUplink(t)
	framed := map[string]any{"raw": false, "overhead": 38.0, "atm": "noatm", "mpu": 84.0}
	with := func(base map[string]any, options map[string]any) map[string]any {
		m := maps.Clone(base)
		maps.Copy(m, options)
		return m
	}
	overhead := func(n float64) map[string]any { return map[string]any{"raw": false, "overhead": n, "atm": "noatm"} }
	in := map[string]any{"diffserv": "besteffort", "flowmode": "dual-dsthost", "wash": true, "ingress": true}
	cases := []struct {
		options string         // of the configuration, besides name and up
		root    map[string]any // as tc names them
		in      map[string]any // of what comes in; nil: nothing is to be there
		text    string         // what status says of it
	}{
		{"", nil, nil, "cake bandwidth 9mbit diffserv4"},
		{"kind: cake", nil, nil, "diffserv4"},
		{"up: 87.3% of 10mbit", map[string]any{"bandwidth": 1091250.0}, nil, "8.73mbit"},
		{"up: 1.5gbit", map[string]any{"bandwidth": 187500000.0}, nil, "1.5gbit"},
		{"up: unlimited", map[string]any{"bandwidth": "unlimited"}, nil, "unlimited"},
		{"profile: leo", framed, nil, "overhead 38 mpu 84"},
		{"profile: geo", with(framed, map[string]any{"rtt": 1000000.0}), nil, "rtt 1s"},
		{"profile: lte", map[string]any{"rtt": 150000.0}, nil, "rtt 150ms"},
		{"diffserv: besteffort", map[string]any{"diffserv": "besteffort"}, nil, "besteffort"},
		{"diffserv: diffserv3", map[string]any{"diffserv": "diffserv3"}, nil, "diffserv3"},
		{"diffserv: diffserv4", nil, nil, "diffserv4"},
		{"diffserv: diffserv8", map[string]any{"diffserv": "diffserv8"}, nil, "diffserv8"},
		{"diffserv: precedence", map[string]any{"diffserv": "precedence"}, nil, "precedence"},
		{`ack_filter: "on"`, map[string]any{"ack-filter": "enabled"}, nil, " ack-filter"},
		{"ack_filter: aggressive", map[string]any{"ack-filter": "aggressive"}, nil, "ack-filter-aggressive"},
		{`ack_filter: "off"`, nil, nil, "no-ack-filter"},
		{"ack_filter: auto", nil, nil, "no-ack-filter"},
		{"rtt: 30ms", map[string]any{"rtt": 30000.0}, nil, "rtt 30ms"},
		{"rtt: 12345us", map[string]any{"rtt": 12345.0}, nil, "rtt 12.345ms"},
		{`overhead: "44"`, overhead(44), nil, "overhead 44"},
		{`overhead: "-4"`, overhead(-4), nil, "overhead -4"},
		{`overhead: "0"`, overhead(0), nil, "overhead 0"},
		{"down: 50mbit", nil, with(in, map[string]any{"bandwidth": 6250000.0}), "cake"},
		{"down: 100mbit, ack_filter: auto", map[string]any{"ack-filter": "enabled"}, with(in, map[string]any{"bandwidth": 12500000.0}), " ack-filter"},
		{
			`down: 20mbit, profile: geo, rtt: 700ms, overhead: "26", ack_filter: aggressive, diffserv: diffserv3`,
			with(overhead(26), map[string]any{"rtt": 700000.0, "ack-filter": "aggressive", "diffserv": "diffserv3"}),
			with(in, with(overhead(26), map[string]any{"bandwidth": 2500000.0, "rtt": 700000.0})), "rtt 700ms",
		},
	}
	var text, links strings.Builder
	for i, c := range cases {
		if !strings.HasPrefix(c.options, "up:") {
			c.options = strings.TrimSuffix("up: 9mbit, "+c.options, ", ")
		}
		fmt.Fprintf(&text, "    - {name: q%d, %s}\n", i, c.options)
		fmt.Fprintf(&links, "link add q%d type ifb\nlink set q%d up\n", i, i)
	}
	u.sh("ip -batch - <<.\n" + links.String() + ".")
	file := filepath.Join(t.TempDir(), "trafficup.yaml")
	fatal(t, os.WriteFile(file, []byte("netshape:\n  interfaces:\n"+text.String()), 0o600))
	before := u.stands()
	u.run("apply", "--config", file, "--confirm-within", "0").is(0, "28 to add")
	roots, status := u.roots(), u.status()
	for i, c := range cases {
		name := fmt.Sprint("q", i)
		if wrong := roots[name].has(c.root); wrong != nil {
			t.Errorf("%s: %v", c.options, wrong)
		}
		s := status[name]
		if !s.Ours || len(s.Drift) > 0 || !strings.Contains(s.Root.Text, c.text) || (s.Ingress != nil) != (c.in != nil) {
			t.Errorf("%s: want %q, %+v", c.options, c.text, s)
		}
		if c.in != nil {
			if wrong := roots["ifb4"+name].has(c.in); wrong != nil {
				t.Errorf("%s: in: %v", c.options, wrong)
			}
		}
	}
	u.run("apply", "--config", file, "--confirm-within", "0").is(0, "nothing to do")
	u.run("clear").is(0, "28 to remove")
	if after := u.stands(); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
}

// What stands is not touched while packets flow; another option goes on with the
// counters, another kind begins anew.
func TestNetshapeCakeAgain(t *testing.T) {
	needLab(t)
	u := newUplink(t)
	const few = 50 // packets, that the kernel may send itself
	now := []string{"apply", "--confirm-within", "0", "--iface", "up0", "--kind", "cake", "--up", "1mbit"}
	u.run(now...).is(0, "done")
	stop := u.upload()
	news := u.news()
	first := u.roots()["up0"]
	u.run(now...).is(0, "nothing to do")
	u.run(now...).is(0, "nothing to do")
	stop()
	if n := news(); n > 0 {
		t.Errorf("the kernel told of %d changes", n)
	}
	last := u.roots()["up0"]
	if last.Handle != first.Handle || last.Packets < first.Packets+few {
		t.Errorf("%+v, then %+v", first, last)
	}
	u.run(plus(now, "--profile", "geo", "--diffserv", "diffserv3", "--up", "2mbit")...).is(0, "in place, counters stay: ")
	if n := news(); n == 0 {
		t.Error("a change is not told: nothing was shown")
	}
	if q := u.roots()["up0"]; q.Handle != first.Handle || q.Packets < last.Packets || q.Bytes < last.Bytes || q.Options["diffserv"] != "diffserv3" {
		t.Errorf("%+v, before %+v", q, last)
	}
	u.run("apply", "--confirm-within", "0", "--iface", "up0", "--kind", "fq_codel", "--up", "9mbit").is(0, "recreated: kind cake becomes htb")
	if q := u.roots()["up0"]; q.Kind != "htb" || q.Handle != "7a51:" || q.Packets >= few || strings.Count(u.sh("tc qdisc show dev up0"), "qdisc fq_codel") != 3 {
		t.Errorf("%+v\n%s", q, u.stands())
	}
	u.run(now...).is(0, "recreated: kind htb becomes cake")
	if q := u.roots()["up0"]; q.has(map[string]any{"bandwidth": 125000.0}) != nil || q.Packets >= few {
		t.Errorf("%+v", q)
	}
}

// news returns how many changes of up0's queues, classes and filters the kernel told
// of since then or the last call.
func (u *uplinkBench) news() (count func() int) {
	u.t.Helper()
	link, err := netlink.LinkByName("up0")
	fatal(u.t, err)
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_TC)
	fatal(u.t, err)
	u.t.Cleanup(s.Close)
	fatal(u.t, s.SetReceiveTimeout(&unix.Timeval{Usec: 200_000}))
	return func() (n int) {
		for {
			list, _, err := s.Receive()
			if errors.Is(err, unix.EAGAIN) {
				return n
			}
			fatal(u.t, err)
			for _, m := range list {
				if nl.NativeEndian().Uint32(m.Data[4:]) == uint32(link.Attrs().Index) {
					n++
				}
			}
		}
	}
}

// A rate that drowns the target is taken back by an apply that lives, and by the
// process that outlives one that was killed.
func TestNetshapeCakeTargets(t *testing.T) {
	needLab(t)
	newUplink(t).targets("cake", "cake")
}

func TestNetshapeCakeKilled(t *testing.T) {
	needLab(t)
	newUplink(t).killed("cake")
}
