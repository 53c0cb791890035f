package edgelab

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// manager hears what a service manager is told.
type manager struct {
	socket string
	mu     sync.Mutex
	said   []string // guarded by mu
}

func newManager(t *testing.T, b *bench) *manager {
	t.Helper()
	m := &manager{socket: filepath.Join(b.dir, "notify")}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	fatal(t, err)
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		text := make([]byte, 8192)
		for {
			n, err := c.Read(text)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, string(text[:n]))
			m.mu.Unlock()
		}
	}()
	return m
}

// heard counts messages that begin with what.
func (m *manager) heard(what string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.said {
		if strings.HasPrefix(s, what) {
			n++
		}
	}
	return n
}

// last is the last message that begins with what.
func (m *manager) last(what string) (text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.said {
		if strings.HasPrefix(s, what) {
			text = s
		}
	}
	return text
}

// startUnder runs failover under a service manager that waits so long for a sign of
// life.
func (b *bench) startUnder(m *manager, patience time.Duration) {
	b.t.Helper()
	b.said = new(lines)
	b.run = exec.Command("ip", "netns", "exec", b.prefix+"edge", b.program, "failover", "run", "--config", b.config, "--state-dir", b.dir+"/state")
	b.run.Env = append(os.Environ(), "NOTIFY_SOCKET="+m.socket, fmt.Sprintf("WATCHDOG_USEC=%d", patience.Microseconds()))
	b.run.Stdout, b.run.Stderr = b.said, b.said
	fatal(b.t, b.run.Start())
	b.t.Cleanup(func() { b.stop(syscall.SIGKILL) })
}

// configure writes the configuration anew.
func (b *bench) configure(config string) {
	b.t.Helper()
	fatal(b.t, os.WriteFile(b.config, []byte(config), 0o600))
}

// page is what the program serves as metrics.
func (b *bench) page() (text string) {
	b.t.Helper()
	fatal(b.t, b.within("edge", func() error {
		c, err := net.Dial("tcp", "127.0.0.1:9478")
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		if _, err = io.WriteString(c, "GET /metrics HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(r.Body)
		text = string(body)
		if err == nil && r.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", r.Status, text)
		}
		return err
	}))
	return text
}

// promtool finds no fault with what the program writes.
func promtool(t *testing.T, text string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		needs(t, "promtool (Debian: prometheus)")
	}
	cmd := exec.Command(path, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s\n%s", err, out, text)
	}
}

// The service manager knows how it stands, also when no uplink has a carrier; it reads
// its configuration again; a hook that hangs delays neither a switch nor the end; what
// is counted is served and written, and outlives the process.
func TestService(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	config := quick + "  hook: [/bin/sh, -c, \"echo hook $FAILOVER_TO $FAILOVER_METERED; sleep 999\"]\n  hook_timeout: 10m\n" +
		"  metrics_listen: 127.0.0.1:9478\n  metrics_file: " + b.dir + "/failover.prom\n"
	b.configure(config)
	m := newManager(t, b)
	b.startUnder(m, time.Minute)
	b.soon("READY", 30*time.Second, func() bool { return m.heard("READY=1") == 1 })
	b.soon("how it stands", 20*time.Second, func() bool {
		return strings.HasPrefix(m.last("STATUS="), "STATUS=active=leo leo=up rtt=") && strings.Contains(m.last("STATUS="), " lte=up")
	})
	b.soon("the hook", 10*time.Second, func() bool { return strings.Contains(b.said.String(), "hook leo 0\n") })

	b.configure(strings.Replace(config, "dwell: 3s", "dwell: 2s", 1))
	_ = b.run.Process.Signal(syscall.SIGHUP)
	b.soon("another configuration", 10*time.Second, func() bool {
		return strings.Contains(b.said.String(), "from now on: failover.dwell 2s\n") && m.heard("RELOADING=1\nMONOTONIC_USEC=") == 1 && m.heard("READY=1") == 2
	})
	b.configure(strings.Replace(config, "name: leo", "name: geo", 1))
	_ = b.run.Process.Signal(syscall.SIGHUP)
	b.soon("a refusal", 10*time.Second, func() bool {
		return strings.Contains(b.said.String(), "the configuration stays as it was: the uplinks were leo, lte, and would be geo, lte")
	})
	b.configure("failover: {quorum: many}\n")
	_ = b.run.Process.Signal(syscall.SIGHUP)
	b.soon("another refusal", 10*time.Second, func() bool {
		return strings.Contains(b.said.String(), "failover.quorum: \"many\"") && m.heard("READY=1") == 4
	})
	b.configure(config)
	if got := b.active(); got != "leo" || strings.Count(b.said.String(), "switch:") != 1 {
		t.Errorf("%s is active\n%s", got, b.said)
	}

	b.in("isp0", drop(""))
	b.soon("a switch though a hook hangs", 20*time.Second, func() bool { return b.active() == "lte" })
	b.soon("its metrics", 20*time.Second, func() bool {
		file, _ := os.ReadFile(b.dir + "/failover.prom")
		return strings.Contains(string(file), `switches_total{from="leo",to="lte",expected="false"} 1`+"\n") && strings.Contains(b.page(), `active{uplink="lte"} 1`+"\n")
	})
	promtool(t, b.page())
	b.in("isp1", "ip link set up1 down")
	b.in("isp0", "ip link set up0 down")
	b.soon("that none works", 20*time.Second, func() bool { return strings.Contains(m.last("STATUS="), "leo=down lte=down") })
	before := m.heard("WATCHDOG=1")
	time.Sleep(3 * time.Second)
	if n := m.heard("WATCHDOG=1") - before; n < 5 {
		t.Errorf("%d signs of life in 3 s without any carrier", n)
	}

	start := time.Now()
	b.stop(syscall.SIGTERM)
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("it took %v to end\n%s", took, b.said)
	}
	if m.heard("STOPPING=1") != 1 || !strings.Contains(b.said.String(), "for the switch to leo: failover ended") {
		t.Errorf("%q\n%s", m.last("STOPPING"), b.said)
	}

	b.startUnder(m, time.Second)
	b.soon("what was counted before", 10*time.Second, func() bool {
		file, _ := os.ReadFile(b.dir + "/failover.prom")
		return strings.Contains(string(file), `switches_total{from="leo",to="lte",expected="false"} 1`+"\n") && strings.Contains(b.said.String(), "metrics: served at http://127.0.0.1:9478/metrics\n")
	})
	if !strings.Contains(b.said.String(), "warning: a round may take 1.2s, and the service manager waits 1s for one: set WatchdogSec= to 2.4s at least") {
		t.Errorf("no warning\n%s", b.said)
	}
	b.stop(syscall.SIGTERM)
}

// Ready comes when the time for a start is over, though nothing has answered.
func TestReadyWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.in("isp0", drop(""))
	b.in("isp1", drop(""))
	m := newManager(t, b)
	b.startUnder(m, time.Minute)
	took := b.soon("READY", 30*time.Second, func() bool { return m.heard("READY=1") == 1 })
	if took > 20*time.Second || !strings.HasPrefix(m.last("STATUS="), "STATUS=active=none") {
		t.Errorf("after %v: %s", took, m.last("STATUS="))
	}
}
