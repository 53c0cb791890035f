package edgelab

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startOn runs failover with a file system of its own at its state directory, made
// by a script in which DIR stands for that.
func (b *bench) startOn(script string) {
	b.t.Helper()
	b.said = new(lines)
	dir := b.dir + "/state"
	b.run = exec.Command("ip", "netns", "exec", b.prefix+"edge", "unshare", "-m", "sh", "-ec",
		"mkdir -p "+dir+"; "+strings.ReplaceAll(script, "DIR", dir)+"\nexec \"$@\"", "sh", b.program, "failover", "run", "--config", b.config, "--state-dir", dir)
	b.run.Stdout, b.run.Stderr = b.said, b.said
	fatal(b.t, b.run.Start())
	b.t.Cleanup(func() { b.stop(syscall.SIGKILL) })
}

// A directory that takes nothing, from the start or from some day on, is told of
// once, and decisions go on. When it takes something again all is as usual.
func TestStateDirectoryIsFull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, later, mended string }{
		"full":      {"mount -t tmpfs -o size=64k tmpfs DIR; head -c 65536 /dev/zero > DIR/full", "", "rm DIR/full"},
		"full soon": {"mount -t tmpfs -o size=64k tmpfs DIR", "head -c 100000 /dev/zero > DIR/full || true", "rm DIR/full"},
		"read-only": {"mount -t tmpfs tmpfs DIR", `echo '{"uplink":"lte","for":60000000000,"why":"a test"}' > DIR/request.json; mount -o remount,ro DIR`, "rm -f DIR/request.json; mount -o remount,rw DIR; rm -f DIR/request.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, quick, masquerade)
			inside := func(script string) {
				t.Helper()
				script = strings.ReplaceAll(script, "DIR", b.dir+"/state")
				if out, err := exec.Command("nsenter", "-m", "-t", fmt.Sprint(b.run.Process.Pid), "sh", "-c", script).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", script, err, out)
				}
			}
			b.startOn(c.script)
			b.soon("the first choice", 20*time.Second, func() bool { return b.active() == "leo" && strings.Contains(b.said.String(), "switch: leo") })
			if c.later != "" {
				inside(c.later)
			}
			b.loses(true)
			b.soon("the backup", 20*time.Second, func() bool { return b.active() == "lte" })
			b.reach()
			b.loses(false)
			b.soon("the preferred one", 30*time.Second, func() bool { return b.active() == "leo" })
			for _, what := range []string{"state.json", "history.json", "request.json"} {
				if n := strings.Count(b.said.String(), what); n > 2 {
					t.Errorf("%s is told of %d times\n%s", what, n, b.said)
				}
			}
			if !strings.Contains(b.said.String(), "save the state") {
				t.Errorf("it does not say that the state is not saved\n%s", b.said)
			}
			inside(c.mended)
			b.soon("the state", 12*time.Second, func() bool {
				out, err := exec.Command("nsenter", "-m", "-t", fmt.Sprint(b.run.Process.Pid), b.program, "failover", "status", "--config", b.config, "--state-dir", b.dir+"/state").Output()
				return err == nil && strings.Contains(string(out), "leo")
			})
		})
	}
}
