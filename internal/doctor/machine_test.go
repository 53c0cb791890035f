package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestZone(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 30, 0, 0, time.UTC)
	junk := filepath.Join(t.TempDir(), "zone")
	if err := os.WriteFile(junk, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for tz, want := range map[string]string{
		"": "ok time zone: 12:30 UTC", "UTC": "ok time zone: ", "America/New_York": "ok time zone: ", ":Europe/Berlin": "ok time zone: ",
		"Mars/Olympus": `warning time zone: $TZ is "Mars/Olympus"`, junk: "warning time zone: is no zone", junk + "/none": "warning time zone: ",
		"EST5EDT,M3.2.0,M11.1.0": "warning time zone: ",
	} {
		expect(t, []Finding{Zone(tz, now)}, want)
	}
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{"HOME": "/home/op", "LANG": "C"}
	e := Environment{Getenv: func(name string) string { return env[name] }, StateDir: "/s"}
	proc := tree(map[string]string{"self/status": "Umask:\t0077\n"})
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	e.Stdin = null
	expect(t, e.Look(proc), "ok environment: HOME=/home/op no PATH no TZ LANG=C umask=0077; stdin is no terminal", "ok config file: none is found")
	e.Stdin, e.StateDir = nil, ""
	all := e.Look(proc)
	expect(t, all, "ok environment: ", "warning environment: neither $HOME nor $STATE_DIRECTORY", "ok config file: ")
	if strings.Contains(all[0].Message, "stdin") {
		t.Errorf("%q", all[0].Message)
	}
}

// A file that depends on where the program is started is not found by cron.
func TestConfigFile(t *testing.T) {
	env := map[string]string{}
	for _, c := range []struct {
		file, variable string
		named          bool
		want           string
	}{
		{"trafficup.yaml", "", false, "warning config file: trafficup.yaml is found only from this directory"},
		{"conf/x.yaml", "conf/x.yaml", false, "warning config file: conf/x.yaml is found only"},
		{"conf/x.yaml", "", true, "warning config file: conf/x.yaml is found only"},
		{"/srv/x.yaml", "", true, "ok config file: --config names it"},
		{"/srv/x.yaml", "/srv/x.yaml", false, "ok config file: $TRAFFICUP_CONFIG names it; from / with an empty environment: "},
		{systemFile, "", false, "ok config file: found from any directory"},
		{"/home/op/.config/trafficup/trafficup.yaml", "", false, "ok config file: found by $HOME"},
	} {
		env["TRAFFICUP_CONFIG"] = c.variable
		f := Environment{Getenv: func(name string) string { return env[name] }, ConfigFile: c.file, Named: c.named}.config()
		expect(t, []Finding{f}, c.want)
		if whole, err := filepath.Abs(c.file); err != nil || f.Result != OK && !strings.Contains(f.Do, whole) {
			t.Errorf("do %q, %v", f.Do, err)
		}
	}
}

func TestStream(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if got := stream(r); got != "a pipe" {
		t.Error(got)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := stream(r); got != "closed" {
		t.Error(got)
	}
}
