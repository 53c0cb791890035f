package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/netshape"
)

// measure finds the rate that the interface is shaped to, says that it is, and
// changes nothing; what it is given is checked before anything is sent.
func TestNetshapeMeasure(t *testing.T) {
	u := newUplink(t)
	u.run(plus([]string{"apply", "--confirm-within", "0"}, at9...)...).is(0)
	stands := u.stands()
	for _, c := range []struct{ args, want string }{
		{"", "no interface is named"},
		{"--iface up0", "--target is missing"},
		{"--iface up0 --target icmp:", `--target "icmp:"`},
		{"--iface up0 --target 10.99.0.2:443", "hint: on a machine behind the uplink: socat"},
		{"--iface up0 --target 10.99.0.2:443 --sink 10.99.0.2:443 --max-bytes 50", `"50" is no size`},
		{"--iface up0 --target 10.99.0.2:443 --sink 10.99.0.2:443 --max-bytes 0MB", `"0MB" is no size`},
		{"--iface up0 --target 10.99.0.2:443 --sink 10.99.0.2:443 --for 1s", "want 3s to 10m"},
		{"--iface up0 --target 10.99.0.2:443 --sink 10.99.0.2:443 --uploads 0", "want 1 to 64"},
		{"--iface up9 --target 10.99.0.2:443 --sink 10.99.0.2:443", "there is no interface up9"},
		{"--iface up0 --iface lo --target 10.99.0.2:443 --sink 10.99.0.2:443", "choose one with --iface: up0, lo"},
	} {
		u.run(append([]string{"measure"}, strings.Fields(c.args)...)...).is(exitUsage, c.want)
	}
	to := []string{"measure", "--iface", "up0", "--target", u.far, "--sink"}
	u.run(plus(to, "10.99.0.2:1")...).is(exitFailed, "the sink did not take the upload", "socat")
	var got netshape.Measured
	right := func() bool {
		return got.Rate >= 7.2e6 && got.Rate <= 9e6 && got.Proposed == 0
	}
	for try := 0; try < 3 && !right(); try++ { // on a machine that is busy it sees that
		s := u.run(plus(to, u.far, "--for", "4s", "--json")...).is(0, `"message_type":"measured"`)
		got = netshape.Measured{}
		fatal(t, json.Unmarshal([]byte(s.stdout), &got))
		t.Log(s.stdout)
	}
	if notes := strings.Join(got.Notes, "\n"); !right() || !strings.Contains(notes, "the interface is shaped to 9mbit") || !strings.Contains(notes, "in the uplink's own network") || !strings.Contains(notes, "only 2s of the load count") {
		t.Errorf("%+v", got)
	}
	p := u.start(plus(to, u.far)...)
	u.soon("the beginning", func() bool { return strings.Contains(p.said(), "measuring up0") })
	time.Sleep(200 * time.Millisecond) // between the word and the first packet there is nothing to be seen
	fatal(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if _ = p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != 143 {
		t.Error(p.said())
	}
	if u.stands() != stands {
		t.Error(u.stands())
	}
}

// status --watch tells of each second, and ends with a signal.
func TestNetshapeStatusWatch(t *testing.T) {
	u := newUplink(t)
	u.run("status", "--watch", "--target", u.far).is(exitUsage, "no interface is shaped")
	u.run(plus([]string{"apply", "--confirm-within", "0"}, at9...)...).is(0)
	u.run("status", "--watch").is(exitUsage, "--target")
	u.run("status", "--target", u.far).is(exitUsage, "--target is for --watch")
	u.sh("ip link set lo up")
	u.run("status", "--watch", "--target", "127.0.0.1:1").is(exitFailed, "another uplink would be measured")
	p := u.start("status", "--watch", "--target", u.far)
	q := u.start("status", "--watch", "--target", u.far, "--json")
	u.soon("a delay", func() bool {
		return strings.Contains(p.said(), "up0  rate 9mbit  sent ") && strings.Contains(p.said(), "  delay ")
	})
	u.soon("a reading", func() bool {
		return strings.Contains(q.said(), `{"message_type":"status","interface":"up0","rate_bit_s":9000000,`)
	})
	for _, p := range []*running{p, q} {
		fatal(t, p.cmd.Process.Signal(syscall.SIGINT))
		if err := p.cmd.Wait(); err != nil {
			t.Error(err, p.said())
		}
	}
}

// watch of an interface without a configuration goes on with what was confirmed,
// writes metrics, and ends well with a rate that it may change.
func TestNetshapeWatchKept(t *testing.T) {
	u := newUplink(t)
	u.run("watch", "--iface", "up0").is(exitUsage, "there is no rate for up0", "--up")
	u.apply(at9...)
	u.run("confirm").is(0)
	u.run("watch", "--iface", "up0", "--iface", "up1").is(exitUsage, "there is no rate for up1")
	u.run("watch", "--iface", "up0", "--min", "2mbit").is(exitUsage, "are for --autorate")
	u.run("watch", "--iface", "up0", "--autorate", "--target", u.far).is(exitUsage, "--min: ")
	u.run("watch", "--iface", "up0", "--kind", "none", "--autorate", "--min", "2mbit", "--target", u.far).is(exitUsage, "there is none: kind none")
	u.run("watch", "--iface", "up0", "--autorate", "--min", "9mbit", "--target", u.far).is(exitUsage, "want less than up, 9mbit")
	u.sh("tc qdisc del dev up0 root")
	file := filepath.Join(t.TempDir(), "netshape.prom")
	p := u.start("watch", "--iface", "up0", "--metrics-file", file, "--autorate", "--min", "2mbit", "--target", u.far)
	q := u.start("watch", "--iface", "up0", "--metrics-file", "/nonexistent/netshape.prom")
	lost := u.start("watch", "--iface", "up0", "--autorate", "--min", "2mbit", "--target", "127.0.0.1:1")
	u.soon("what was confirmed", func() bool { return strings.Contains(u.stands(), "htb 7a51:") })
	u.soon("metrics", func() bool {
		text, _ := os.ReadFile(file)
		return strings.Contains(string(text), `trafficup_netshape_interface_present{interface="up0"} 1`)
	})
	u.soon("word of a file that cannot be", func() bool {
		return strings.Contains(q.said(), "trafficup: failed: save metrics: /nonexistent/netshape.prom: no such file or directory; make it: install -d /nonexistent")
	})
	u.soon("word of a target that cannot be", func() bool { return strings.Contains(lost.said(), "trafficup: up0: rate: target 127.0.0.1:1: ") })
	u.soon("status of it", func() bool { return strings.Contains(u.run("status").is(0).stdout, "(autorate: 2mbit to 9mbit)") })
	u.soon("the sign of who fits the rate", func() bool { _, err := os.Stat(filepath.Join(u.dir, "steered:up0.json")); return err == nil })
	for _, p := range []*running{p, q, lost} {
		fatal(t, p.cmd.Process.Signal(syscall.SIGTERM))
		if err := p.cmd.Wait(); err != nil {
			t.Error(err, p.said())
		}
	}
	if _, err := os.Stat(filepath.Join(u.dir, "steered:up0.json")); err == nil {
		t.Error("it still says that the rate is lower on purpose")
	}
	u.run("status").is(0, "htb rate 9mbit")
}

// Each interface is kept by the configuration if it is there, else as it was
// confirmed; flags go over all that are named.
func TestNetshapeWatchMixed(t *testing.T) {
	u := newUplink(t)
	u.sh("ip link add up1 type veth peer name far1; ip link set up1 up")
	file := filepath.Join(t.TempDir(), "trafficup.yaml")
	fatal(t, os.WriteFile(file, []byte("netshape: {interfaces: [{name: up0, kind: fq_codel, up: 7mbit}], classes: [{name: bulk, match: {ports: [443]}}]}\n"), 0o600))
	u.apply("--iface", "up0", "--iface", "up1", "--kind", "fq_codel", "--up", "5mbit")
	u.run("confirm").is(0)
	both := []string{"watch", "--config", file, "--iface", "up0", "--iface", "up1"}
	u.run(plus(both, "--iface", "up2")...).is(exitUsage, "there is no rate for up2:")
	for _, c := range []struct {
		args, up0, up1 string
	}{
		{"", "7mbit", "5mbit"},
		{"--kind fq_codel --up 6mbit", "6mbit", "6mbit"},
	} {
		u.sh("rm -f " + u.dir + "/*.json; tc qdisc del dev up0 root; tc qdisc del dev up1 root") // as a reboot does
		p := u.start(append(both, strings.Fields(c.args)...)...)
		u.soon("both rates", func() bool { return strings.Count(p.said(), ": applied: set up") == 2 })
		u.run("status", "--iface", "up0").is(0, "htb rate "+c.up0)
		u.run("status", "--iface", "up1").is(0, "htb rate "+c.up1)
		u.run("status").is(0, "marks    bulk  ", "left marked; sent here ")
		p.ends(t)
	}
}

// Who fits which rate, who is asked and where metrics go can all be written down:
// the unit needs no flags. A flag goes over that.
func TestNetshapeWatchConfigured(t *testing.T) {
	u := newUplink(t)
	u.sh("ip link add up1 type veth peer name far1; ip link set up1 up")
	dir := t.TempDir()
	file, prom := filepath.Join(dir, "trafficup.yaml"), filepath.Join(dir, "netshape.prom")
	fatal(t, os.WriteFile(file, []byte(`netshape:
  interfaces:
    - {name: up0, kind: fq_codel, up: 9mbit, target: "`+u.far+`", autorate_min: 2mbit}
    - {name: up1, kind: fq_codel, up: 9mbit, target: "`+u.far+`", autorate_min: 3mbit}
  metrics_file: `+prom+"\n"), 0o600))
	p := u.start("watch", "--config", file)
	for _, name := range []string{"up0", "up1"} {
		u.soon("the sign of who fits its rate", func() bool { _, err := os.Stat(filepath.Join(u.dir, "steered:"+name+".json")); return err == nil })
	}
	u.soon("metrics", func() bool { _, err := os.Stat(prom); return err == nil })
	u.run("watch", "--config", file, "--min", "1mbit").is(exitUsage, "for one interface at a time", "up0, up1")
	p.ends(t)
	p = u.start("watch", "--config", file, "--iface", "up0", "--autorate=false", "--metrics-file", prom+".other.prom")
	u.soon("metrics elsewhere", func() bool { _, err := os.Stat(prom + ".other.prom"); return err == nil })
	time.Sleep(1500 * time.Millisecond) // it would be steered within a second
	if _, err := os.Stat(filepath.Join(u.dir, "steered:up0.json")); err == nil {
		t.Error("the rate is fitted all the same")
	}
	p.ends(t)
	p = u.start("status", "--config", file, "--iface", "up0", "--watch")
	u.soon("a delay", func() bool { return strings.Contains(p.said(), "  delay ") })
	p.ends(t)
	u.run("apply", "--config", file, "--confirm-within", "0", "--iface", "up0").is(0, "nothing to do")
	late := []string{"apply", "--config", file, "--iface", "up0", "--up", "8mbit", "--set", "netshape.confirm_within=40s"}
	u.run(plus(late, "--set", "netshape.targets="+u.far)...).is(0, "the targets answer as before, confirmed")
	u.run(plus(late, "--up", "7mbit")...).is(0, "applied; all is taken back")
	u.run("rollback").is(0)
}

// ends asks it to end, which it does well.
func (p *running) ends(t *testing.T) {
	t.Helper()
	fatal(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := p.cmd.Wait(); err != nil {
		t.Error(err, p.said())
	}
}
