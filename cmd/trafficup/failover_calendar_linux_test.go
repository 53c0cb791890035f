package main

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"trafficup/internal/config"
	"trafficup/internal/disk"
	"trafficup/internal/failover"
)

// A calendar that cannot be read is no reason not to begin: it is told, and read as soon
// as it can be.
func TestFailoverBeginsWithoutCalendar(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "zone": calendarAt("DTSTART;TZID=\"Eastern Standard\":20260301T020000"), "missing": "-"} {
		calendar := filepath.Join(t.TempDir(), "leo.ics")
		if text != "-" {
			fatal(t, os.WriteFile(calendar, []byte(text), 0o600))
		}
		file := writeConfig(t, `failover:
  uplinks: [{name: leo, interface: wan0, maintenance: [{ical: `+calendar+`}]}, {name: lte, role: backup, interface: wan1}]
  targets: [{icmp: 9.9.9.9}, {icmp: 8.8.8.8}]
`)
		loaded, err := config.Load(config.Sources{File: file})
		fatal(t, err)
		setup, err := Config{loaded}.failover()
		fatal(t, err)
		said := strings.Join(setup.unreadWarnings(), "\n")
		if !strings.Contains(said, "failover.uplinks[0].maintenance[0].ical: calendar") || !strings.Contains(said, calendar) || !strings.Contains(said, "; mend the file") {
			t.Errorf("%s: %q", name, said)
		}
		now := time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)
		if setup.decide.InWindow(0, now) {
			t.Errorf("%s: in a window of nothing", name)
		}
		self, err := os.Executable()
		fatal(t, err)
		if out, err := exec.Command(self, "config", "check", "--config", file).CombinedOutput(); err != nil || !strings.Contains(string(out), "warning: ") || !strings.Contains(string(out), calendar) {
			t.Errorf("%s: config check: %v, %s", name, err, out)
		}
		fatal(t, os.WriteFile(calendar, []byte(calendarAt("DTSTART:20260301T020000Z")), 0o600))
		if changed, err := setup.files[0].file.Renew(now); !changed || err != nil || !setup.decide.InWindow(0, now) {
			t.Errorf("%s: mended: changed %v, %v", name, changed, err)
		}
	}
}

func calendarAt(start string) string {
	return "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\n" + start + "\r\nDURATION:PT1H\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
}

// stuckDisk answers nobody until the end of the test.
type stuckDisk struct {
	disk.OS
	until context.Context
}

func (d stuckDisk) OpenFile(string, int, fs.FileMode) (disk.File, error) {
	<-d.until.Done()
	return nil, d.until.Err()
}

// A disk that hangs under the recording delays neither another turn nor the end.
func TestFailoverRecordingHangs(t *testing.T) {
	until, release := context.WithCancel(t.Context())
	loaded := &config.Loaded{Config: config.Default()}
	loaded.Failover.Record = "trace"
	l := &failoverLoop{sys: &system{fs: stuckDisk{until: until}, stderr: new(heard)}, failoverPlan: failoverPlan{config: Config{loaded}}, now: func() failover.Now { return failover.Now{Wall: time.Now()} }}
	l.setup.decide.Uplinks = []failover.Uplink{{Name: "leo"}}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	write := l.recording()
	work.Go(func() { write(ctx) })
	for range 3 { // turns, each with one of its own
		record := l.record()
		for range 1000 {
			record(0, failover.Round{OK: true})
		}
	}
	cancel()
	began := time.Now()
	shortly(work.Wait)
	if took := time.Since(began); took < 900*time.Millisecond || took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
	release()
	work.Wait()
}
