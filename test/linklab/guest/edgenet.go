//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"trafficup/test/linklab"
)

// edgeNet is an edge node with a LAN, two links in namespaces of their own, so that
// neither end knows of delay and loss, and behind each a provider that relays to
// the one API. What failover asks is at the providers.
type edgeNet struct {
	name   string
	relays [2]func() (map[int64]int, error)
}

// The API as it is known to the upload, and who is asked whether an uplink works.
const (
	apiAddress = "203.0.113.10:" + port
	asked      = `[{icmp: 192.0.2.1}, {icmp: 198.51.100.1}, {tcp: "192.0.2.1:` + port + `"}, {tcp: "198.51.100.1:` + port + `"}]`
)

func (n *edgeNet) ns(part string) string { return n.name + "-" + part }

// edgeNode is what commands make of the node and its LAN. N- stands for the name.
const edgeNode = `for n in edge lan api sky0 sky1 pop0 pop1; do ip netns add N-$n; ip -n N-$n link set lo up; done
for n in edge sky0 sky1; do ip netns exec N-$n sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'; done
ip netns exec N-edge sh -c 'for f in default all; do echo 1 >/proc/sys/net/ipv4/conf/$f/rp_filter; done'
ip link add lan0 netns N-edge type veth peer name eth0 netns N-lan
ip -n N-edge addr add 192.168.5.1/24 dev lan0; ip -n N-edge link set lan0 up
ip -n N-lan addr add 192.168.5.2/24 dev eth0; ip -n N-lan link set eth0 up
ip -n N-lan route add default via 192.168.5.1
`

// edgeUplink is the same of the uplink K: the node, the link, the provider, the API.
const edgeUplink = `ip link add wanK netns N-edge type veth peer name c netns N-skyK
ip link add s netns N-skyK type veth peer name sky netns N-popK
ip link add api netns N-popK type veth peer name popK netns N-api
ip -n N-edge addr add 10.K.0.2/24 dev wanK; ip -n N-edge link set wanK up
ip -n N-skyK addr add 10.K.0.1/24 dev c; ip -n N-skyK link set c up
ip -n N-skyK addr add 10.K.1.1/24 dev s; ip -n N-skyK link set s up
ip -n N-popK addr add 10.K.1.2/24 dev sky; ip -n N-popK link set sky up
ip -n N-popK addr add 10.K.2.1/24 dev api; ip -n N-popK link set api up
ip -n N-api addr add 10.K.2.2/24 dev popK; ip -n N-api link set popK up
for a in 192.0.2.1 198.51.100.1 203.0.113.10; do ip -n N-popK addr add $a/32 dev lo; done
ip -n N-edge route add default via 10.K.0.1 dev wanK metric 10K proto dhcp
ip -n N-skyK route add default via 10.K.1.2; ip -n N-skyK route add 192.168.5.0/24 via 10.K.0.2
ip -n N-popK route add 10.K.0.0/24 via 10.K.1.1; ip -n N-popK route add 192.168.5.0/24 via 10.K.1.1
`

// newEdgeNet makes one whose satellite is as sky is at first.
func newEdgeNet(name string, sky linklab.Sky) (*edgeNet, error) {
	n := &edgeNet{name: name}
	script := edgeNode
	for _, k := range []string{"0", "1"} {
		script += strings.ReplaceAll(edgeUplink, "K", k)
	}
	if err := command("sh", "-ec", strings.ReplaceAll(script, "N-", name+"-")); err != nil {
		return nil, err
	}
	up, down := linklab.Mobile()
	if err := n.shape("sky1", "add", up, down); err != nil {
		return nil, err
	}
	up, down = sky.Netem(time.Second)
	if err := n.shape("sky0", "add", up, down); err != nil {
		return nil, err
	}
	for k := range n.relays {
		var err error
		if n.relays[k], err = startRelay(n.ns(fmt.Sprint("pop", k)), "0.0.0.0:"+port, fmt.Sprintf("10.%d.2.2:%s", k, port)); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// shape gives a link what it is to do with packets to the provider and from it.
func (n *edgeNet) shape(link, verb string, up, down []string) error {
	cmd := exec.Command("tc", "-n", n.ns(link), "-batch", "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("qdisc %s dev s root %s\nqdisc %s dev c root %s\n", verb, strings.Join(up, " "), verb, strings.Join(down, " ")))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tc in %s: %w: %s", n.ns(link), err, out)
	}
	return nil
}

// night has the satellite go as sky says, from start on until ctx ends.
func (n *edgeNet) night(ctx context.Context, sky linklab.Sky, start time.Time) error {
	for _, at := range sky.Changes() {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(start.Add(at))):
		}
		up, down := sky.Netem(at)
		if err := n.shape("sky0", "change", up, down); err != nil {
			return err
		}
	}
	return nil
}

// carried ends the relays and returns the bytes of each second since start, by uplink.
func (n *edgeNet) carried(start time.Time) (all [2][]int, err error) {
	for k, stop := range n.relays {
		sent, err := stop()
		if err != nil {
			return all, err
		}
		for second, bytes := range sent {
			i := int(second - start.Unix())
			if i < 0 {
				continue
			}
			for len(all[k]) <= i {
				all[k] = append(all[k], 0)
			}
			all[k][i] += bytes
		}
	}
	return all, nil
}
