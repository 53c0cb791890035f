//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A hangup lets limits, windows and the log's level of a run change, names what
// waits for the next, and with a mistake changes nothing.
func TestHangupReadsTheConfigurationAgain(t *testing.T) {
	api, state := newSlowAPI(t), t.TempDir()
	conf := filepath.Join(state, "trafficup.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// At first one record an hour: what comes sooner, comes by the new limit.
	write("upload: {rate: 0.0003, concurrency: 2}")
	p := startSubprocess(t, "upload", "--config", conf, "--url", api.URL+"/v1/logs", "--state-dir", state, writeNight(t, 20))
	api.next(t)
	close(api.answers)
	write("upload: {rate: fast}")
	p.signal(syscall.SIGHUP)
	p.says("the configuration stays as it was: configuration: " + conf + `:1: upload.rate: "fast": write a number`)
	write("upload: {rate: 0.0003, concurrency: 2}")
	p.signal(syscall.SIGHUP)
	p.says("nothing has changed")
	write("upload: {rate: 500, concurrency: 4}\nmaintenance: [{path: primary, from: \"00:00\", to: \"24:00\"}]\nlog: {level: warning}")
	p.signal(syscall.SIGHUP)
	p.says(`from now on: upload.rate 500, maintenance [{path: primary, from: "00:00", to: "24:00"}], log.level warning`)
	p.says("with the next run: upload.concurrency 4")
	p.exits(exitOK)
	if r := lastReport(t, state); r.Acked != 20 {
		t.Errorf("%+v", r)
	}
	if said := p.stderr.String(); strings.Count(said, "from now on") != 1 {
		t.Error(fmt.Sprint(said))
	}
}
