package dscpmark

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/nstest"
)

// alike checks that a flow has at least n packets, all with one DSCP and ECN.
func alike(t *testing.T, p *tap, flow string, n int, dscp, ecn uint8) {
	t.Helper()
	got := p.flow(flow, n)
	if len(got) < n {
		t.Errorf("%s: %d packets, want %d at least", flow, len(got), n)
		return
	}
	for i, pkt := range got {
		if pkt.dscp != dscp || pkt.ecn != ecn || !pkt.goodSum {
			t.Errorf("%s: packet %d of %d: %+v, want dscp %d, ecn %d", flow, i+1, len(got), pkt, dscp, ecn)
		}
	}
	if strings.HasPrefix(flow, "tcp") && !got[0].syn {
		t.Errorf("%s: the first packet is no SYN: %+v", flow, got[0])
	}
}

// A whole TCP connection of talk is a SYN, acks, three messages, a FIN and the
// last ack, which has no socket any more.
const whole = 6

func TestMarks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := newTap(t, l.isp, "wan0")
	for _, port := range []int{7000, 7022, 7080} {
		echo(t, l.isp, port)
	}
	apply(t, l.edge, example)
	none := &syscall.SysProcAttr{}
	user := func(id uint32) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	for _, c := range []struct {
		name, from string
		as         *syscall.SysProcAttr
		port       int
		dscp       uint8
	}{
		{"no class", l.edge, none, 7000, 0},
		{"port", l.edge, none, 7022, 18},
		{"user and port", l.edge, user(12345), 7080, 1},
		{"user without the port", l.edge, user(12345), 7000, 0},
		{"port without the user", l.edge, none, 7080, 0},
		{"user", l.edge, user(12346), 7000, 8},
		{"first class wins", l.edge, user(12346), 7022, 18},
		{"forwarded, host", l.lan, none, 7000, 46},
		{"forwarded, port before host", l.lan, none, 7022, 18},
		{"forwarded, user unknown", l.lan, user(12346), 7000, 46},
	} {
		t.Run(c.name, func(t *testing.T) {
			v4, v6 := fmt.Sprintf("10.2.0.2:%d", c.port), fmt.Sprintf("[fd02::2]:%d", c.port)
			if out := helper(t, c.from, c.as, "talk", "tcp", v4, "udp", v4, "tcp", v6, "udp", v6); out != "" {
				t.Fatal(out)
			}
			from4, from6 := "10.2.0.1", "fd02::1"
			if c.from == l.lan {
				from4, from6 = "10.1.0.2", "fd01::2"
			}
			alike(t, p, fmt.Sprintf("tcp %s > 10.2.0.2:%d", from4, c.port), whole, c.dscp, 0)
			alike(t, p, fmt.Sprintf("udp %s > 10.2.0.2:%d", from4, c.port), 3, c.dscp, 0)
			alike(t, p, fmt.Sprintf("tcp %s > fd02::2:%d", from6, c.port), whole, c.dscp, 0)
			alike(t, p, fmt.Sprintf("udp %s > fd02::2:%d", from6, c.port), 3, c.dscp, 0)
		})
	}
	if n := p.dropped(t); n > 0 {
		t.Errorf("the tap lost %d packets", n)
	}
	counted := map[string]uint64{}
	for _, r := range readIn(t, l.edge).Rules {
		counted[r.Chain+" "+r.Class] += r.Packets
	}
	for _, name := range []string{"classify_out bulk", "classify_out interactive", "classify_out own", "classify_out ", "classify_fwd desk",
		"classify_fwd interactive", "mark_post bulk", "mark_post interactive", "mark_post own", "mark_post desk"} {
		if counted[name] == 0 {
			t.Errorf("%s has counted nothing: %v", name, counted)
		}
	}
}

func TestECNIsLeftAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := newTap(t, l.isp, "wan0")
	echo(t, l.isp, 7022)
	apply(t, l.edge, example)
	for ecn := range 4 {
		for _, v := range []struct{ network, from, to string }{{"udp4", "10.2.0.1", "10.2.0.2"}, {"udp6", "fd02::1", "fd02::2"}} {
			nstest.Inside(t, l.edge, func() (any, error) { return nil, talk(v.network, "["+v.to+"]:7022", ecn) })
			alike(t, p, fmt.Sprintf("udp %s > %s:7022", v.from, v.to), 3, 18, uint8(ecn))
		}
	}
}

