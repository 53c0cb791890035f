package edgelab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// maintain has leo be in maintenance from and to then, by a calendar file, and what
// happens be recorded.
func (b *bench) maintain(more string, from, to time.Time) {
	b.t.Helper()
	const form = "20060102T150405Z"
	path := filepath.Join(b.dir, "provider.ics")
	text := fmt.Sprintf("BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\nUID:1\nSUMMARY:Maintenance\nDTSTART:%s\nDTEND:%s\nEND:VEVENT\nEND:VCALENDAR\n", from.UTC().Format(form), to.UTC().Format(form))
	fatal(b.t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "\n", "\r\n")), 0o600))
	config := strings.Replace(quick, "interface: wan0", fmt.Sprintf("interface: wan0, maintenance: [{ical: %s%s}]", path, more), 1)
	config += "  lead: 5s\n  grace: 6s\n  record: " + b.dir + "/trace\n"
	fatal(b.t, os.WriteFile(b.config, []byte(config), 0o600))
}

// saved is what the state file says that status does not.
func (b *bench) saved() (r struct {
	Window bool
	State  struct {
		Level int
		Since time.Duration
	}
}) {
	b.t.Helper()
	data, err := os.ReadFile(b.dir + "/state/state.json")
	fatal(b.t, err)
	fatal(b.t, json.Unmarshal(data, &r))
	return r
}

// An uplink is left before its maintenance, an outage inside is expected and raises
// nothing, and it is gone back to after the end. What was recorded of that can be
// decided again.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade) // which may take its time
	from := time.Now().Add(20 * time.Second).Truncate(time.Second)
	to := from.Add(12 * time.Second)
	b.maintain("", from, to)
	b.start()
	b.soon("the first choice", time.Until(from.Add(-5*time.Second)), func() bool { return b.active() == "leo" })
	b.soon("leaving before", 30*time.Second, func() bool { return b.active() == "lte" })
	if early := time.Until(from); early < 2*time.Second || early > 6*time.Second {
		t.Errorf("left %v before the maintenance\n%s", early, b.said)
	}
	b.reach()
	b.soon("the beginning", time.Until(from)+2*time.Second, func() bool { return time.Now().After(from) })
	b.in("isp0", drop(""))
	b.soon("the outage", time.Until(to), func() bool { return strings.Contains(b.said.String(), "leo is down (expected)") })
	b.reach()
	b.in("isp0", forgive)
	b.soon("the way back", time.Until(to)+15*time.Second, func() bool { return b.active() == "leo" })
	if time.Now().Before(to) {
		t.Errorf("it is back %v before the end\n%s", time.Until(to), b.said)
	}
	b.reach()
	b.soon("word of it", 5*time.Second, func() bool { return strings.Count(b.said.String(), "switch: ") == 3 }) // routes do not wait for it
	said := b.said.String()
	if !strings.Contains(said, "switch: lte after leo (expected): maintenance of leo from "+from.UTC().Format(time.RFC3339)) || strings.Count(said, "switch: ") != 3 {
		t.Errorf("said\n%s", said)
	}
	if r := b.saved(); r.State.Level != 0 {
		t.Errorf("level %d", r.State.Level)
	}
	b.stop(syscall.SIGTERM)
	out := b.in("edge", b.program+" failover simulate --json --config "+b.config+" --trace "+b.dir+"/trace")
	var r struct {
		Preset   string
		Switches int
		Days     float64
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&r); err != nil || r.Preset != "leo as configured" || r.Switches != 2 || r.Days*86400 < 20 {
		t.Errorf("%v: %s", err, out)
	}
}

// One that is not to be left is not, whatever happens inside. What lasts longer is
// reason to go, and still expected for a while.
func TestMaintenanceHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	from := time.Now().Add(15 * time.Second).Truncate(time.Second)
	to := from.Add(10 * time.Second)
	b.maintain(", hold: true", from, to)
	b.start()
	b.soon("the first choice", time.Until(from), func() bool { return b.active() == "leo" })
	b.soon("the beginning", time.Until(from)+2*time.Second, func() bool { return time.Now().After(from) })
	b.in("isp0", drop(""))
	b.soon("the outage", time.Until(to), func() bool { return strings.Contains(b.said.String(), "leo is down (expected)") })
	b.soon("leaving after all", time.Until(to)+5*time.Second, func() bool { return b.active() == "lte" })
	if time.Now().Before(to) {
		t.Errorf("it was left %v before the end\n%s", time.Until(to), b.said)
	}
	b.soon("word of it", 5*time.Second, func() bool { return strings.Contains(b.said.String(), "switch: lte after leo (expected)") })
	if !strings.Contains(b.said.String(), "held: leo stays for its maintenance until "+to.UTC().Format(time.RFC3339)) || b.saved().State.Level != 0 {
		t.Errorf("level %d, said\n%s", b.saved().State.Level, b.said)
	}
	b.reach()
}

// once runs failover once, and returns its status and what it printed.
func (b *bench) once() (code int, out string) {
	b.t.Helper()
	data, err := exec.Command("ip", "netns", "exec", b.prefix+"edge", b.program, "failover", "once", "--config", b.config, "--state-dir", b.dir+"/state").CombinedOutput()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode(), string(data)
	}
	fatal(b.t, err)
	return 0, string(data)
}

// By cron, too, an outage is left and gone back from; the routes stand in between, and
// what is known is known to the next run.
func TestOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.said = new(lines)
	is := func(code int, uplink string) {
		t.Helper()
		start := time.Now()
		got, out := b.once()
		t.Logf("%v: %s", time.Since(start).Round(time.Millisecond), out)
		if got != code || b.active() != uplink || !strings.Contains(out, "active   "+uplink+" since") {
			t.Errorf("status %d, want %d; %s is active, want %s", got, code, b.active(), uplink)
		}
	}
	is(0, "leo")
	is(0, "leo")
	b.reach()
	b.in("isp0", drop(""))
	is(0, "lte")
	b.reach()
	b.in("isp0", forgive)
	b.soon("back", 60*time.Second, func() bool { _, _ = b.once(); return b.active() == "leo" })
	b.reach()
	b.in("isp0", drop(""))
	b.in("isp1", drop(""))
	is(4, "leo")
	is(4, "leo")
	b.in("isp0", forgive)
	is(0, "leo")
	b.start()
	b.soon("a daemon", 20*time.Second, func() bool { code, _ := b.once(); return code == 6 })
	if code, out := b.once(); code != 6 || !strings.Contains(out, "(failover, since") {
		t.Errorf("status %d beside a daemon: %s", code, out)
	}
}
