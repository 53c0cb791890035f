package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/atomicfile"
	"trafficup/internal/disk"
	"trafficup/internal/edge"
	"trafficup/internal/failover"
)

// toldLoop is a loop that only tells.
func toldLoop(t *testing.T, out, said io.Writer) *failoverLoop {
	sys := &system{fs: disk.OS{}, stdout: out, stderr: said}
	return &failoverLoop{sys: sys, asJSON: true, store: edge.Store{FS: sys.fs, Dir: filepath.Join(t.TempDir(), "failover"), Boot: "this"}, tally: edge.NewTally(edge.Report{}, "this", 0),
		now: func() failover.Now { return failover.Now{Boot: time.Hour, Wall: time.Now()} }}
}

var aSwitch = failover.Event{What: failover.EventSwitch, Uplink: "lte", From: "leo", Verdict: failover.Up, Why: "no answer", After: failover.Seconds(12 * time.Second)}

// A failover is told as JSON with all that is known of it: by the loop, and by explain.
// What could not be done is a warning.
func TestFailoverToldAsJSON(t *testing.T) {
	var out, said bytes.Buffer
	l := toldLoop(t, &out, &said)
	l.tell(edge.Happening{Event: aSwitch})
	told := out.String()
	out.Reset()
	fatal(t, l.store.Save(edge.Report{Version: 1}))
	asJSON := true
	explain := newFailoverExplainCommand(l.sys, &asJSON)
	explain.SetArgs([]string{"--state-dir", l.store.Dir})
	fatal(t, explain.Execute())
	const all = `"event":"switch","uplink":"lte","from":"leo","verdict":"up","why":"no answer","after_s":12}` + "\n"
	for kind, text := range map[string]string{"status": told, "record": out.String()} {
		if !strings.HasPrefix(text, `{"message_type":"`+kind+`","at":"20`) || !strings.HasSuffix(text, all) {
			t.Errorf("%s, want %s", text, all)
		}
	}
	out.Reset()
	failed := edge.Happening{Event: failover.Event{What: edge.EventFailed, Why: "set routes: a\nb"}, Error: true}
	l.tell(failed)
	if text := out.String(); !strings.HasPrefix(text, `{"message_type":"warning","at":"20`) || said.Len() > 0 {
		t.Error(text, said.String())
	}
	l.asJSON = false
	l.tell(failed)
	l.tell(edge.Happening{Event: aSwitch})
	if want := "trafficup: warning: failed: set routes: a\ntrafficup: warning: b\ntrafficup: switch: lte after leo: leo is down\n"; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
}