// TestServersAnswers holds that what a server answers is of its port's class,
// from the first SYN and ACK on, whoever opened the connection.
func TestServersAnswers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := newTap(t, l.isp, "wan0")
	echo(t, l.edge, 7022)
	echo(t, l.lan, 7022)
	apply(t, l.edge, example)
	for _, server := range []string{"10.2.0.1", "fd02::1", "10.1.0.2", "fd01::2"} {
		for _, proto := range []string{"tcp", "udp"} {
			client := "10.2.0.2"
			if strings.Contains(server, ":") {
				client = "fd02::2"
			}
			nstest.Inside(t, l.isp, func() (any, error) { return nil, talk(proto, "["+server+"]:7022", 0) })
			alike(t, p, fmt.Sprintf("%s %s:7022 > %s", proto, server, client), 3, 18, 0)
		}
	}
}

func TestMarksByCGroup(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	root, err := cgroupRoot()
	if err != nil {
		t.Skip(err)
	}
	top := filepath.Join(root, filepath.Base(l.edge))
	if err := os.MkdirAll(filepath.Join(top, "unit", "below"), 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		for _, dir := range []string{"unit/below", "unit", "beside", ""} {
			_ = os.Remove(filepath.Join(top, dir))
		}
	})
	p := newTap(t, l.isp, "wan0")
	echo(t, l.isp, 7000)
	cfg := Config{Interfaces: []string{"wan0"}, Classes: []Class{{Name: "unit", DSCP: 46, Match: Match{CGroup: filepath.Base(top) + "/unit"}}}}
	apply(t, l.edge, cfg)
	first, err := Fingerprint(cfg)
	if err != nil {
		t.Fatal(err)
	}

	run := func(path, network, to string) {
		t.Helper()
		dir, err := os.Open(filepath.Join(top, path))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dir.Close() }()
		if out := helper(t, l.edge, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}, "talk", network, to); out != "" {
			t.Fatal(out)
		}
	}
	for path, dscp := range map[string]uint8{"unit": 46, "unit/below": 46, "": 0} {
		run(path, "tcp", "10.2.0.2:7000")
		alike(t, p, "tcp 10.2.0.1 > 10.2.0.2:7000", whole, dscp, 0)
		run(path, "udp", "[fd02::2]:7000")
		alike(t, p, "udp fd02::1 > fd02::2:7000", 3, dscp, 0)
	}

	// A unit that is started again is another cgroup. Its fingerprint tells.
	unit := filepath.Join(top, "unit")
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_ = os.Remove(filepath.Join(unit, "below"))
		if err = os.Remove(unit); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if _, err := Fingerprint(cfg); err == nil || !strings.Contains(err.Error(), "no such cgroup") {
		t.Errorf("without the cgroup: %v", err)
	}
	if err := os.Mkdir(unit, 0o755); err != nil {
		t.Fatal(err)
	}
	if again, err := Fingerprint(cfg); err != nil || again == first {
		t.Errorf("made again: %s, %v; before %s", again, err, first)
	}
	apply(t, l.edge, cfg)
	run("unit", "tcp", "10.2.0.2:7000")
	alike(t, p, "tcp 10.2.0.1 > 10.2.0.2:7000", whole, 46, 0)
}

// TestConnectionFollowsTheTable has a connection outlive its class: another one
// gets the only value of the ct mark there is, and the connection is not of it.
func TestConnectionFollowsTheTable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := newTap(t, l.isp, "wan0")
	echo(t, l.isp, 7022)
	only := func(name string, port uint16) Config {
		return Config{Interfaces: []string{"wan0"}, Mask: 0x10, Classes: []Class{{Name: name, DSCP: 18, Match: Match{Ports: []uint16{port}}}}}
	}
	for from, addr := range map[string]string{l.edge: "10.2.0.1", l.lan: "10.1.0.2"} {
		apply(t, l.edge, only("before", 7022))
		c := nstest.Inside(t, from, func() (net.Conn, error) { return dial("udp4", "10.2.0.2:7022", 0) })
		defer func() { _ = c.Close() }()
		for _, step := range []struct {
			cfg  Config
			dscp uint8
		}{{only("before", 7022), 18}, {only("after", 7999), 0}, {only("before", 7022), 18}} {
			apply(t, l.edge, step.cfg)
			if _, err := c.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			alike(t, p, "udp "+addr+" > 10.2.0.2:7022", 1, step.dscp, 0)
		}
	}
}
