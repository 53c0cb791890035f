//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"trafficup/test/linklab"
)

// network is three namespaces in a row. Each link is a pair of veths from the
// client to the middle and one from there to the server, where it has an
// address of its own. The middle delays and loses, so that neither end knows.
type network struct {
	client, middle, server string
	links                  []linklab.Profile
}

func newNetwork(name string, links ...linklab.Profile) (*network, error) {
	n := &network{client: name + "-client", middle: name + "-net", server: name + "-server", links: links}
	var b strings.Builder
	for _, ns := range []string{n.client, n.middle, n.server} {
		if err := command("ip", "netns", "add", ns); err != nil {
			return nil, err
		}
	}
	for i := range links {
		n.pair(&b, n.client, fmt.Sprintf("c%d", i), fmt.Sprintf("10.%d.1", i))
		n.pair(&b, n.server, fmt.Sprintf("s%d", i), fmt.Sprintf("10.%d.2", i))
		fmt.Fprintf(&b, "ip -n %s route add 10.%d.2.0/24 via 10.%d.1.1\n", n.client, i, i)
		fmt.Fprintf(&b, "ip -n %s route add 10.%d.1.0/24 via 10.%d.2.1\n", n.server, i, i)
	}
	fmt.Fprintf(&b, "ip netns exec %s sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'\n", n.middle)
	if err := command("sh", "-ec", b.String()); err != nil {
		return nil, err
	}
	for i := range links {
		if err := n.shape(i, "add", false); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// pair writes the commands that join the namespace end to the middle, which
// has the address .1 of the net.
func (n *network) pair(b *strings.Builder, end, dev, addr string) {
	fmt.Fprintf(b, "ip -n %s link add %s type veth peer name %s netns %s\n", n.middle, dev, dev, end)
	fmt.Fprintf(b, "ip -n %s addr add %s.1/24 dev %s\nip -n %s link set %s up\n", n.middle, addr, dev, n.middle, dev)
	fmt.Fprintf(b, "ip -n %s addr add %s.2/24 dev %s\nip -n %s link set %s up\n", end, addr, dev, end, dev)
}

// shape gives both directions of a link what its profile says.
func (n *network) shape(link int, verb string, out bool) error {
	for _, dev := range []string{fmt.Sprintf("c%d", link), fmt.Sprintf("s%d", link)} {
		args := []string{"-n", n.middle, "qdisc", verb, "dev", dev, "root"}
		if err := command("tc", append(args, n.links[link].Netem(out)...)...); err != nil {
			return err
		}
	}
	return nil
}

// address is the server's on a link.
func (n *network) address(link int) string { return fmt.Sprintf("10.%d.2.2", link) }

// outages plays those of a link until ctx ends and counts them as they begin.
func (n *network) outages(ctx context.Context, link int, count *atomic.Int64) error {
	o := n.links[link].Outages
	start := time.Now()
	sleep := func(until time.Duration) bool {
		select {
		case <-time.After(time.Until(start.Add(until))):
			return true
		case <-ctx.Done():
			return false
		}
	}
	for k := 0; o.Every > 0; k++ {
		from, to, ok := o.Next(k, rand.Float64(), rand.Float64())
		if !ok {
			continue
		}
		if !sleep(from) {
			break
		}
		count.Add(1)
		if err := n.shape(link, "change", true); err != nil {
			return err
		}
		sleep(to)
		if err := n.shape(link, "change", false); err != nil {
			return err
		}
	}
	return nil
}

// counters returns how many connections the client has tried and how many
// segments it has sent again.
func (n *network) counters() (dials, retransmits int, err error) {
	text, err := output("ip", "netns", "exec", n.client, "cat", "/proc/net/snmp")
	if err != nil {
		return 0, 0, err
	}
	values := map[string]int{}
	var names []string
	for line := range strings.Lines(text) {
		switch f := strings.Fields(line); {
		case f[0] != "Tcp:":
		case names == nil:
			names = f
		default:
			for i := 1; i < min(len(f), len(names)); i++ {
				values[names[i]], _ = strconv.Atoi(f[i])
			}
		}
	}
	return values["ActiveOpens"], values["RetransSegs"], nil
}

// rtt measures the round trip to an address of the server, in milliseconds.
func (n *network) rtt(addr string) (float64, error) {
	text, err := output("ip", "netns", "exec", n.client, os.Args[0], "rtt", addr)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(text), 64)
}

// probes is how many connections measure makes.
const probes = 5

// measure prints the median time a connection takes, in milliseconds. It runs
// in the client's namespace.
func measure(addr string) error {
	var took []time.Duration
	for range probes {
		start := time.Now()
		c, err := net.DialTimeout("tcp", addr, 10*time.Second)
		if err != nil {
			return err
		}
		took = append(took, time.Since(start))
		c.Close()
	}
	slices.Sort(took)
	_, err := fmt.Println(float64(took[len(took)/2].Microseconds()) / 1000)
	return err
}
