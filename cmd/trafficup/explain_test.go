package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"trafficup/internal/deadletter"
	"trafficup/internal/journal"
)

// explained returns what the command prints, without the directory's name.
func (s *scribe) explained(what string, flags ...string) string {
	s.t.Helper()
	s.stop()
	sys, stdout, stderr := testSystem(append([]string{"explain", "--state-dir", s.st.dir, what}, flags...)...)
	if code := run(sys); code != exitOK || stderr.Len() > 0 {
		s.t.Errorf("explain %s: exit %d\n%s", what, code, stderr)
	}
	return strings.ReplaceAll(stdout.String(), s.st.dir, "STATE")
}

// A life over midnight and three runs.
func TestExplainTellsTheWholeLife(t *testing.T) {
	s := newScribe(t)
	s.begin("one")
	s.intent("key-0001", "SP-1", 17)
	s.intent("key-0002", "SP-2", 18)
	s.answer(journal.Answer{Key: "key-0001", Attempt: 1, Status: 503, Class: journal.Retry, Wrote: true, Problem: "service busy"})
	s.answer(journal.Answer{Key: "key-0001", Attempt: 2, Class: journal.Retry, Wrote: true, Problem: "reset by peer"})
	s.end("key-0001", "unknown", "reset by peer", true)
	s.letter(deadletter.Letter{Reason: "unknown", Details: deadletter.Details{Key: "key-0001", SpotID: "SP-1", Problem: "reset by peer"}}, 17)
	s.begin("two")
	s.intent("key-0001", "SP-1", 17)
	s.begin("three")
	s.intent("key-0001", "SP-1", 17)
	s.answer(journal.Answer{Key: "key-0001", Attempt: 1, Status: 201, Class: journal.Acked, Wrote: true, Receipt: "r-\x1b[2J77"})
	want := `SP-1  key key-0001  WXYZ-FM  2026-07-17  market 501
  in/night.ndjson:17 (sha256 3f2a3f2a3f2a…), body sha256 BODY…
  run 20260716T235958Z-one (upload, trafficup 1.0)
    23:59:58.000Z  intent
    23:59:58.000Z  attempt 1  primary   503    80ms  service busy  then waited 1.3s
    23:59:59.380Z  attempt 2  primary     -    80ms  reset by peer
    2026-07-17
    00:00:00.760Z  unknown: reset by peer
                   dead letter STATE/deadletters/20260716T235958Z-one.ndjson:1: unknown
  run 20260717T000158Z-two (upload, trafficup 1.0)
    00:01:58.000Z  intent
  run 20260717T000258Z-three (upload, trafficup 1.0)
    00:02:58.000Z  intent
    00:02:58.000Z  attempt 1  primary   201    80ms  acked, receipt r-\x1b[2J77
  → acked by primary, receipt r-\x1b[2J77
`
	want = strings.ReplaceAll(want, "BODY", fmt.Sprintf("%x", sha256.Sum256([]byte("key-0001")))[:12])
	for _, what := range []string{"key-0001", "SP-1", "in/night.ndjson:17", "night.ndjson:17"} {
		if got := s.explained(what); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
		}
	}
	facts := s.explained("key-0001", "--json")
	for _, part := range []string{
		`"event":"attempt","run":"20260716T235958Z-one","command":"upload","version":"1.0","market":"501","station":"WXYZ-FM","air_date":"2026-07-17","spot_id":"SP-1","idempotency_key":"key-0001","file":"in/night.ndjson"`,
		`"line":17`, `"sent_at":"2026-07-16T23:59:58Z","answered_at":"2026-07-16T23:59:58.08Z","path":"primary","status":503,"outcome":"retry","reason":"service busy"`,
		`"event":"end"`, `"event":"letter"`, `"event":"verdict"`,
	} {
		if !strings.Contains(facts, part) {
			t.Errorf("no %s in\n%s", part, facts)
		}
	}
	if n := strings.Count(facts, "\n"); n != 9 {
		t.Errorf("%d facts, want 9:\n%s", n, facts)
	}
}

