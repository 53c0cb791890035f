//go:build linux

package main

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A run that starts before the network waits for it: no attempt is charged, and
// when it comes all is delivered.
func TestNetworkComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := waitDial(t, alone(takes), func(ctx context.Context, network, addr string, dial dialing) (net.Conn, error) {
			if time.Since(start) < 50*time.Second {
				return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ENETUNREACH}
			}
			return dial(ctx, network, addr)
		}, "upload", "--url", primaryURL, "--max-attempts", "1", writeNight(t, 300))
		w.all(t, 300)
	})
}

// One that never has a network ends after --halt-after, with nothing condemned.
func TestNoNetworkAtAll(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		lacks(t, "unshare (util-linux)")
	}
	self, err := exec.LookPath("trafficup")
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	cmd := exec.Command(unshare, "-n", self, "upload", "--url", "http://192.0.2.1/v1", "--state-dir", state, "--halt-after", "3s", "--max-attempts", "1", writeNight(t, 300))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() == 1 && strings.Contains(string(out), "unshare") {
		lacks(t, "rights to make a network namespace: "+string(out))
	}
	letters, _ := filepath.Glob(state + "/deadletters/*.ndjson")
	if r := lastReport(t, state); cmd.ProcessState.ExitCode() != exitWaiting || r.Halted != r.Read || len(letters) != 0 {
		t.Errorf("%v: %+v, letters %v\n%s", err, r.Counts, letters, out)
	}
}
