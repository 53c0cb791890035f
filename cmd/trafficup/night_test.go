package main

import (
	"bytes"
	"context"
	"encoding/json/v2"
	mathrand "math/rand/v2"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"trafficup/internal/atomicfile"
	"trafficup/internal/disk"
	"trafficup/internal/nightgen"
	"trafficup/internal/sandbox"
)

// testSystem is a system for one in-process run.
func testSystem(args ...string) (sys system, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return system{
		args: args, stdin: strings.NewReader(""),
		stdout: stdout, stderr: stderr, soft: context.Background(), hard: context.Background(), signal: new(atomic.Int32), graceful: new(atomic.Bool),
		fs: disk.OS{}, lock: atomicfile.Lock, random: mathrand.Float64,
	}, stdout, stderr
}

// The night against an API that fails, loses answers, resets and throttles:
// every valid record is applied once, and the sums say so.
func TestNightIsAppliedExactlyOnce(t *testing.T) {
	sc, err := sandbox.ParseScenario([]byte(`
seed 7
limit 4000 per second, burst 2000, retry after 1s
answer 503 for 2% of calls
lose 1% of answers
reset 1% of calls
`))
	if err != nil {
		t.Fatal(err)
	}
	api := sandbox.New(sc)
	srv := httptest.NewServer(api)
	defer srv.Close()
	var want nightgen.Counts
	data, err := os.ReadFile(nightgen.ExpectedPath("../../testdata/night"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sys, stdout, stderr := testSystem("upload", "--url", srv.URL+"/v1/logs", "--state-dir", dir, "--concurrency", "8", "../../testdata/night")
	if code := run(sys); code != exitPerson {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	report := lastReport(t, dir)
	got := nightgen.Counts{
		Files: want.Files, Read: int(report.Read), Valid: int(report.Acked), Duplicate: int(report.Duplicate),
		Invalid: int(report.Invalid), Conflict: int(report.Conflict),
	}
	if got != want {
		t.Errorf("counts are %+v, want %+v", got, want)
	}
	applied := api.Applied()
	if len(applied) != want.Valid {
		t.Errorf("%d keys at the server, want %d", len(applied), want.Valid)
	}
	for key, times := range applied {
		if times != 1 {
			t.Errorf("%s was applied %d times", key, times)
		}
	}
	stats := api.Stats()
	if int64(stats.Requests) != report.Calls {
		t.Errorf("the server saw %d requests, we count %d", stats.Requests, report.Calls)
	}
	if stats.MaxInFlight > 8 {
		t.Errorf("%d requests in flight, want at most 8", stats.MaxInFlight)
	}
	if limit := float64(want.Valid)*1.1 + 10; float64(report.Calls) > limit {
		t.Errorf("%d calls, the budget allows %.0f", report.Calls, limit)
	}
}

func lastReport(t *testing.T, dir string) result {
	t.Helper()
	runs, err := os.ReadDir(dir + "/runs")
	if err != nil || len(runs) == 0 {
		t.Fatalf("no report: %v", err)
	}
	data, err := os.ReadFile(dir + "/runs/" + runs[len(runs)-1].Name() + "/report.json")
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}
