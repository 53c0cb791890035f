package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trafficup/internal/config"
	"trafficup/internal/disk"
	"trafficup/internal/netshape"
)

// What is read again is looked at once, with all that it needs: a fault leaves all as it
// was, and what was good is what runs.
func TestFailoverReadAgain(t *testing.T) {
	dir, said := t.TempDir(), new(heard)
	calendar, file := filepath.Join(dir, "leo.ics"), filepath.Join(dir, "trafficup.yaml")
	write := func(dwell string) {
		t.Helper()
		fatal(t, os.WriteFile(file, []byte(`netshape: {interfaces: [{name: wan0, kind: fq_codel, up: 20mbit}]}
failover:
  uplinks: [{name: leo, interface: wan0, maintenance: [{ical: `+calendar+`, tz: Europe/Berlin}]}, {name: lte, role: backup, interface: wan1}]
  targets: [{icmp: 9.9.9.9}, {icmp: 8.8.8.8}]
  dwell: `+dwell+"\n"), 0o600))
	}
	event := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:20260101T000000Z\r\nDURATION:PT1H\r\nRRULE:FREQ=DAILY\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	fatal(t, os.WriteFile(calendar, []byte(event), 0o600))
	write("1m")
	var fails error
	sys := &system{fs: disk.OS{}, stderr: said, sources: config.Sources{File: file}, machine: func(string, string, ...string) (*netshape.Machine, error) {
		return new(netshape.Machine), fails
	}}
	l := &failoverLoop{sys: sys, shapeDir: dir}
	loaded, err := config.Load(sys.sources)
	fatal(t, err)
	l.failoverPlan, err = l.plan(Config{loaded})
	fatal(t, err)
	stays := func(why string) {
		t.Helper()
		if _, text := l.again(); !strings.Contains(text, why) || said.String() != "" {
			t.Errorf("%q, said %q; want %q", text, said, why)
		}
	}
	stays("nothing about failover has changed")
	write("2m")
	fails = errors.New("no queues here")
	stays("the configuration stays as it was: no queues here")
	fails = nil
	fatal(t, os.WriteFile(calendar, []byte("BEGIN"), 0o600))
	stays("the configuration stays as it was: failover.uplinks[0].maintenance[0].ical")
	fatal(t, os.WriteFile(calendar, []byte(event), 0o600))
	next, text := l.again()
	if text != "" || len(next.setup.decide.Uplinks[0].Windows) != 1 || next.queues == nil || !strings.Contains(said.String(), "from now on: failover.dwell 2m") {
		t.Errorf("%q, %+v, said %q", text, next, said)
	}
}
