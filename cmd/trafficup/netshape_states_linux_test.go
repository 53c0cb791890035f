package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// From each state that an interface may be in the same is reached, once; what somebody
// set up is refused first. clear brings the state back, unless it had classes.
func TestNetshapeCakeFromEachState(t *testing.T) {
	needLab(t)
	u := newUplink(t)
	t.Cleanup(func() { _ = defaultQueue("pfifo_fast") })
	for own, states := range map[string][]startState{
		"pfifo_fast": {
			{device: "type veth peer name p0", start: "noqueue 0:"},
			{device: "type ifb", start: "pfifo_fast 0:"},
			{device: "numtxqueues 4 type ifb", start: "mq 0:"},
			{device: "type ifb", queue: "pfifo_fast", start: "pfifo_fast 11:"},
			{device: "type ifb", queue: "fq_codel limit 300 flows 32 target 7ms interval 70ms noecn", start: "fq_codel 11:"},
			{device: "type veth peer name p1", queue: "cake bandwidth 7mbit diffserv3 nat wash rtt 33ms overhead 44 mpu 64", start: "cake 11:"},
			{device: "type ifb", queue: "tbf rate 5mbit burst 20kb limit 100kb", start: "tbf 11:"},
			{device: "numtxqueues 4 type ifb", queue: "mq", start: "mq 11:", lost: "mq 0:"},
			{device: "type ifb", queue: "htb default 1", start: "htb 11:", lost: "pfifo_fast 0:"},
			{device: "type ifb", earlier: true, start: "cake 7a50:", lost: "pfifo_fast 0:"},
		},
		"fq_codel": {{device: "type ifb", start: "fq_codel 0:"}, {device: "numtxqueues 4 type ifb", start: "mq 0:"}},
	} {
		fatal(t, defaultQueue(own))
		u.fromStates(states)
	}
}

// defaultQueue is what the kernel puts at devices that it makes, in all networks; only
// the first can say.
func defaultQueue(kind string) error {
	done := make(chan error)
	go func() { done <- os.WriteFile("/proc/sys/net/core/default_qdisc", []byte(kind), 0) }() // not by this thread
	return <-done
}

// startState is what an interface is in before.
type startState struct {
	device, queue string // what it is, and tc's words for a queue that is not the kernel's own
	start         string // what tc calls it
	earlier       bool   // we shaped it, otherwise
	lost          string // what comes back, where that cannot or shall not
}

func (u *uplinkBench) fromStates(states []startState) {
	t := u.t
	apply := []string{"apply", "--confirm-within", "0", "--kind", "cake", "--up", "9mbit"}
	var refused []string
	var make, list, remove strings.Builder
	for i, s := range states {
		name := fmt.Sprint("q", i)
		apply = append(apply, "--iface", name)
		fmt.Fprintf(&make, "ip link add %s %s; ip link set %s up\n", name, s.device, name)
		fmt.Fprintf(&list, "echo; tc qdisc show dev %s; tc class show dev %s | grep htb || true\n", name, name)
		fmt.Fprintf(&remove, "ip link del %s\n", name)
		if s.queue != "" {
			fmt.Fprintf(&make, "tc qdisc replace dev %s root handle 11: %s\n", name, s.queue)
			kind, _, _ := strings.Cut(s.start, " ")
			refused = append(refused, "the root of "+name+" is "+kind)
		}
	}
	u.sh("set -e\n" + make.String())
	changed := len(refused)
	for i, s := range states {
		if s.earlier {
			changed++
			u.run("apply", "--confirm-within", "0", "--iface", fmt.Sprint("q", i), "--up", "5mbit", "--profile", "geo").is(0)
		}
	}
	show := func() []string {
		return strings.Split(passing.ReplaceAllString(u.sh(list.String()), ""), "\n\n")
	}
	before := show()
	for i, s := range states {
		if !strings.HasPrefix(strings.TrimSpace(before[i]), "qdisc "+s.start+" root") {
			t.Fatalf("%+v: %s", s, before[i])
		}
	}
	if len(refused) > 0 {
		u.run(apply...).is(exitUsage, append(refused, "--force")...)
		if now := show(); !slices.Equal(now, before) {
			t.Errorf("refused, and changed from %q to %q", before, now)
		}
	}
	u.run(plus(apply, "--force")...).is(0, fmt.Sprintf("%d to add, %d to change, 0 to remove", len(states)-changed, changed), "done")
	after, roots := show(), u.roots()
	for i, s := range states {
		if wrong := roots[fmt.Sprint("q", i)].has(nil); wrong != nil {
			t.Errorf("%+v: %v", s, wrong)
		}
	}
	u.run(apply...).is(0, "nothing to do")
	if now := show(); !slices.Equal(now, after) {
		t.Errorf("once %q, and again %q", after, now)
	}
	u.run("clear").is(0, "done")
	now := show()
	for i, s := range states {
		if s.lost == "" && now[i] != before[i] || !strings.HasPrefix(strings.TrimSpace(now[i]), "qdisc "+cmp.Or(s.lost, s.start)+" root") {
			t.Errorf("%+v: cleared it is %s", s, now[i])
		}
	}
	u.sh(remove.String())
}
