package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trafficup/internal/api"
	"trafficup/internal/config"
)

func TestByHand(t *testing.T) {
	dir := t.TempDir()
	for name, n := range map[string]int{"one": 400, "half": few / 2, "whole": few, "night": few + 1} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	size := func(name string) int64 { return fileSize(filepath.Join(dir, name)) }
	const nobody, terminal, typing = 0, 1, 2
	for _, c := range []struct {
		at   int
		args string
		want bool
	}{
		{nobody, "one", false},
		{nobody, "-", false},
		{terminal, "one", true},
		{typing, "one", true},
		{terminal, "whole", true},
		{terminal, "half half", true},
		{terminal, "half half one", false},
		{terminal, "night", false},
		{terminal, ".", false},    // a directory is a night's
		{terminal, "gone", false}, // what is missing says nothing
		{terminal, "-", false},    // from a pipe, of whatever length
		{typing, "-", true},
		{terminal | typing, "one -", true},
		{terminal | typing, "night -", false},
	} {
		if got := byHand(c.at&terminal != 0, c.at&typing != 0, strings.Fields(c.args), size); got != c.want {
			t.Errorf("%d, %s: %v", c.at, c.args, got)
		}
	}
}

func TestMarking(t *testing.T) {
	if !api.CanMark {
		t.Skip("marks are for Linux")
	}
	own := []config.TrafficClass{{Name: "bulk", DSCP: "cs1"}, {Name: "interactive"}, {Name: "none", DSCP: "ef"}}
	for _, c := range []struct {
		class, setting, path string
		own                  []config.TrafficClass
		want                 int
	}{
		{class: bulk, setting: "auto", want: 1},
		{class: interactive, setting: "auto", want: 18},
		{class: bulk, setting: "interactive", want: 18},
		{class: interactive, setting: "bulk", want: 1},
		{class: bulk, setting: "none", want: 0},
		{class: bulk, setting: "auto", own: own, want: 8},
		{class: interactive, setting: "auto", own: own, want: 18},
		{class: bulk, setting: "none", own: own, want: 0},
		{class: bulk, setting: "auto", path: "ef", want: 46},
		{class: bulk, setting: "auto", path: "0", want: 0},
		{class: bulk, setting: "auto", path: "default", want: 0},
		{class: bulk, setting: "none", path: "63", want: 63},
	} {
		conf := Config{&config.Loaded{Config: config.Default()}}
		conf.Upload.Class, conf.Netshape.Classes = c.setting, c.own
		got, err := conf.marking(c.class, func(string) {}).of(pathSetup{Path: config.Path{DSCP: c.path}})
		if err != nil || got != c.want {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
}

// What is no mark is refused before anything is sent.
func TestMarksRefused(t *testing.T) {
	for option, says := range map[string]string{
		"paths.primary.dscp=64": `"64" is no DSCP: want a name such as le, cs1, af21, ef, or a number from 0 to 63`,
		"paths.primary.dscp=-1": `"-1" is no DSCP`, "paths.primary.dscp=bulk": `"bulk" is no DSCP`, "paths.primary.dscp=af14": `"af14" is no DSCP`,
		"netshape.classes=[{name: bulk, dscp: '64', match: {ports: [443]}}]": `"64" is no DSCP`,
		"upload.class=le": "upload.class",
	} {
		sys, stdout, stderr := testSystem()
		sys.args = []string{"upload", "--url", "http://192.0.2.1/", "--state-dir", t.TempDir(), "--set", option, writeNight(t, 1)}
		if code := run(sys); code != exitUsage || !strings.Contains(stderr.String(), says) {
			t.Errorf("%s: exit %d\n%s%s", option, code, stdout, stderr)
		}
	}
}
