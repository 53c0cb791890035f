package edgelab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bench is an edge node with two uplinks, wan0 and wan1, each to a provider of
// its own at which the same targets answer, and a host in its LAN.
type bench struct {
	t       *testing.T
	program string
	prefix  string // of the namespaces
	dir     string
	config  string
	run     *exec.Cmd
	said    *lines
}

// benches are counted: each has namespaces of its own.
var benches atomic.Int32

// lines collects what a process says.
type lines struct {
	mu    sync.Mutex
	b     bytes.Buffer // guarded by mu
	turns []time.Time  // guarded by mu: when it said that it switches
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range bytes.Count(p, []byte("trafficup: switch: ")) {
		l.turns = append(l.turns, time.Now())
	}
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// quick decides five times as fast as the preset, and dwells for seconds.
const quick = `failover:
  uplinks:
    - {name: leo, role: primary, interface: wan0}
    - {name: lte, role: backup, interface: wan1, metered: true}
  targets: [{icmp: 9.9.9.9}, {icmp: 8.8.8.8}, {tcp: "9.9.9.9:443"}, {tcp: "8.8.8.8:443"}]
  quorum: 2
  interval: 200ms
  timeout: 1s
  up: 10
  up_for: 2s
  dwell: 3s
  dwell_max: 3s
`

// newBench makes one with a configuration, and a rule of nftables for what leaves by
// the uplinks: masquerade, say.
func newBench(t *testing.T, config, nat string) *bench {
	t.Helper()
	bin := program(t)
	if os.Getuid() != 0 {
		needs(t, "root, for network namespaces")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			needs(t, tool)
		}
	}
	b := &bench{t: t, program: bin, prefix: fmt.Sprintf("edge%d-%d-", os.Getpid(), benches.Add(1)), dir: t.TempDir()}
	b.config = filepath.Join(b.dir, "trafficup.yaml")
	fatal(t, os.WriteFile(b.config, []byte(config), 0o600))
	for _, n := range []string{"edge", "isp0", "isp1", "lan"} {
		b.sh("ip netns add " + b.prefix + n)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", b.prefix+n).Run() })
		b.sh("ip -n " + b.prefix + n + " link set lo up")
	}
	for k := range 2 {
		b.sh(strings.NewReplacer("P-", b.prefix, "K", fmt.Sprint(k)).Replace(`ip link add wanK netns P-edge type veth peer name upK netns P-ispK
ip -n P-edge addr add 10.0.K.2/24 dev wanK; ip -n P-edge link set wanK up
ip -n P-ispK addr add 10.0.K.1/24 dev upK; ip -n P-ispK link set upK up
ip -n P-ispK addr add 9.9.9.9/32 dev lo; ip -n P-ispK addr add 8.8.8.8/32 dev lo
ip -n P-edge route add default via 10.0.K.1 dev wanK metric 10K proto dhcp`))
		b.serve(fmt.Sprintf("isp%d", k))
		b.answer(fmt.Sprintf("isp%d", k))
	}
	b.sh(strings.ReplaceAll(strings.ReplaceAll(`ip link add lan0 netns P-edge type veth peer name eth0 netns P-lan
ip -n P-edge addr add 192.168.5.1/24 dev lan0; ip -n P-edge link set lan0 up
ip -n P-lan addr add 192.168.5.2/24 dev eth0; ip -n P-lan link set eth0 up; ip -n P-lan route add default via 192.168.5.1
ip netns exec P-edge sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward; for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 1 > $f; done'
printf 'table ip nat {\n chain post {\n  type nat hook postrouting priority srcnat; policy accept;\n  NAT\n }\n}\n' | ip netns exec P-edge nft -f -`, "P-", b.prefix), "NAT", nat))
	return b
}

func (b *bench) sh(script string) string {
	b.t.Helper()
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// in runs a script in a namespace.
func (b *bench) in(ns, script string) string {
	b.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", b.prefix+ns, "sh", "-ec", script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %s: %v: %s", ns, script, err, out)
	}
	return string(out)
}

