package edgelab

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A second failover beside one that runs ends, whichever directory it has, and says who
// is there. When the first has ended it may begin.
func TestAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.chosen()
	other := func() (int, string) {
		cmd := exec.Command("ip", "netns", "exec", b.prefix+"edge", b.program, "failover", "once", "--config", b.config, "--state-dir", b.dir+"/other")
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if code, said := other(); code != 6 || !strings.Contains(said, fmt.Sprintf("state directory of its own: process %d\n", b.run.Process.Pid)) {
		t.Errorf("exit %d, said\n%s", code, said)
	}
	b.stop(syscall.SIGTERM)
	if code, said := other(); code != 0 {
		t.Errorf("alone: exit %d, said\n%s", code, said)
	}
}

// A service manager that reads nothing holds up neither a switch nor the end.
func TestManagerThatDoesNotListen(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	m := &manager{socket: filepath.Join(b.dir, "notify")}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	fatal(t, err)
	t.Cleanup(func() { _ = c.Close() })
	b.startUnder(m, 3*time.Second)
	b.soon("leo", 10*time.Second, func() bool { return b.active() == "leo" })
	time.Sleep(5 * time.Second) // its queue is full: a sign of life goes there each round
	b.in("isp0", "ip link set up0 down")
	b.soon("lte", 6*time.Second, func() bool { return b.active() == "lte" })
	began := time.Now()
	b.stop(syscall.SIGTERM)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// A hook keeps no other run waiting, and none records.
func TestOnceWhileAHookRuns(t *testing.T) {
	t.Parallel()
	trace := filepath.Join(t.TempDir(), "trace")
	b := newBench(t, quick+"  hook: [sleep, \"20\"]\n  record: "+trace+"\n", masquerade)
	first := exec.Command("ip", "netns", "exec", b.prefix+"edge", b.program, "failover", "once", "--config", b.config, "--state-dir", b.dir+"/state")
	b.said = new(lines)
	first.Stdout, first.Stderr = b.said, b.said
	fatal(t, first.Start())
	t.Cleanup(func() { _ = first.Process.Kill(); _ = first.Wait() })
	b.soon("the switch", 20*time.Second, func() bool { return b.switches("leo") == 1 })
	time.Sleep(3 * time.Second)
	second := exec.Command("ip", "netns", "exec", b.prefix+"edge", b.program, "failover", "once", "--config", b.config, "--state-dir", b.dir+"/state")
	if out, err := second.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if err := first.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error("its hook ran no longer")
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("it recorded")
	}
}
