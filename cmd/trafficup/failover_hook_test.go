//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/config"
	"trafficup/internal/failover"
)

// heard collects what several say.
type heard struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.String()
}

// hookBench is a loop of which only the hook is of interest.
type hookBench struct {
	loop   *failoverLoop
	said   *heard
	failed *atomic.Int32
	stop   func() time.Duration // which it took
}

func newHookBench(t *testing.T, timeout time.Duration, script string) *hookBench {
	b := &hookBench{said: new(heard), failed: new(atomic.Int32)}
	c := config.Default()
	c.Failover.Hook, c.Failover.HookTimeout = []string{"/bin/sh", "-c", script}, timeout
	sys := &system{stderr: b.said, environ: append(os.Environ(), "NOTIFY_SOCKET=/x", "WATCHDOG_USEC=1", "FAILOVER_TO=nobody")}
	b.loop = &failoverLoop{sys: sys, failoverPlan: failoverPlan{config: Config{&config.Loaded{Config: c}}}, hooks: newHooks(sys, b.said, func() { b.failed.Add(1) })}
	b.loop.setup.decide.Uplinks = []failover.Uplink{{Name: "leo"}, {Name: "lte", Metered: true}}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { b.loop.hooks.run(ctx) })
	b.stop = func() time.Duration {
		start := time.Now()
		cancel()
		all.Wait()
		return time.Since(start)
	}
	t.Cleanup(func() { b.stop() })
	return b
}

func (b *hookBench) soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in time\n%s", what, b.said)
		}
	}
}

func TestHookKnowsOfTheSwitch(t *testing.T) {
	b := newHookBench(t, time.Minute, `env | grep -E "^(FAILOVER|NOTIFY|WATCHDOG)" | sort; echo end`)
	b.loop.hook(failover.Event{What: failover.EventSwitch, Uplink: "lte", From: "leo", Why: "no carrier", Expected: true})
	b.loop.hook(failover.Event{What: failover.EventSwitch, Uplink: "leo", Why: "it answers"})
	b.soon(t, "both", func() bool { return strings.Count(b.said.String(), "end\n") == 2 })
	const want = "FAILOVER_EXPECTED=1\nFAILOVER_FROM=leo\nFAILOVER_METERED=1\nFAILOVER_TO=lte\nFAILOVER_WHY=no carrier\nend\n" +
		"FAILOVER_EXPECTED=0\nFAILOVER_FROM=\nFAILOVER_METERED=0\nFAILOVER_TO=leo\nFAILOVER_WHY=it answers\nend\n"
	if got := b.said.String(); got != want || b.failed.Load() != 0 {
		t.Errorf("%s", got)
	}
}

// One that hangs is killed with all that it started, and said so; those that wait are
// run in their order, and when there are too many the last ones.
func TestHookThatHangs(t *testing.T) {
	dir := t.TempDir()
	b := newHookBench(t, 700*time.Millisecond, `test $FAILOVER_TO != hangs || { sleep 999 & echo $! > `+dir+`/child; wait; }; echo ran $FAILOVER_TO`)
	b.loop.hook(failover.Event{Uplink: "hangs"})
	var child int
	b.soon(t, "the child", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "child"))
		if err == nil {
			child, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})
	start := time.Now()
	for _, name := range strings.Fields("a b c d e f g h i j") {
		b.loop.hook(failover.Event{Uplink: name})
	}
	if took := time.Since(start); took > 300*time.Millisecond {
		t.Errorf("who switches waited %v for a hook", took)
	}
	b.soon(t, "the last", func() bool { return strings.Contains(b.said.String(), "ran j\n") })
	got := b.said.String()
	for _, want := range []string{
		"hook /bin/sh was not run for the switch to a: more than 8 were waiting\n", "hook /bin/sh was not run for the switch to b: more than 8",
		"hook /bin/sh for the switch to hangs: it took longer than 700ms (signal: killed)\nran c\nran d\nran e\nran f\nran g\nran h\nran i\nran j\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if n := b.failed.Load(); n != 3 {
		t.Errorf("%d failures were counted", n)
	}
	b.soon(t, "the end of its child", func() bool { return gone(child) })
}

// The end of failover is not put off by a hook: the one that runs has a second, those
// that wait are not run.
func TestHookAtTheEnd(t *testing.T) {
	b := newHookBench(t, time.Minute, `echo begins; sleep 999`)
	b.loop.hook(failover.Event{Uplink: "leo"})
	b.loop.hook(failover.Event{Uplink: "lte"})
	b.soon(t, "the first", func() bool { return strings.Contains(b.said.String(), "begins") })
	if took := b.stop(); took < 900*time.Millisecond || took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	got := b.said.String()
	if !strings.Contains(got, "for the switch to leo: failover ended (signal: killed)") || !strings.Contains(got, "was not run for the switch to lte: failover ended") || strings.Count(got, "begins") != 1 {
		t.Error(got)
	}
}

// Exit codes and programs that there are not are told.
func TestHookThatFails(t *testing.T) {
	b := newHookBench(t, time.Minute, "exit 3")
	b.loop.hook(failover.Event{Uplink: "leo"})
	b.soon(t, "its code", func() bool { return strings.Contains(b.said.String(), "for the switch to leo: exit status 3") })
	b.loop.config.Failover.Hook = []string{"/no/such/program"}
	b.loop.hook(failover.Event{Uplink: "lte"})
	b.soon(t, "that there is none", func() bool {
		return strings.Contains(b.said.String(), "hook /no/such/program for the switch to lte: fork/exec /no/such/program: no such file")
	})
	b.soon(t, "both", func() bool { return b.failed.Load() == 2 })
}

// gone reports that a process has ended, be it that nobody has waited for it yet.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ") || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
