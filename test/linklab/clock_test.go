//go:build linux

package linklab

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestClocks sets the clock of a kernel, by days and by decades, while uploads wait
// and send: waits, deadline and breaker do not care, and nothing that was delivered
// is sent again.
func TestClocks(t *testing.T) {
	wanted(t)
	for name, r := range playClocks(t) {
		t.Run(name, func(t *testing.T) {
			if r.Error != "" {
				t.Fatal(r.Error)
			}
			checkClock(t, r)
		})
	}
}

func playClocks(t *testing.T) map[string]ClockRun {
	dir := t.TempDir()
	guest := build(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	results := map[string]ClockRun{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for k, row := range Clocks() {
		var names []string
		for _, c := range row {
			names = append(names, c.Name)
			results[c.Name] = ClockRun{Error: "no result"}
		}
		wg.Go(func() {
			dir := filepath.Join(dir, fmt.Sprint(k))
			rs, err := boot[ClockRun](ctx, dir, guest, []string{dir, limit.String(), strings.Join(names, ",")})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, r := range rs {
				results[r.Name] = r
			}
		})
	}
	wg.Wait()
	return results
}

func checkClock(t *testing.T, r ClockRun) {
	var report struct {
		Read        int     `json:"read"`
		Acked       int     `json:"acked"`
		AckedBefore int     `json:"acked_before"`
		Margin      float64 `json:"deadline_margin_s"`
		Transitions int     `json:"breaker_transitions"`
	}
	if err := json.Unmarshal([]byte(r.Report), &report); err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f s, %d requests, %+v", r.Seconds, len(r.Requests), report)
	if r.Exit != 0 || report.Acked+report.AckedBefore != report.Read {
		t.Errorf("exit %d, %+v\n%s%s", r.Exit, report, r.Said, r.Log)
	}
	// The deadline began after the upload and before its first request.
	span := 0.0
	if n := len(r.Requests); n > 0 {
		span = r.Requests[n-1]
	}
	if used := 60 - report.Margin; used < span || used > r.Seconds {
		t.Errorf("%.1f s of the deadline are used, want at least %.1f and at most %.1f", used, span, r.Seconds)
	}
	notNegative(t, r.Report)
	for line := range strings.Lines(r.Log) {
		notNegative(t, line)
	}
	said := func(what string) bool { return strings.Contains(r.Said, what) }
	if got, want := said("before this program was made"), r.Name == "clock-from-1970"; got != want {
		t.Errorf("warned of the clock: %v\n%s", got, r.Said)
	}
	if got, want := said("ahead of all that the ledger holds"), r.Name == "clock-ahead"; got != want {
		t.Errorf("warned of a leap: %v\n%s", got, r.Said)
	}
	switch r.Name {
	case "clock-steps":
		checkPause(t, r, 5*time.Second)
	case "clock-from-1970", "clock-to-1970":
		if len(r.Requests) != 40 {
			t.Errorf("%d requests, want 40", len(r.Requests))
		}
	default:
		if len(r.Requests) != 0 {
			t.Errorf("%d records were sent again\n%s", len(r.Requests), r.Said)
		}
	}
	if report.Transitions != 0 {
		t.Errorf("%d breaker transitions", report.Transitions)
	}
}

// checkPause holds that the requests stood still for that long, and not much longer
// than a timer that was set when they were told to.
func checkPause(t *testing.T, r ClockRun, want time.Duration) {
	gap := 0.0
	for i := 1; i < len(r.Requests); i++ {
		gap = max(gap, r.Requests[i]-r.Requests[i-1])
	}
	t.Logf("a pause of %.2f s, a timer was late by %.3f s", gap, r.Late)
	if r.Late == 0 {
		t.Error("no timer has gone off")
	}
	if gap < want.Seconds() || gap > want.Seconds()+r.Late+1.5 {
		t.Errorf("a pause of %.2f s, want %s", gap, want)
	}
}

// negative is a duration or a number below nothing, in a text.
var negative = regexp.MustCompile(`(^|[ (])-[0-9]`)

// notNegative holds that no number in a JSON object is, nor any duration in a text.
func notNegative(t *testing.T, object string) {
	var v any
	if err := json.Unmarshal([]byte(object), &v); err != nil {
		t.Fatalf("%q: %v", object, err)
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case float64:
			if v < 0 {
				t.Errorf("%s is %v in %s", at, v, object)
			}
		case string:
			if negative.MatchString(v) {
				t.Errorf("%s is %q", at, v)
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprint(at, "[", i, "]"), e)
			}
		case map[string]any:
			for k, e := range v {
				walk(at+"."+k, e)
			}
		}
	}
	walk("", v)
}