// What is known at the end, for every way a record may have gone.
func TestExplainVerdicts(t *testing.T) {
	note := &deadletter.Note{At: time.Date(2026, 7, 18, 0, 0, 0, 0, time.UTC), Why: "pulled by the client"}
	later := time.Date(2026, 7, 19, 0, 0, 0, 0, time.UTC)
	retry := journal.Answer{Key: "key-0001", Attempt: 1, Status: 503, Class: journal.Retry, Wrote: true}
	lost := journal.Answer{Key: "key-0001", Attempt: 1, Class: journal.Retry, Wrote: true}
	letter := func(reason string, d deadletter.Details) func(*scribe) {
		d.Key, d.SpotID = "key-0001", "SP-1"
		return func(s *scribe) { s.letter(deadletter.Letter{Reason: reason, Details: d}, 1) }
	}
	for name, c := range map[string]struct {
		tell func(*scribe)
		want string
	}{
		"intent only": {func(*scribe) {}, "unknown: about to be sent, or in flight now; upload in/night.ndjson again: it keeps its key"},
		"no answer":   {func(s *scribe) { s.answer(lost) }, "unknown: sent, and no answer is known; upload"},
		"cut off":     {func(s *scribe) { s.answer(retry) }, "not acked, and its run did not get to its end; upload"},
		"withdrawn":   {func(s *scribe) { s.end("key-0001", "halted", "", false) }, "withdrawn, not sent; upload"},
		"stopped":     {func(s *scribe) { s.answer(retry); s.end("key-0001", "halted", "", true) }, "not acked when the run was stopped; upload"},
		"letter gone": {func(s *scribe) { s.end("key-0001", "exhausted", "busy", true) }, "exhausted: busy (its dead letter is gone)"},
		"rejected":    {letter("rejected", deadletter.Details{Problem: "no such house number"}), "rejected: no such house number (dead letter STATE/"},
		"deferred":    {letter("deferred", deadletter.Details{NotBefore: &later}), "deferred, not before 2026-07-19T00:00:00Z (dead letter"},
		"given up":    {letter("rejected", deadletter.Details{Dropped: note}), "given up on 2026-07-18T00:00:00Z: pulled by the client (dead letter"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScribe(t)
			s.begin("one")
			s.intent("key-0001", "SP-1", 1)
			c.tell(s)
			if got := s.explained("SP-1"); !strings.Contains(got, "\n  → "+c.want) || strings.Count(got, "→") != 1 {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// A letter stands for a record that the ledger does not know, and a conflict is
// another record than the one whose key it has.
func TestExplainByLettersAlone(t *testing.T) {
	s := newScribe(t)
	s.begin("one")
	s.intent("key-0001", "SP-1", 1)
	s.answer(journal.Answer{Key: "key-0001", Attempt: 1, Status: 201, Class: journal.Acked, Wrote: true})
	tried := []deadletter.Attempt{{At: s.now, Path: "fallback", Status: 503, Error: "busy"}}
	s.letter(deadletter.Letter{Reason: "conflict", Details: deadletter.Details{Key: "key-0001", SpotID: "SP-1"}}, 5)
	s.letter(deadletter.Letter{Reason: "exhausted", Details: deadletter.Details{Key: "key-0002", SpotID: "SP-2", Attempts: tried}}, 6)
	s.letter(deadletter.Letter{Reason: "invalid", Details: deadletter.Details{Problem: "idempotency_key: missing"}}, 7)
	s.begin("two")
	tried = append(tried, deadletter.Attempt{At: s.now, Path: "primary", Status: 500, Error: "fault"})
	s.letter(deadletter.Letter{Reason: "exhausted", Details: deadletter.Details{Key: "key-0002", SpotID: "SP-2", Attempts: tried, Generation: 1}}, 6)
	if got := s.explained("key-0001"); strings.Count(got, "→ acked") != 1 || strings.Count(got, "→ conflict") != 1 {
		t.Errorf("key of a conflict:\n%s", got)
	}
	got := s.explained("SP-2")
	if strings.Count(got, "attempt") != 2 || !strings.Contains(got, "WXYZ-FM  market 501") || !strings.Contains(got, "-two.ndjson:1)") {
		t.Errorf("two generations:\n%s", got)
	}
	if got := s.explained("night.ndjson:7"); !strings.Contains(got, "→ invalid: idempotency_key: missing") {
		t.Errorf("invalid:\n%s", got)
	}
}

// moody answers 503 to the first call of each record, and rejects one record
// until it is told better.
type moody struct {
	mu      sync.Mutex
	calls   map[string]int // guarded by mu
	lenient bool           // guarded by mu
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	m.calls[key]++
	w.Header().Set("Content-Type", "application/json")
	switch {
	case m.calls[key] == 1:
		w.WriteHeader(http.StatusServiceUnavailable)
	case key == "key-000001" && !m.lenient:
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"title":"no such house number"}`)
	default:
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"id":"r-%s"}`, key)
	}
}

// The order of the ledger is that of the runs, whatever they are called.
func TestExplainRunsOfOneSecond(t *testing.T) {
	s := newScribe(t)
	for _, name := range []string{"zz", "aa", "mm"} {
		s.now = s.now.Truncate(time.Hour)
		s.begin(name)
		s.intent("key-0001", "SP-1", 1)
	}
	got := s.explained("SP-1")
	if z, a, m := strings.Index(got, "-zz"), strings.Index(got, "-aa"), strings.Index(got, "-mm"); z > a || a > m {
		t.Errorf("out of order:\n%s", got)
	}
}

// A record that was invalid, then mended and acked by a run of the same second:
// the ack comes last, and the verdict is its own.
func TestExplainMendedRecord(t *testing.T) {
	s := newScribe(t)
	invalid := deadletter.Letter{Reason: "invalid", Details: deadletter.Details{Key: "key-0001", SpotID: "SP-1", Problem: "station: missing"}}
	s.begin("zz")
	s.letter(invalid, 3)
	s.beginAt(s.now.Add(400*time.Millisecond), "aa")
	s.intent("key-0001", "SP-1", 9)
	s.answer(journal.Answer{Key: "key-0001", Attempt: 1, Status: 201, Class: journal.Acked, Wrote: true})
	got := s.explained("key-0001")
	if z, a := strings.Index(got, "-zz ("), strings.Index(got, "-aa ("); z < 0 || a < z || strings.Count(got, "→") != 1 {
		t.Errorf("out of order:\n%s", got)
	}
	facts := strings.Split(strings.TrimSpace(s.explained("key-0001", "--json")), "\n")
	last := facts[len(facts)-1]
	if !strings.Contains(last, `"event":"verdict"`) || !strings.Contains(last, `-aa"`) || !strings.Contains(last, `"line":9`) || !strings.Contains(last, `"outcome":"acked"`) {
		t.Errorf("the verdict is %s", last)
	}
	if !strings.Contains(facts[0], `"event":"letter"`) || !strings.Contains(facts[0], `"line":3`) {
		t.Errorf("the first fact is %s", facts[0])
	}
}

// Records that share a bad key are not one.
func TestExplainSharedBadKey(t *testing.T) {
	s := newScribe(t)
	s.begin("one")
	for line := range int64(3) {
		s.letter(deadletter.Letter{Reason: "invalid", Details: deadletter.Details{Key: "k", SpotID: fmt.Sprint("SP-", line)}}, line+1)
	}
	if got := s.explained("k"); strings.Count(got, "→ invalid") != 3 {
		t.Errorf("by key:\n%s", got)
	}
	if got := s.explained("SP-1"); strings.Count(got, "→ invalid") != 1 || !strings.Contains(got, "night.ndjson:2") {
		t.Errorf("by spot:\n%s", got)
	}
}

// What a crash left of a letter was told of while it was pending.
func TestExplainBesideATornArchive(t *testing.T) {
	s := soundState(t)
	s.file("deadletters/archive/a.ndjson", `{"v":1,"reas`)
	s.explained("key-0001")
}

// What a real upload and a real replay leave is told.
func TestExplainAfterUploadAndReplay(t *testing.T) {
	api := &moody{calls: map[string]int{}}
	srv := httptest.NewServer(api)
	defer srv.Close()
	dir, night := t.TempDir(), writeNight(t, 3)
	deliver := func(want int, args ...string) {
		t.Helper()
		sys, stdout, stderr := testSystem(append(args, "--url", srv.URL, "--state-dir", dir, "--backoff-base", "1ms")...)
		if code := run(sys); code != want {
			t.Fatalf("%v: exit %d, want %d\n%s%s", args, code, want, stdout, stderr)
		}
	}
	explained := func(what string, parts ...string) {
		t.Helper()
		sys, stdout, stderr := testSystem("explain", "--state-dir", dir, what)
		if code := run(sys); code != exitOK {
			t.Fatalf("exit %d\n%s", code, stderr)
		}
		for _, p := range parts {
			if !strings.Contains(stdout.String(), p) {
				t.Errorf("%s: no %q in\n%s", what, p, stdout)
			}
		}
	}
	deliver(exitPerson, "upload", night)
	explained(night+":1", "SP-0", "attempt 1", "then waited", "attempt 2", "→ acked by primary, receipt r-key-000000")
	explained("SP-1", "rejected: ", "no such house number", "→ rejected: ", ".ndjson:1)")
	api.mu.Lock()
	api.lenient = true
	api.mu.Unlock()
	deliver(exitOK, "replay")
	explained("key-000001", "(upload, ", "(replay, ", "/archive/", "→ acked by primary, receipt r-key-000001")
}

// Where the ledger is damaged the rest is told, and that something may be missing.
func TestExplainOfADamagedLedger(t *testing.T) {
	s := soundState(t)
	s.change("ledger/*.wal", func(b []byte) []byte {
		b[bytes.Index(b, []byte("SP-1"))] ^= 1 // in the intent
		return b
	})
	sys, stdout, stderr := testSystem("explain", "--state-dir", s.st.dir, "key-0001")
	if code := run(sys); code != exitOK || !strings.Contains(stdout.String(), "→ acked") || !strings.Contains(stderr.String(), "warning: the ledger is damaged in 1 place") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

// None of the three needs the lock that an upload holds.
func TestLookingBesideAnUpload(t *testing.T) {
	dir, night := t.TempDir(), writeNight(t, 1)
	said := map[string]string{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, args := range [][]string{{"status"}, {"state", "check"}, {"explain", "SP-0"}} {
			sys, stdout, stderr := testSystem(append(args, "--state-dir", dir)...)
			if code := run(sys); code != exitOK {
				t.Errorf("%v: exit %d\n%s%s", args, code, stdout, stderr)
			}
			said[args[0]] = stdout.String()
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer srv.Close()
	sys, stdout, stderr := testSystem("upload", "--url", srv.URL, "--state-dir", dir, "--request-timeout", "1m", night)
	if code := run(sys); code != exitOK {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	for command, want := range map[string]string{"status": "1 of unknown fate", "state": "1 intent", "explain": "in flight now"} {
		if !strings.Contains(said[command], want) {
			t.Errorf("%s does not say %q:\n%s", command, want, said[command])
		}
	}
}

func TestExplainUnknown(t *testing.T) {
	sys, stdout, stderr := testSystem("explain", "--state-dir", filepath.Join(t.TempDir(), "none"), "SP-1")
	if code := run(sys); code != exitUsage || stdout.Len() > 0 || !strings.Contains(stderr.String(), "nothing is known of SP-1 in") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}
