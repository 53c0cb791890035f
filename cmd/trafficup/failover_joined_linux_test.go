package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/atomicfile"
	"trafficup/internal/edge"
	"trafficup/internal/metrics"
	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
)

// twoUplinks is an edge node with two shaped uplinks, each to a provider of its own
// behind which the same two targets answer pings. It decides ten times as fast as the
// preset; below an htb there is the kernel's own queue.
type twoUplinks struct {
	t                 *testing.T
	name, dir, config string
	said              string // file of what failover says
	ended             <-chan error
	run               *exec.Cmd
}

var twoUplinksMade atomic.Int32

// newTwoUplinks makes one; more is the rest of its section failover, and other sections.
func newTwoUplinks(t *testing.T, more string) *twoUplinks {
	t.Helper()
	if os.Getuid() != 0 {
		needs(t, "root, for network namespaces")
	}
	for _, tool := range []string{"tc", "nft", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			needs(t, tool)
		}
	}
	u := &twoUplinks{t: t, name: fmt.Sprintf("joined%d-%d-", os.Getpid(), twoUplinksMade.Add(1)), dir: t.TempDir()}
	u.config, u.said = u.dir+"/trafficup.yaml", u.dir+"/said"
	fatal(t, os.WriteFile(u.config, []byte(`netshape:
  interfaces: [{name: wan0, kind: fq_codel, up: 20mbit}, {name: wan1, kind: fq_codel, up: 9mbit}]
  classes: [{name: bulk, dscp: le, match: {ports: [443]}}]
failover:
  uplinks: [{name: leo, interface: wan0}, {name: lte, role: backup, interface: wan1, metered: true}]
  targets: [{icmp: 9.9.9.9}, {icmp: 8.8.8.8}]
  quorum: 1
  interval: 100ms
  timeout: 100ms
  up: 10
  up_for: 1s
  dwell: 1s
  dwell_max: 1s
`+more), 0o600))
	for _, n := range []string{"edge", "isp0", "isp1"} {
		u.sh("ip netns add " + u.name + n)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", u.name+n).Run() })
		u.sh("ip -n " + u.name + n + " link set lo up")
	}
	for k := range 2 {
		u.sh(strings.NewReplacer("P-", u.name, "K", fmt.Sprint(k)).Replace(`ip link add wanK netns P-edge type veth peer name upK netns P-ispK
ip -n P-edge addr add 10.0.K.2/24 dev wanK; ip -n P-edge link set wanK up
ip -n P-ispK addr add 10.0.K.1/24 dev upK; ip -n P-ispK link set upK up
ip -n P-ispK addr add 9.9.9.9/32 dev lo; ip -n P-ispK addr add 8.8.8.8/32 dev lo
ip -n P-edge route add default via 10.0.K.1 dev wanK metric 10K`))
	}
	return u
}

func (u *twoUplinks) sh(script string) string {
	u.t.Helper()
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		u.t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// command is one of the program on the edge node.
func (u *twoUplinks) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	fatal(u.t, err)
	return exec.Command("ip", append([]string{"netns", "exec", u.name + "edge", self}, args...)...)
}

func (u *twoUplinks) start() {
	u.t.Helper()
	f, err := os.Create(u.said)
	fatal(u.t, err)
	defer func() { _ = f.Close() }() // the process has its own
	u.startTo(f, f)
}

func (u *twoUplinks) startTo(stdout, stderr *os.File, args ...string) {
	u.t.Helper()
	u.run = u.command(append([]string{"failover", "run", "--config", u.config, "--state-dir", u.dir + "/state", "--netshape-dir", u.dir + "/shape"}, args...)...)
	u.run.Stdout, u.run.Stderr = stdout, stderr
	fatal(u.t, u.run.Start())
	ended := make(chan error, 1)
	go func() { ended <- u.run.Wait() }()
	u.ended = ended
	u.t.Cleanup(func() { _ = u.run.Process.Kill() })
}

func (u *twoUplinks) stop() {
	u.t.Helper()
	fatal(u.t, u.run.Process.Signal(syscall.SIGTERM))
	select {
	case <-u.ended:
	case <-time.After(20 * time.Second):
		u.t.Fatal("it does not end")
	}
}

// tells is what failover said so far.
func (u *twoUplinks) tells() string {
	data, err := os.ReadFile(u.said)
	fatal(u.t, err)
	return string(data)
}

// link sets the provider's end of an uplink.
func (u *twoUplinks) link(k int, state string) {
	u.t.Helper()
	u.sh(fmt.Sprintf("ip -n %sisp%d link set up%d %s", u.name, k, k, state))
}

