package edgelab

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// What was saved may be older than the routes: of a disk that was full, say. One that
// starts then goes on with the uplink that carries, and not with a dead one.
func TestStateIsOlderThanTheRoutes(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	state := b.dir + "/state/state.json"
	b.chosen()
	b.soon("a state", 15*time.Second, func() bool { _, err := os.Stat(state); return err == nil && b.status().Active == "leo" })
	old, err := os.ReadFile(state)
	fatal(t, err)
	b.in("isp0", drop(""))
	b.soon("lte", 20*time.Second, func() bool { return b.active() == "lte" })
	b.stop(syscall.SIGKILL)
	fatal(t, os.WriteFile(state, old, 0o644))
	b.start()
	for range 20 {
		if got := b.active(); got != "lte" {
			t.Fatalf("%s carries\n%s", got, b.said)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
