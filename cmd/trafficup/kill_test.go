//go:build unix

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/deadletter"
	"trafficup/internal/disk"
	"trafficup/internal/disk/disktest"
	"trafficup/internal/journal"
	"trafficup/internal/sandbox"
)

// A night of 5,000 records whose upload is killed 200 times, at any moment:
// what the server applied and what the letters hold is the input, once each.
func TestKilledTwoHundredTimes(t *testing.T) {
	kills, records := 200, 5000
	if raceDetector {
		kills, records = 10, 500 // a process takes a second to start
	}
	sc, err := sandbox.ParseScenario([]byte("seed 3\nreject 422 for 1% of records as bad\nanswer 503 for 1% of calls\nlose 1% of answers\nreset 1% of calls\ndelay 2ms\n"))
	if err != nil {
		t.Fatal(err)
	}
	api := sandbox.NewWith(sc, sandbox.Options{})
	srv := httptest.NewServer(api)
	defer srv.Close()
	dir, night := t.TempDir(), writeNight(t, records)
	args := []string{"upload", "--url", srv.URL, "--state-dir", dir, "--concurrency", "3", "--backoff-base", "5ms", "--retry-budget", "1", "--quiet", night}
	killed := 0
	for range kills {
		before := api.Stats().Requests
		p := startSubprocess(t, args...)
		if rand.IntN(2) == 0 { // at work, not at the start
			for patient := time.Now(); api.Stats().Requests == before && time.Since(patient) < time.Second; {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(rand.N(60 * time.Millisecond))
		p.signal(syscall.SIGKILL)
		<-p.ended
		if p.cmd.ProcessState.ExitCode() < 0 {
			killed++
		}
	}
	before := api.Stats().Requests
	p := startSubprocess(t, args...)
	p.exits(exitPerson)
	rejected := lettersOf(t, dir, "rejected")
	for n := range records {
		switch k := key(n); {
		case api.TimesApplied(k) > 1:
			t.Errorf("%s was applied %d times", k, api.TimesApplied(k))
		case (api.TimesApplied(k) == 0) != rejected[k]:
			t.Errorf("%s: applied %d times, rejected %v", k, api.TimesApplied(k), rejected[k])
		}
	}
	// A kill leaves in doubt what was in flight, and what was answered in the
	// last moments.
	total := api.Stats().Requests
	t.Logf("%d runs killed; %d requests for %d records, %d of them in the last run", killed, total, records, total-before)
	again := startSubprocess(t, args...)
	again.exits(exitPerson)
	if sent := int(api.Stats().Requests - total); sent < len(rejected) || sent > 2*len(rejected)+20 {
		t.Errorf("the night once more: %d requests for %d rejected records", sent, len(rejected))
	}
}

// lettersOf returns the keys with a letter of that reason.
func lettersOf(t *testing.T, state, reason string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(state + "/deadletters/*.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, f := range files {
		r, err := deadletter.OpenReader(disk.OS{}, f)
		if err != nil {
			t.Fatal(err)
		}
		for l, err := r.Next(); err == nil; l, err = r.Next() {
			if l.Reason == reason {
				keys[l.Key] = true
			}
		}
		_ = r.Close()
	}
	return keys
}

// The ledger cut off at every byte of its last 4 KiB, as power cuts do: the next
// run opens it, sends what it does not know to be delivered, and nothing else.
func TestLedgerCutAnywhere(t *testing.T) {
	w := newWorld(t, 1)
	w.files = []string{writeNight(t, 60)}
	sc, err := sandbox.ParseScenario([]byte("seed 1"))
	if err != nil {
		t.Fatal(err)
	}
	w.api = sandbox.NewWith(sc, sandbox.Options{})
	for n := range 60 {
		w.keys[key(n)] = true
	}
	upload := append(append([]string{"upload"}, w.files...), w.options()...)
	w.play(t, incident{name: "stop", args: append(upload, "--rate", "20", "--concurrency", "4"), signal: syscall.SIGTERM, at: 2 * time.Second, healthy: true})
	const segment = "/state/ledger/0000000000000001.wal"
	whole, ok := w.disk.Bytes(segment)
	if !ok || len(whole) < 4096 {
		t.Fatalf("%d bytes of ledger in %v", len(whole), w.disk.Names())
	}
	step := 1
	if raceDetector {
		step = 61
	}
	for cut := len(whole) - 4096; cut <= len(whole) && !t.Failed(); cut += step {
		w.disk = disktest.New()
		w.disk.SetBytes(segment, whole[:cut])
		clear(w.acked)
		done := map[string]bool{}
		report, _, err := journal.Read(w.disk.FS(), "/state/ledger", func(e any) error {
			if a, ok := e.(journal.Answer); ok && a.Class == journal.Acked {
				done[a.Key] = true
			}
			return nil
		})
		if err != nil || len(report.Damaged) > 0 {
			t.Fatalf("cut at %d: %+v, %v", cut, report, err)
		}
		before := w.requests
		code, out := w.play(t, incident{name: "resume", args: upload, healthy: true})
		if sent := w.requests - before; code != exitOK || sent != 60-len(done) {
			t.Fatalf("cut at %d: exit %d, %d requests with %d acked\n%s", cut, code, sent, len(done), out)
		}
		w.story.Reset()
	}
	for n := range 60 {
		if w.api.TimesApplied(key(n)) != 1 {
			t.Errorf("%s was applied %d times", key(n), w.api.TimesApplied(key(n)))
		}
	}
	for _, wrong := range w.wrong {
		t.Error(wrong)
	}
}

// A state directory without room stops the run with code 1 and says what to do;
// with room the same command delivers the rest.
func TestStateDirectoryWithoutRoom(t *testing.T) {
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		lacks(t, "the right to mount: run it as root, with unshare (util-linux) installed")
	}
	const records = 2000
	sc, err := sandbox.ParseScenario([]byte("seed 1"))
	if err != nil {
		t.Fatal(err)
	}
	api := sandbox.NewWith(sc, sandbox.Options{})
	srv := httptest.NewServer(api)
	defer srv.Close()
	dir, night := t.TempDir(), writeNight(t, records)
	program, err := exec.LookPath("trafficup")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`mount -t tmpfs -o size=64k tmpfs %[1]s || exit 99
%[2]s upload --url %[3]s --state-dir %[1]s %[4]s; echo "code $?"
mount -o remount,size=8m %[1]s || exit 99
%[2]s upload --url %[3]s --state-dir %[1]s %[4]s; echo "code $?"
%[2]s upload --url %[3]s --state-dir %[1]s --quiet %[4]s; echo "code $?"`, dir, program, srv.URL, night)
	out, err := exec.Command("unshare", "-m", "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	codes := regexp.MustCompile(`code \d+`).FindAllString(string(out), -1)
	if !slices.Equal(codes, []string{"code 1", "code 0", "code 0"}) || !strings.Contains(string(out), "hint: make room") || !strings.Contains(string(out), "no space left on device") {
		t.Fatalf("%v\n%s", codes, out)
	}
	for n := range records {
		if api.TimesApplied(key(n)) != 1 {
			t.Errorf("%s was applied %d times", key(n), api.TimesApplied(key(n)))
		}
	}
	if requests := api.Stats().Requests; requests > records+100 {
		t.Errorf("%d requests for %d records", requests, records)
	}
}

// A state directory that cannot be written is found out before anything is sent.
func TestReadOnlyStateDirectory(t *testing.T) {
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		lacks(t, "the right to mount: run it as root, with unshare (util-linux) installed")
	}
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	defer srv.Close()
	dir, night := t.TempDir(), writeNight(t, 3)
	program, err := exec.LookPath("trafficup")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`mount -t tmpfs -o ro tmpfs %[1]s || exit 99
exec %[2]s upload --url %[3]s --state-dir %[1]s/state %[4]s`, dir, program, srv.URL, night)
	out, err := exec.Command("unshare", "-m", "sh", "-c", script).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitFailed || !strings.Contains(string(out), "read-only file system") || !strings.Contains(string(out), "hint: make it writable") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// lacks ends a test for which this machine lacks a part; where all parts have to
// be there, that is a failure.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("this machine lacks %s", what)
	}
	t.Skipf("this machine lacks %s", what)
}
