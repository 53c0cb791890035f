//go:build linux

package linklab

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var edgeFull = flag.Bool("linklab.edge", false, "play the whole night at the edge node, with an outage of five minutes")

// TestEdgeNight uploads through an edge node whose satellite is gone for a while:
// the node changes to its other uplink and back, and no record is lost for it. The
// handovers of satellites are no reason to change.
func TestEdgeNight(t *testing.T) {
	wanted(t)
	got := playEdges(t)
	for _, row := range Edges() {
		for _, e := range row {
			if e.Quick != *edgeFull {
				t.Run(e.Name, func(t *testing.T) { checkEdge(t, e, got[e.Name]) })
			}
		}
	}
}

func playEdges(t *testing.T) map[string]EdgeRun {
	limit := 2 * time.Minute
	if *edgeFull {
		limit = 14 * time.Minute
	}
	dir := t.TempDir()
	guest := build(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), limit+time.Minute)
	defer cancel()
	results := map[string]EdgeRun{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for k, row := range Edges() {
		dir := filepath.Join(dir, fmt.Sprint(k))
		args := []string{dir, limit.String()}
		for _, e := range row {
			if e.Quick != *edgeFull {
				args = append(args, e.Name)
			}
		}
		wg.Go(func() {
			runs, err := boot[EdgeRun](ctx, dir, guest, args)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, r := range runs {
				results[r.Name] = r
			}
		})
	}
	wg.Wait()
	return results
}

func checkEdge(t *testing.T, e Edge, r EdgeRun) {
	if r.Name == "" {
		t.Fatal("no result")
	}
	t.Logf("RTT %.1f ms; %d records in %.1f s, %d calls, amplification %.3f, applied %d, repeated %d", r.RTTms, r.Summary.Acked, r.Seconds,
		r.Summary.Calls, r.Summary.Amplification, r.Sandbox.Applied, r.Sandbox.Repeated)
	t.Logf("records in each second: %d", r.PerSecond)
	for k, name := range []string{"leo", "lte"} {
		t.Logf("%s carried in each second: %d", name, r.Carried[k])
	}
	for _, s := range r.Switches {
		t.Logf("%6.1f s: %s after %q: %s", s.At, s.To, s.From, s.Why)
	}
	for _, w := range r.Warnings {
		t.Logf("%d times: %s", w.Times, w.Message)
	}
	t.Log(r.Said)
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	if r.Exit != 0 || r.Summary.Acked != e.Records || r.Sandbox.Applied != e.Records {
		t.Errorf("exit %d, %d of %d records acked, %d applied: %s", r.Exit, r.Summary.Acked, e.Records, r.Sandbox.Applied, r.Summary.Result)
	}
	if r.Summary.Amplification > 1.1 {
		t.Errorf("amplification is %.3f, want at most 1.1", r.Summary.Amplification)
	}
	if n := e.Needless(r.Switches); n > 0 {
		t.Errorf("%d needless switches", n)
	}
	checkSwitches(t, e, r)
}

// checkSwitches holds that the satellite is used, left when it is gone, and used again.
func checkSwitches(t *testing.T, e Edge, r EdgeRun) {
	want := []string{"leo"}
	if e.Dark.To > 0 {
		want = append(want, "lte", "leo")
	}
	if len(r.Switches) != len(want) {
		t.Fatalf("%d switches, want %q", len(r.Switches), want)
	}
	for i, s := range r.Switches {
		if s.To != want[i] {
			t.Fatalf("switch %d is to %s, want %q", i, s.To, want)
		}
	}
	if e.Dark.To == 0 {
		if n := r.Bytes(1, 0, e.Length); n > 0 {
			t.Errorf("the backup carried %d bytes", n)
		}
		return
	}
	away, back := r.Switches[1].At, r.Switches[2].At
	seen := away - e.Dark.From.Seconds()
	t.Logf("seen after %.1f s, back %.1f s after the satellite was", seen, back-e.Dark.To.Seconds())
	if seen > 14 {
		t.Errorf("the outage was seen after %.1f s, want 14 at most", seen)
	}
	const late = 1 // second: by which a switch may be told after it was decided
	if back < e.Dark.To.Seconds() || back-away < e.Dwell.Seconds()-late {
		t.Errorf("back at %.1f s, away since %.1f: want %s there, and the satellite at %s", back, away, e.Dwell, e.Dark.To)
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	// Bytes are counted in whole seconds of the clock.
	during, after := r.Bytes(1, seconds(away), seconds(back)), r.Bytes(0, seconds(back), e.Length)
	if during == 0 || after == 0 {
		t.Errorf("the backup carried %d bytes in the outage, the satellite %d after it", during, after)
	}
}
