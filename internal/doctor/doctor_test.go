package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lacks ends a test for which this machine lacks a part; where all parts have to
// be there, it fails.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("this machine lacks %s", what)
	}
	t.Skipf("this machine lacks %s", what)
}

// short is a finding as a test names it.
func short(f Finding) string { return fmt.Sprintf("%s %s: %s", f.Result, f.What, f.Message) }

// expect compares findings with patterns: a result and what, ": " and what the
// message has in it. What is not ok says what to do, and nothing else does.
func expect(t *testing.T, all []Finding, want ...string) {
	t.Helper()
	if len(all) != len(want) {
		t.Errorf("%d findings, want %d", len(all), len(want))
	}
	for n, f := range all {
		if (f.Result != OK) != (f.Do != "") {
			t.Errorf("%s: do %q", short(f), f.Do)
		}
		if n >= len(want) {
			t.Errorf("%s", short(f))
			continue
		}
		head, has, _ := strings.Cut(want[n], ": ")
		if got := string(f.Result) + " " + f.What; got != head || !strings.Contains(f.Message, has) {
			t.Errorf("%s, want %s", short(f), want[n])
		}
	}
}

// Checks run side by side, come out in their order, and one that hangs costs its
// bound and no more.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		takes := func(what string, d time.Duration) Check {
			return Check{What: what, Look: func(context.Context) []Finding {
				time.Sleep(d)
				return []Finding{ok(what, "seen")}
			}}
		}
		start := time.Now()
		var got []string
		err := Run(t.Context(), []Check{
			takes("slow", 3*time.Second),
			{What: "hangs", Path: "primary", Bound: 2 * time.Second, Look: func(context.Context) []Finding { <-release; return nil }},
			{What: "heeds", Look: func(ctx context.Context) []Finding {
				<-ctx.Done()
				return []Finding{ok("heeds", "after %v", time.Since(start))}
			}},
			takes("fast", 0),
			{What: "nothing", Look: func(context.Context) []Finding { return nil }},
		}, func(f Finding) error {
			got = append(got, f.Path+"|"+short(f))
			return nil
		})
		want := []string{"|ok slow: seen", "primary|failed hangs: nothing came back within 2s", "|ok heeds: after 5s", "|ok fast: seen"}
		if took := time.Since(start); err != nil || !slices.Equal(got, want) || took != Bound {
			t.Errorf("%q after %v, %v", got, took, err)
		}
		close(release)
	})
}

// When nobody listens, or a signal comes, nothing more is told, and what has
// begun is waited for.
func TestRunStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := errors.New("deaf")
		var ended atomic.Int32
		checks := make([]Check, 3)
		for n := range checks {
			checks[n].Look = func(context.Context) []Finding {
				time.Sleep(time.Duration(n) * time.Second)
				ended.Add(1)
				return []Finding{ok("it", "")}
			}
		}
		told := 0
		if err := Run(t.Context(), checks, func(Finding) error { told++; return deaf }); err != deaf || told != 1 || ended.Load() != 3 {
			t.Errorf("%v, %d told, %d ended", err, told, ended.Load())
		}
		ctx, stop := context.WithCancel(t.Context())
		told = 0
		ended.Store(0)
		err := Run(ctx, checks, func(Finding) error { told++; stop(); return nil })
		if !errors.Is(err, context.Canceled) || told != 1 || ended.Load() != 3 {
			t.Errorf("%v, %d told, %d ended", err, told, ended.Load())
		}
	})
}