// serve has something listen at port 443 of a namespace: this program's sandbox.
func (b *bench) serve(ns string) {
	b.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", b.prefix+ns, b.program, "sandbox", "--listen", "0.0.0.0:443")
	fatal(b.t, cmd.Start())
	b.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// script runs one on the host that names namespaces by P-NAME.
func (b *bench) script(script string) string {
	b.t.Helper()
	return b.sh(strings.ReplaceAll(script, "P-", b.prefix))
}

// within calls f in a namespace. Sockets that f makes stay there.
func (b *bench) within(ns string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this function
		fd, err := os.Open("/run/netns/" + b.prefix + ns)
		if err == nil {
			err = unix.Setns(int(fd.Fd()), unix.CLONE_NEWNET)
			_ = fd.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// start runs failover.
func (b *bench) start() {
	b.t.Helper()
	b.said = new(lines)
	b.run = exec.Command("ip", "netns", "exec", b.prefix+"edge", b.program, "failover", "run", "--config", b.config, "--state-dir", b.dir+"/state")
	b.run.Stdout, b.run.Stderr = b.said, b.said
	fatal(b.t, b.run.Start())
	b.t.Cleanup(func() { b.stop(syscall.SIGKILL) })
}

func (b *bench) stop(s syscall.Signal) {
	if b.run != nil {
		_ = b.run.Process.Signal(s)
		_ = b.run.Wait()
		b.run = nil
	}
}

// active is the uplink that the kernel sends what has no other way by.
func (b *bench) active() string {
	out := b.in("edge", "ip route get 9.9.9.9")
	switch {
	case strings.Contains(out, "dev wan0"):
		return "leo"
	case strings.Contains(out, "dev wan1"):
		return "lte"
	}
	return out
}

// turned is when it said last that it switches.
func (b *bench) turned() time.Time {
	b.said.mu.Lock()
	defer b.said.mu.Unlock()
	return b.said.turns[len(b.said.turns)-1]
}

// since is when an uplink began to carry, by the clock of the program, which waits
// for nobody to hear of it.
func (b *bench) since(uplink string) time.Duration {
	b.t.Helper()
	b.soon(uplink+" in the status", 5*time.Second, func() bool { return b.status().Active == uplink })
	return b.saved().State.Since
}

// soon waits until is, and returns how long it took. A machine that is too busy to
// wake it in time is too busy for the program, too: that time is given on top.
func (b *bench) soon(what string, within time.Duration, is func() bool) time.Duration {
	b.t.Helper()
	start := time.Now()
	for time.Since(start) < within {
		if is() {
			return time.Since(start)
		}
		slept := time.Now()
		time.Sleep(100 * time.Millisecond)
		within += time.Since(slept) - 100*time.Millisecond
	}
	b.t.Fatalf("%s: not in %v\n%s\n%s", what, within, b.said, b.in("edge", "ip rule; ip route show table all"))
	return 0
}

// switches is how often it said that it goes to an uplink.
func (b *bench) switches(uplink string) int {
	return strings.Count(b.said.String(), "switch: "+uplink+" ") + strings.Count(b.said.String(), "switch: "+uplink+":")
}

// status is what failover status --json says.
func (b *bench) status() (r struct {
	Active  string
	Uplinks []struct{ Name, Verdict, Why string }
}) {
	b.t.Helper()
	cmd := exec.Command(b.program, "failover", "status", "--json", "--state-dir", b.dir+"/state", "--config", b.config)
	out, err := cmd.CombinedOutput()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	return r
}

// others are the routes and rules that are not ours.
func (b *bench) others() string {
	// Of one interface that went and came back, routes are in another order.
	return b.in("edge", "ip -d rule | grep -v 'proto 219' || true; { ip -d route show table all; ip -6 -d rule; } | grep -v 'proto 219' | sort; nft list ruleset")
}

// reach has the host in the LAN connect to a target, through the edge node.
func (b *bench) reach() {
	b.t.Helper()
	b.in("lan", "timeout 5 bash -c 'exec 3<>/dev/tcp/9.9.9.9/443'")
}

// masquerade gives what leaves by an uplink the address of that.
const masquerade = `oifname "wan*" masquerade`
