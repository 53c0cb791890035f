package main

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"testing"
)

// File systems that cannot keep a ledger, and some that can hardly.
func TestDoctorLooksAtTheMedium(t *testing.T) {
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		lacks(t, "the right to mount: run it as root, with unshare (util-linux) installed")
	}
	program, err := exec.LookPath("trafficup")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		mount, then, sub string
		code             int
		want             []string
	}{
		"memory":             {"-o size=1g,mode=700", "mkdir -m 700 sandbox", "", exitOK, []string{`(?m)^warning +state medium +tmpfs: .* reboot\n +give a --state-dir`, `(?m)^ok +state space +1\.1 GB free`}},
		"little room":        {"-o size=100m,mode=700", "mkdir -m 700 sandbox", "", exitOK, []string{`(?m)^warning +state space +10\d\.\d MB free.*\n +make room`}},
		"no room":            {"-o size=8m,mode=700", "mkdir -m 700 sandbox", "", exitFailed, []string{`(?m)^failed +state space +8\.\d MB free`, `(?m)^ok +state writing`}},
		"no files":           {"-o size=1g,nr_inodes=5,mode=700", "mkdir -m 700 sandbox", "", exitFailed, []string{`(?m)^failed +state space .*room for 3 files`}},
		"read only":          {"-o mode=700", "mkdir -m 700 sandbox; cd /; mount -o remount,ro $dir", "", exitFailed, []string{`(?m)^failed +state directory +cannot be written: .*read-only file system\n +make it writable`}},
		"to be made, ro":     {"", "cd /; mount -o remount,ro $dir", "/a/b", exitFailed, []string{`(?m)^failed +state directory .*is not there, and cannot be made: .*read-only`}},
		"to be made, memory": {"-o size=1g", ":", "/a/b", exitOK, []string{`(?m)^ok +state directory .*is not there yet`, `(?m)^warning +state medium +tmpfs`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := fmt.Sprintf(`dir=%s
mount -t tmpfs %s tmpfs $dir || exit 99
(cd $dir; %s) || exit 99
%s doctor --sandbox --state-dir $dir%s
code=$?
[ "$(find $dir -type f)" = "" ] || exit 98
exit $code`, dir, c.mount, c.then, program, c.sub)
			out, err := exec.Command("unshare", "-m", "sh", "-c", script).CombinedOutput()
			code := 0
			if exit, is := errors.AsType[*exec.ExitError](err); is {
				code = exit.ExitCode()
			}
			if code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).Match(out) {
					t.Errorf("no %s in\n%s", want, out)
				}
			}
		})
	}
}
