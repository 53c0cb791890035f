package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/failover"
)

// simulateIn runs "failover simulate" with a configuration.
func simulateIn(t *testing.T, config string, o simulateOptions) (lines []simulated, said string, err error) {
	t.Helper()
	var out, warned bytes.Buffer
	sys := &system{config: configured(t, config), fs: disk.OS{}, stdout: &out, stderr: &warned}
	if err = o.run(sys, true); err != nil {
		return nil, warned.String(), err
	}
	for line := range strings.Lines(out.String()) {
		var s simulated
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, s)
	}
	return lines, warned.String(), nil
}

// recordingOf writes an hour of two uplinks, the first of which fails from minute 10 to
// minute 10+length.
func recordingOf(t *testing.T, length time.Duration, first, second string) string {
	t.Helper()
	var b bytes.Buffer
	begin := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	for at := time.Duration(0); at < time.Hour; at += time.Second {
		b.Write(failover.Record{Uplink: first, At: begin.Add(at), OK: at < 10*time.Minute || at >= 10*time.Minute+length}.Line())
		b.Write(failover.Record{Uplink: second, At: begin.Add(at), OK: true}.Line())
	}
	path := filepath.Join(t.TempDir(), "failover.trace")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const leoAndLTE = "failover: {uplinks: [{name: leo, interface: eth1}, {name: lte, role: backup, interface: wwan0, metered: true}]%s}"

// A recording is decided by the rules as they are configured, and by strict ones.
func TestSimulateTrace(t *testing.T) {
	trace := recordingOf(t, 5*time.Minute, "leo", "lte")
	got, said, err := simulateIn(t, fmt.Sprintf(leoAndLTE, ""), simulateOptions{traces: []string{trace}})
	if err != nil || said != "" || len(got) != 2 {
		t.Fatalf("%v, %q, %v", got, said, err)
	}
	if g := got[0]; g.Preset != "leo" || g.Switches != 2 || g.Seen != 12 || g.Needless != 0 || g.Metered < 300 || fmt.Sprintf("%.4f", g.Days) != "0.0417" {
		t.Errorf("leo: %+v", g)
	}
	if g := got[1]; g.Preset != "strict" || g.Seen <= 12 {
		t.Errorf("strict: %+v", g)
	}
	got, _, err = simulateIn(t, fmt.Sprintf(leoAndLTE, ", down: 20, dwell: 20m"), simulateOptions{traces: []string{trace}})
	if err != nil || len(got) != 2 || got[0].Seen != 20 || got[0].Preset != "leo as configured" || got[0].Metered < 1200 {
		t.Errorf("with rules of its own: %+v, %v", got, err)
	}
	// Windows that are configured count by the time that was recorded.
	window := strings.Replace(fmt.Sprintf(leoAndLTE, ""), "interface: eth1", `interface: eth1, maintenance: [{from: "02:05", to: "02:20"}]`, 1)
	got, _, err = simulateIn(t, window, simulateOptions{traces: []string{trace}})
	if err != nil || len(got) != 2 || got[0].Switches != 2 || got[0].Seen != 0 || got[0].Down != 0 {
		t.Errorf("in a window: %+v, %v", got, err)
	}
	// Without a configuration uplinks are those of the recording, and made-up days are
	// decided by the rules as configured, too.
	got, said, err = simulateIn(t, "failover: {preset: strict}", simulateOptions{traces: []string{trace}})
	if err != nil || said != "" || len(got) != 1 || got[0].Preset != "strict" || got[0].Metered == 0 {
		t.Errorf("without uplinks: %+v, %q, %v", got, said, err)
	}
	some := simulateOptions{profile: "leo", days: 5, seed: 1}
	got, _, err = simulateIn(t, "failover: {down: 30}", some)
	if err != nil || len(got) != 2 || got[0].Days != 5 || got[0].Preset != "leo as configured" || got[0].Seen < 20 {
		t.Errorf("made up: %+v, %v", got, err)
	}
}

// What cannot be used of a recording is named, with what to do.
func TestSimulateTraceFaults(t *testing.T) {
	config := fmt.Sprintf(leoAndLTE, "")
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte(strings.Repeat("nonsense\n", 9)), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{bad: "no line of it is a look at an uplink", bad + "x": "no such file"} {
		_, said, err := simulateIn(t, config, simulateOptions{traces: []string{file}})
		code, hint := 0, ""
		if err != nil {
			code, hint = explain(err)
		}
		if err == nil || !strings.Contains(err.Error(), want) || code != exitInput || hint == "" {
			t.Errorf("%v, %d, %q", err, code, hint)
		}
		if file == bad && (strings.Count(said, "is left out") != badLines || !strings.Contains(said, "line 1 is left out") || !strings.Contains(said, "9 lines in all")) {
			t.Errorf("%q", said)
		}
	}
	_, _, err := simulateIn(t, config, simulateOptions{traces: []string{recordingOf(t, time.Minute, "a", "b")}})
	if code, _ := explain(err); code != exitUsage || !strings.Contains(err.Error(), "no uplink of the recording") {
		t.Errorf("%d, %v", code, err)
	}
	got, said, err := simulateIn(t, config, simulateOptions{traces: []string{recordingOf(t, 5*time.Minute, "leo", "b"), recordingOf(t, 0, "x", "lte")}})
	if err != nil || got[0].Switches == 0 || strings.Count(said, "which is not configured") != 2 {
		t.Errorf("%+v, %q, %v", got, said, err)
	}
	var o bytes.Buffer
	sys := &system{config: configured(t, config), fs: disk.OS{}, stdout: &o, stderr: &o}
	asJSON := false
	cmd := newFailoverSimulateCommand(sys, &asJSON)
	cmd.SetArgs([]string{"--trace", bad, "--days", "3"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "--days: --trace has days of its own") {
		t.Errorf("%v", err)
	}
}

// A calendar is read where decisions are made. One that is missing or none is told of,
// and names no times until it can be read.
func TestCalendarOfUplink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "provider.ics")
	config := func(more string) string {
		return strings.Replace(fmt.Sprintf(leoAndLTE, `, targets: [{icmp: 192.0.2.1}, {tcp: "192.0.2.1:443"}]`), "interface: eth1", "interface: eth1, maintenance: [{ical: "+path+more+"}]", 1)
	}
	missing, err := configured(t, config("")).failover()
	if err != nil || len(missing.files) != 1 || missing.files[0].fault == nil || !strings.Contains(missing.files[0].fault.Error(), path) {
		t.Errorf("missing: %+v, %v", missing.files, err)
	}
	if _, err := configured(t, config("")).failoverAsked(); err != nil {
		t.Errorf("who only asks: %v", err)
	}
	text := "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260301T020500\nDURATION:PT15M\nEND:VEVENT\nEND:VCALENDAR\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := configured(t, config(", tz: America/New_York, hold: true")).failover()
	if err != nil || len(s.decide.Uplinks[0].Windows) != 1 || !s.decide.Uplinks[0].Windows[0].Hold {
		t.Fatalf("%+v, %v", s.decide.Uplinks, err)
	}
	if start, _ := s.decide.Uplinks[0].Windows[0].Window.Span(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)); start.Format(time.DateTime) != "2026-03-01 07:05:00" {
		t.Errorf("it begins at %v", start)
	}
	var faults []string
	configured(t, config(`, from: "02:00", tz: Nowhere`)).failoverSetup(func(key, format string, a ...any) { faults = append(faults, key+": "+fmt.Sprintf(format, a...)) })
	if len(faults) != 1 || !strings.Contains(faults[0], "maintenance[0].ical") {
		t.Errorf("%q", faults)
	}
	// By the file, the recorded outage was expected, and left before.
	got, _, err := simulateIn(t, config(""), simulateOptions{traces: []string{recordingOf(t, 5*time.Minute, "leo", "lte")}})
	if err != nil || got[0].Switches != 2 || got[0].Down != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