// carries reports whether the kernel sends what has no other way by an interface.
func (u *twoUplinks) carries(name string) func() bool {
	return func() bool {
		return strings.Contains(u.sh("ip netns exec "+u.name+"edge ip route get 9.9.9.9"), "dev "+name)
	}
}

// queue is what tc says of an interface's root.
func (u *twoUplinks) queue(name string) string {
	return u.sh(fmt.Sprintf("tc -n %sedge -s qdisc show dev %s root; tc -n %sedge class show dev %s", u.name, name, u.name, name))
}

func (u *twoUplinks) shaped(name, rate string) func() bool {
	return func() bool {
		q := u.queue(name)
		return strings.Contains(q, "qdisc htb ") && strings.Contains(strings.ToLower(q), "rate "+rate)
	}
}

func (u *twoUplinks) soon(what string, within time.Duration, is func() bool) time.Duration {
	u.t.Helper()
	for start := time.Now(); time.Since(start) < within; time.Sleep(50 * time.Millisecond) {
		if is() {
			return time.Since(start)
		}
	}
	u.t.Fatalf("%s: not in %v\n%s\n%s%s", what, within, u.tells(), u.queue("wan0"), u.queue("wan1"))
	return 0
}

// status is what failover status prints.
func (u *twoUplinks) status() string {
	u.t.Helper()
	out, err := u.command("failover", "status", "--config", u.config, "--state-dir", u.dir+"/state").CombinedOutput()
	if err != nil {
		u.t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// A switch brings the queue of the uplink with it. One that stands keeps its counters.
func TestFailoverShapes(t *testing.T) {
	t.Parallel()
	u := newTwoUplinks(t, "")
	u.start()
	u.soon("the first choice", 20*time.Second, u.carries("wan0"))
	u.soon("its queue", 5*time.Second, u.shaped("wan0", "20mbit"))
	if q := u.queue("wan1"); strings.Contains(q, "htb") {
		t.Errorf("the standby has %s", q)
	}
	sent := func() (n int) {
		_, text, _ := strings.Cut(u.queue("wan0"), "Sent ")
		_, err := fmt.Sscan(text, &n)
		fatal(t, err)
		return n
	}
	u.link(0, "down")
	u.soon("the switch", 15*time.Second, u.carries("wan1"))
	u.soon("the queue there", 2*time.Second, u.shaped("wan1", "9mbit"))
	if marks := u.sh("ip netns exec " + u.name + "edge nft list ruleset"); !strings.Contains(marks, "wan1") {
		t.Errorf("what leaves by it is not marked: %s", marks)
	}
	u.soon("word of it", 5*time.Second, func() bool { return strings.Contains(u.status(), "queue    wan1: its queue stands") })
	said := u.tells()
	if at := strings.Index(said, "shaped: wan1: set up"); at < strings.Index(said, "switch: lte") || at < 0 {
		t.Error(said)
	}
	before := sent()
	u.link(0, "up")
	u.soon("the return", 30*time.Second, u.carries("wan0"))
	u.soon("its queue in the status", 5*time.Second, func() bool { return strings.Contains(u.status(), "queue    wan0: its queue stands") })
	if after, said := sent(), u.tells(); after <= before || strings.Count(said, "shaped: wan0") != 1 {
		t.Errorf("the queue that stood had sent %d bytes, and now %d\n%s", before, after, said)
	}
	u.sh("tc -n " + u.name + "edge qdisc del dev wan0 root")
	u.soon("the queue again", 30*time.Second, u.shaped("wan0", "20mbit"))
	u.stop()
	if !u.shaped("wan0", "20mbit")() {
		t.Error("it takes the queue away when it ends")
	}
}

// Nothing about queues holds a switch up: not somebody who changes them, nor an
// apply that waits for its confirmation, which stays as it is.
func TestFailoverDoesNotWaitForQueues(t *testing.T) {
	t.Parallel()
	u := newTwoUplinks(t, "")
	u.start()
	u.soon("the first choice", 20*time.Second, u.shaped("wan0", "20mbit"))
	unlock, err := atomicfile.Lock(t.Context(), u.dir+"/shape/apply:lock", "a test")
	fatal(t, err)
	u.link(0, "down")
	u.soon("the switch", 15*time.Second, u.carries("wan1"))
	u.soon("word of its queue", 5*time.Second, func() bool {
		return strings.Contains(u.tells(), "warning: failed: prepare lte: the queue of wan1 is not set up after 2s; it is not waited for")
	})
	fatal(t, unlock())
	u.soon("its queue, a look later", 12*time.Second, u.shaped("wan1", "9mbit"))
	u.link(0, "up")
	u.soon("the return", 30*time.Second, u.carries("wan0"))
	if out, err := u.command("netshape", "apply", "--iface", "wan1", "--kind", "fq_codel", "--up", "5mbit", "--config", u.config, "--state-dir", u.dir+"/shape", "--confirm-within", "5m").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	u.link(0, "down")
	u.soon("the next switch", 15*time.Second, u.carries("wan1"))
	u.soon("word of it", 5*time.Second, func() bool {
		return strings.Contains(u.status(), "queue    not as configured: wan1: an apply waits for its confirmation")
	})
	if !u.shaped("wan1", "5mbit")() {
		t.Errorf("what waits for its confirmation is now %s", u.queue("wan1"))
	}
	u.stop()
	if out, err := u.command("netshape", "rollback", "--state-dir", u.dir+"/shape").CombinedOutput(); err != nil { // and its process ends
		t.Fatalf("%v: %s", err, out)
	}
}

// One whose output nobody reads, or nobody can, decides all the same.
func TestFailoverUnread(t *testing.T) {
	t.Parallel()
	u := newTwoUplinks(t, "")
	said, err := os.Create(u.said)
	fatal(t, err)
	defer func() { _ = said.Close() }()
	from, to, err := os.Pipe()
	fatal(t, err)
	defer func() { _ = to.Close() }()
	_, err = to.Write(make([]byte, 1<<16)) // as much as it takes
	fatal(t, err)
	u.startTo(to, said, "--json")
	u.soon("the first choice", 20*time.Second, u.carries("wan0"))
	u.link(0, "down")
	u.soon("the switch", 15*time.Second, u.carries("wan1"))
	fatal(t, from.Close())
	u.link(0, "up")
	u.soon("the return", 30*time.Second, u.carries("wan0"))
	u.stop()
}

// Other hosts read from Redis which uplink carries. A Redis that hangs is told of
// once, and holds no switch up.
func TestFailoverShares(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis")
	s := redistest.Start(t, "--unixsocket", socket)
	file := filepath.Join(t.TempDir(), "failover.prom")
	u := newTwoUplinks(t, fmt.Sprintf("  site: \"501\"\n  metrics_file: %s\nredis: {url: \"unix://%s\", group: stations}\n", file, socket))
	host, err := redis.Open(redis.Config{API: "stations", URL: s.URL()})
	fatal(t, err)
	t.Cleanup(func() { _ = host.Close() })
	reads := func(active string, metered bool) func() bool {
		return func() bool {
			got, ok, _ := host.ReadUplink(t.Context(), "501")
			name, _ := os.Hostname()
			return ok && got.Active == active && got.Metered == metered && got.Host == name && time.Since(got.Since) < time.Minute
		}
	}
	u.start()
	u.soon("word of the first choice", 20*time.Second, reads("leo", false))
	if left := s.Client().TTL(t.Context(), host.UplinkKey("501")).Val(); left <= 0 || left > 3*edge.SavedEvery {
		t.Errorf("it holds for %v", left)
	}
	u.link(0, "down")
	u.soon("word of the switch", 15*time.Second, reads("lte", true))
	u.soon("status", 15*time.Second, func() bool { return strings.Contains(u.status(), "redis    told as 501 at 20") })
	s.Signal(syscall.SIGSTOP)
	u.link(0, "up")
	u.soon("the return while Redis hangs", 30*time.Second, u.carries("wan0"))
	u.soon("word of that", 25*time.Second, func() bool { return strings.Contains(u.status(), "redis    not told as 501: ") })
	u.soon("a warning", 10*time.Second, func() bool { return strings.Contains(u.tells(), "other hosts are not told which uplink carries") })
	s.Signal(syscall.SIGCONT)
	u.soon("word of the return", 25*time.Second, reads("leo", false))
	u.soon("word that Redis is back", 15*time.Second, func() bool { return strings.Contains(u.tells(), "redis is back: other hosts are told again") })
	u.stop()
	said := u.tells()
	if n := strings.Count(said, "other hosts are not told which uplink carries"); n != 1 {
		t.Errorf("told %d times\n%s", n, said)
	}
	var report edge.Report
	data, err := os.ReadFile(u.dir + "/state/state.json")
	fatal(t, err)
	fatal(t, json.Unmarshal(data, &report))
	if report.Shared == "" || report.Shaped == "" {
		t.Errorf("the state file says %q, %q", report.Shared, report.Shaped)
	}
	page, err := os.ReadFile(file)
	fatal(t, err)
	carried := fmt.Sprintf(`active_seconds_total{uplink="lte"} %v`, metrics.Seconds(report.Counts.Carried["lte"]))
	if last, ok, err := host.ReadUplink(t.Context(), "501"); err != nil || !ok || !last.At.Equal(report.At) || !strings.Contains(string(page), carried) {
		t.Errorf("the last word was of %v: Redis has %+v (%v), metrics have no %s\n%s", report.At, last, err, carried, page)
	}
}
