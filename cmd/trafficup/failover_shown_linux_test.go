package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"trafficup/internal/atomicfile"
	"trafficup/internal/disk"
	"trafficup/internal/edge"
	"trafficup/internal/failover"
)

// shownReport is one of leo, which carries since 20:00, written at 21:00.
func shownReport(t *testing.T) edge.Report {
	t.Helper()
	rules, err := failover.Preset("leo")
	fatal(t, err)
	c := failover.Config{Uplinks: []failover.Uplink{{Name: "leo"}, {Name: "lte"}}, Rules: rules}
	now := failover.Now{Boot: 3 * time.Hour, Wall: time.Date(2026, 3, 1, 21, 0, 0, 0, time.Local)}
	s := c.New(now)
	s.Active, s.Since = 0, 2*time.Hour
	s.Health[0].Verdict, s.Health[1].Verdict = failover.Up, failover.Up
	return edge.NewReport(c, s, now, "this", 1, nil)
}

// What carries is told with what a person would have instead.
func TestFailoverActiveText(t *testing.T) {
	since := "leo since " + time.Date(2026, 3, 1, 20, 0, 0, 0, time.Local).Format(timeLayout)
	for want, change := range map[string]func(r *edge.Report){
		since:                                    func(*edge.Report) {},
		since + ", metered, but no uplink works": func(r *edge.Report) { r.Metered, r.State.AllDown = true, true },
		since + " (a drill)":                     func(r *edge.Report) { r.Forced = "a drill" },
		since + "; lte is asked for (rain), and is down":   func(r *edge.Report) { r.Forced, r.State.Forced.Uplink, r.Uplinks[1].Verdict = "rain", 1, failover.Down },
		"none chosen yet: the machine's own routes decide": func(r *edge.Report) { r.Active = "" },
	} {
		r := shownReport(t)
		change(&r)
		if got := activeText(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A report that may not be true any more says so, and why.
func TestFailoverNotOfNow(t *testing.T) {
	was := shownReport(t)
	at := was.At.Local().Format(timeLayout)
	for name, c := range map[string]struct {
		running, removed bool
		by               string
		age              time.Duration
		want             string
	}{
		"it runs":          {true, false, edge.ByRun, 30 * time.Second, ""},
		"the disk is full": {true, false, edge.ByRun, 31 * time.Second, "not saved since " + at + ": as it is may differ"},
		"it ended":         {false, false, edge.ByRun, time.Second, "not running: this is how it was at " + at + ", and the routes are still so"},
		"by cron":          {false, false, edge.ByOnce, time.Minute, "last looked at " + at + " by once, and the routes are still so"},
		"it was removed":   {false, true, edge.ByRun, time.Minute, "its routes were taken away at " + at},
	} {
		r := was
		r.By, r.Removed = c.by, c.removed
		if got := notOfNow(r, c.running, r.At.Add(c.age)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A run by cron ends by what it saw, also where it could not be saved.
func TestFailoverVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*failoverLoop)
		code   int
		says   string
	}{
		"all is well":        {func(*failoverLoop) {}, 0, ""},
		"no uplink works":    {func(l *failoverLoop) { l.saved.State.AllDown = true }, exitWaiting, "no uplink carries"},
		"it was not saved":   {func(l *failoverLoop) { l.unsaved = "no space left" }, exitFailed, "the state was not saved, and the next run knows nothing of this one: no space left"},
		"routes are refused": {func(l *failoverLoop) { l.saved.Astray = "leo: refused" }, exitFailed, "routes do not follow: leo: refused"},
	} {
		sys := &system{stdout: io.Discard, stderr: io.Discard}
		l := &failoverLoop{sys: sys, saved: shownReport(t)}
		c.change(l)
		err := l.verdict(sys)
		if code, _ := explain(err); (err == nil) != (c.code == 0) || err != nil && (code != c.code || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %d, %v", name, code, err)
		}
	}
}

// What cannot be told, or not be done, is told before anything is.
func TestFailoverRefuses(t *testing.T) {
	self, err := os.Executable()
	fatal(t, err)
	run := func(dir string, args ...string) (string, int) {
		cmd := exec.Command(self, append([]string{"failover"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME=", "TRAFFICUP_CONFIG=")
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	dir := t.TempDir()
	for _, n := range []string{"-3", "0", "501"} {
		if out, code := run(dir, "explain", "--state-dir", dir, "--last", n); code != exitUsage || !strings.Contains(out, "--last: want 1 to 500") {
			t.Errorf("--last %s: %d, %s", n, code, out)
		}
	}
	if _, err := os.Stat("/etc/trafficup/trafficup.yaml"); err != nil {
		for _, args := range [][]string{{"run"}, {"once"}, {"switch", "auto"}, {"drill", "lte"}} {
			if out, code := run(dir, append(args, "--state-dir", dir)...); code != exitUsage || !strings.Contains(out, "no configuration file was found, in none of the usual places: trafficup.yaml, "+dir+"/.config") || !strings.Contains(out, "--config FILE") {
				t.Errorf("%v: %d, %s", args, code, out)
			}
		}
	}
	unlock, err := atomicfile.TryLock(dir+"/lock", "failover")
	fatal(t, err)
	defer func() { _ = unlock() }()
	if out, code := run(dir, "remove", "--state-dir", dir); code != exitLocked || !strings.Contains(out, "a failover is running, and would put them back: pid ") || !strings.Contains(out, "systemctl stop trafficup-failover, or kill PID") {
		t.Errorf("%d, %s", code, out)
	}
}

// After remove nothing says that an uplink carries, to people or to programs.
func TestFailoverRemovedIsShown(t *testing.T) {
	store := edge.Store{FS: disk.OS{}, Dir: t.TempDir()}
	fatal(t, store.Save(shownReport(t)))
	at := time.Date(2026, 3, 1, 22, 0, 0, 0, time.Local)
	fatal(t, store.Removed(at))
	r, _, err := store.Load()
	fatal(t, err)
	var out bytes.Buffer
	fatal(t, writeFailover(&system{stdout: &out}, r, false))
	if text := out.String(); r.Active != "" || !strings.HasPrefix(text, "active   none chosen yet") || !strings.Contains(text, "its routes were taken away at "+at.Format(timeLayout)) || strings.Contains(text, "still so") {
		t.Errorf("%q\n%s", r.Active, text)
	}
}

// Who may not set routes is told so at once.
func TestFailoverWithoutRights(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Getuid() != 0 {
		needs(t, "root, and setpriv, which takes a right away")
	}
	self, err := os.Executable()
	fatal(t, err)
	file := writeConfig(t, "failover: {uplinks: [{name: leo, interface: wan0}, {name: lte, interface: wan1}], targets: [{icmp: 9.9.9.9}, {icmp: 8.8.8.8}]}\n")
	for _, name := range []string{"run", "once"} {
		began := time.Now()
		cmd := exec.Command(setpriv, "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", self, "failover", name, "--config", file, "--state-dir", t.TempDir())
		out, _ := cmd.CombinedOutput()
		if code, text := cmd.ProcessState.ExitCode(), string(out); code != exitFailed || !strings.Contains(text, "CAP_NET_ADMIN is not in effect") || !strings.Contains(text, "run it as root, or give it CAP_NET_ADMIN and CAP_NET_RAW") || time.Since(began) > 10*time.Second {
			t.Errorf("%s: %d after %v, %s", name, code, time.Since(began), text)
		}
	}
}
