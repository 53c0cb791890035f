package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fetch asks on this thread, which is in the test's network.
func fetch(t *testing.T, addr, path string) (int, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	fatal(t, err)
	defer func() { _ = c.Close() }()
	_, err = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	fatal(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	fatal(t, err)
	body, err := io.ReadAll(r.Body)
	fatal(t, err)
	return r.StatusCode, string(body)
}

// A watch serves what it writes to a file, of all interfaces of the machine, also
// beside another one; promtool finds no fault with either.
func TestNetshapeMetrics(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		needs(t, "promtool (Debian: prometheus)")
	}
	u := newUplink(t)
	u.sh("ip link set lo up; ip link add up1 type veth peer name far1; ip link set up1 up")
	file := filepath.Join(t.TempDir(), "netshape.prom")
	p := u.start(append([]string{"watch", "--metrics-listen", "127.0.0.1:0", "--metrics-file", file}, at9...)...)
	var addr string
	u.soon("the address", func() bool {
		m := regexp.MustCompile(`trafficup: metrics: served at http://(.*)/metrics\n`).FindStringSubmatch(p.said())
		if m != nil {
			addr = m[1]
		}
		return m != nil
	})
	q := u.start("watch", "--metrics-listen", addr, "--iface", "up1", "--kind", "fq_codel", "--up", "5mbit")
	u.soon("the second one's", func() bool { return strings.Contains(q.said(), "served at http://"+addr) })
	both := func(text string) bool {
		return strings.Contains(text, `trafficup_netshape_rate_bytes_per_second{interface="up0",direction="up"} 1125000`) &&
			strings.Contains(text, `trafficup_netshape_rate_bytes_per_second{interface="up1",direction="up"} 625000`)
	}
	check := func(text string) {
		t.Helper()
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool: %v\n%s\n%s", err, out, text)
		}
	}
	u.soon("both interfaces", func() bool { _, text := fetch(t, addr, "/metrics"); return both(text) })
	for range 8 { // the kernel chooses who answers
		code, text := fetch(t, addr, "/metrics")
		if code != 200 || !both(text) {
			t.Errorf("%d %s", code, text)
		}
		check(text)
	}
	if code, text := fetch(t, addr, "/"); code != 200 || strings.Count(text, "\n") != 1 {
		t.Errorf("%d %s", code, text)
	}
	text, err := os.ReadFile(file)
	fatal(t, err)
	check(string(text))
	p.ends(t)
	if code, text := fetch(t, addr, "/metrics"); code != 200 || !both(text) {
		t.Errorf("when the first one ended: %d %s", code, text)
	}
	q.ends(t)
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Error("somebody still listens")
	}
}

// An address that cannot be is refused, with its name, before anything is set up.
func TestNetshapeMetricsRefused(t *testing.T) {
	u := newUplink(t)
	u.sh("ip link set lo up")
	before := u.stands()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	defer func() { _ = l.Close() }()
	watch := append([]string{"watch"}, at9...)
	taken := l.Addr().String()
	u.run(plus(watch, "--metrics-listen", taken)...).is(exitFailed, "listen tcp "+taken+": bind: address already in use", "hint: choose an address of this machine")
	u.run(plus(watch, "--metrics-listen", "192.0.2.1:9477")...).is(exitFailed, "192.0.2.1:9477", "cannot assign requested address")
	for _, bad := range []string{"9477", "127.0.0.1", "127.0.0.1:http-no", "127.0.0.1:99999"} {
		u.run(plus(watch, "--metrics-listen", bad)...).is(exitUsage, bad, "want HOST:PORT")
	}
	if u.stands() != before {
		t.Error(u.stands())
	}
}