// A status is for others; what a next run goes on from is not.
func TestFailoverStatusAsJSON(t *testing.T) {
	var out bytes.Buffer
	l := toldLoop(t, &out, io.Discard)
	rules, err := failover.Preset("leo")
	fatal(t, err)
	c := failover.Config{Uplinks: []failover.Uplink{{Name: "leo"}, {Name: "lte"}}, Rules: rules}
	s := c.New(l.now())
	s.AllDown, s.Health[1].NoRoute = true, true
	r := edge.NewReport(c, s, l.now(), "this", 1, nil)
	r.Counts = l.tally.Counts(time.Hour)
	fatal(t, writeFailoverJSON(l.sys, r, true))
	text := out.String()
	for _, want := range []string{`{"message_type":"status","running":true,"all_down":true,"version":1,`, `"no_route":true`, `"outlook":[{"uplink":"leo",`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	for _, no := range []string{`"state"`, `"counts"`, `"history"`} {
		if strings.Contains(text, no) {
			t.Errorf("%s in %s", no, text)
		}
	}
	if got := probesOf(r); got != "leo 0.0 MB; lte 0.0 MB" {
		t.Errorf("%q: nothing was asked yet", got)
	}
}

// Only somebody who has the lock runs; and a state that is none is told of.
func TestFailoverRunsOrNot(t *testing.T) {
	l := toldLoop(t, io.Discard, io.Discard)
	is := func(what string, want bool, fails bool) {
		t.Helper()
		if got, err := loopRuns(l.store); got != want || (err != nil) != fails {
			t.Errorf("%s: %v %v", what, got, err)
		}
	}
	is("there is no directory", false, false)
	fatal(t, l.store.MakeDir())
	is("nobody ran", false, false)
	unlock, err := atomicfile.TryLock(l.store.LockPath(), "failover")
	fatal(t, err)
	is("one runs", true, false)
	fatal(t, unlock())
	is("one ended", false, false)
	fatal(t, os.Remove(l.store.LockPath()))
	fatal(t, syscall.Mkfifo(l.store.LockPath(), 0o600))
	is("nobody can tell", false, true)

	fatal(t, os.WriteFile(filepath.Join(l.store.Dir, "state.json"), []byte(`{"version":1,"uplinks":[{"name":"leo"}]}`), 0o600))
	asJSON := false
	status := newFailoverStatusCommand(l.sys, &asJSON)
	status.SilenceErrors, status.SilenceUsage = true, true
	status.SetArgs([]string{"--state-dir", l.store.Dir})
	if err := status.Execute(); err == nil || !strings.Contains(err.Error(), "state.json: ") {
		t.Errorf("%v", err)
	}
}

// Who does not read what is told, or is gone, holds nothing up. What comes when it is
// read again is told, and that some was not.
func TestFailoverIsNotHeldUp(t *testing.T) {
	for name, gone := range map[string]bool{"full": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			from, to, err := os.Pipe()
			fatal(t, err)
			defer func() { _, _ = from.Close(), to.Close() }()
			if gone {
				fatal(t, from.Close())
			}
			said := new(heard)
			l := toldLoop(t, to, said)
			written := l.unhurried()
			start := time.Now()
			for range 2000 {
				l.tell(edge.Happening{Event: failover.Event{What: edge.EventRoutes, Why: strings.Repeat("x", 200)}})
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
			if gone {
				written()
				return
			}
			var read heard
			go func() { _, _ = io.Copy(&read, from) }()
			for end := time.Now().Add(20 * time.Second); !strings.Contains(said.String(), " lines were left out") || len(l.sys.stdout.(*unhurried).lines) > 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("said %q", said)
				}
			}
			l.tell(edge.Happening{Event: aSwitch})
			written()
			fatal(t, to.Close())
			for end := time.Now().Add(20 * time.Second); !strings.Contains(read.String(), `"event":"switch"`); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("what was told last was not read")
				}
			}
			if l.sys.stdout != io.Writer(to) {
				t.Error("what comes after is still not written at once")
			}
		})
	}
}

// A request that nobody could take is there for the next loop, one that could not be
// taken away is not taken twice.
func TestFailoverRequestsAreKept(t *testing.T) {
	said := new(heard)
	l := toldLoop(t, io.Discard, said)
	l.setup.decide.Uplinks = []failover.Uplink{{Name: "leo"}, {Name: "lte"}}
	fatal(t, l.store.Ask("lte", time.Hour+time.Minute, "a drill"))
	path := filepath.Join(l.store.Dir, "request.json")
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); l.ask(ctx, make(chan failover.Forced)) }()
		time.Sleep(50 * time.Millisecond)
		cancel()
		<-ended
		if _, err := os.Stat(path); err != nil {
			t.Fatal("it is gone with the one that did not take it:", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.store.FS = stays{l.store.FS}
	taken := make(chan failover.Forced)
	go l.ask(ctx, taken)
	if got, want := <-taken, (failover.Forced{Uplink: 1, Until: time.Hour + time.Minute, Why: "a drill"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	select {
	case got := <-taken:
		t.Errorf("again: %+v", got)
	case <-time.After(1200 * time.Millisecond):
	}
	if n := strings.Count(said.String(), "read-only"); n != 1 {
		t.Errorf("%d times: %s", n, said)
	}
}

// stays is a file system that takes nothing away.
type stays struct{ disk.FS }

func (stays) Remove(string) error { return errors.New("read-only file system") }
