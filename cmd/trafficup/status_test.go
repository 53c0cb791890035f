package main

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trafficup/internal/deadletter"
	"trafficup/internal/journal"
)

// One screen: runs with a report, with a bad one and without; letters, of which
// one is superseded; the ledger; breakers in every phase.
func TestStatusShowsAll(t *testing.T) {
	s := newScribe(t)
	s.file("runs/20260701T000000Z-old/report.json", "{}")
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		s.begin(name)
	}
	s.file("runs/20260717T000258Z-four/report.json", `{"message_type":"summary","run":"x","read":12000,"acked":11990,"rejected":8,"deferred":2,"duration_s":92,"result":"not complete: some records wait","exit_code":4}`)
	s.file("runs/20260717T000158Z-three/report.json", "{")
	s.intent("key-0001", "SP-1", 1)
	s.answer(journal.Answer{Key: "key-0001", Attempt: 1, Status: 201, Class: journal.Acked, Wrote: true})
	s.intent("key-0002", "SP-2", 2)
	tried := []deadletter.Attempt{{At: s.now}}
	s.letter(deadletter.Letter{Reason: "rejected", Details: deadletter.Details{Key: "key-0003"}}, 3)
	s.letter(deadletter.Letter{Reason: "deferred", Details: deadletter.Details{Key: "key-0004", Attempts: tried}}, 4)
	s.letter(deadletter.Letter{Reason: "exhausted", Details: deadletter.Details{Key: "key-0005"}}, 5)
	s.letter(deadletter.Letter{Reason: "deferred", Details: deadletter.Details{Key: "key-0005", Generation: 1}}, 5)
	s.stop()
	s.file("breaker.json", `{"v":1,"breakers":{
		"primary https://api.test/":{"phase":2,"open_until":"2026-07-17T00:05:12Z","since":"2026-07-17T00:04:00Z"},
		"fallback https://a.test/":{"phase":0,"failures":3},"fallback https://b.test/":{"phase":1,"since":"2026-07-17T00:04:00Z"},
		"primary https://c.test/":{"phase":2,"open_until":"2026-07-17T00:04:59Z","since":"2026-07-17T00:04:00Z"},
		"primary https://d.test/":{"phase":2,"force":{"phase":2,"until":"2026-07-17T00:15:00Z","reason":"moves\u001b[2J","by":"ops@host","at":"2026-07-17T00:00:00Z"}},
		"primary https://e.test/":{"phase":0,"force":{"phase":0,"until":"2026-07-17T00:05:00Z","reason":"over"},"changes":[
			"2026-07-17T00:04:59Z","2026-07-17T00:04:58Z","2026-07-17T00:04:57Z","2026-07-17T00:04:56Z","2026-07-17T00:04:55Z","2026-07-17T00:04:54Z","2026-07-17T00:04:53Z"]}}}`)
	o, err := survey(s.st, 30*24*time.Hour, time.Date(2026, 7, 17, 0, 5, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := o.text(&b); err != nil {
		t.Fatal(err)
	}
	want := `State         STATE

Last runs     [run, command, read, acked, refused, waiting, duration, code, result]
  20260716T235958Z-one    upload  -       -       -  -  -      -  no report: under way, or it was cut off
  20260717T000058Z-two    upload  -       -       -  -  -      -  no report: under way, or it was cut off
  20260717T000158Z-three  upload  -       -       -  -  -      -  its report cannot be read
  20260717T000258Z-four   upload  12,000  11,990  8  2  1m32s  4  not complete: some records wait
  20260717T000358Z-five   upload  -       -       -  -  -      -  no report: under way, or it was cut off

Dead letters  [reason, count, oldest, what to do]
  deferred  2  2026-07-17T00:03:58Z  trafficup replay --reason deferred
  rejected  1  2026-07-17T00:03:58Z  mend and upload again, or, if the API was wrong: trafficup replay --reason rejected

Ledger        1 acked in the last 30 days, 1 of unknown fate, 1 segment, SIZE on disk
  unknown: sent without an answer, or, while a run is under way, also those that it is about to send or to try again; when none is, upload them again with the same command: in/night.ndjson

Breakers
  fallback https://a.test/: closed, 3 failures in a row
  fallback https://b.test/: half-open since 2026-07-17T00:04:00Z: a probe is under way, or was cut off
  primary https://api.test/: open until 2026-07-17T00:05:12Z (in 12s), since 2026-07-17T00:04:00Z
  primary https://c.test/: open since 2026-07-17T00:04:00Z; the next request is a probe
  primary https://d.test/: forced open until 2026-07-17T00:15:00Z by ops@host (nothing is sent): moves\x1b[2J
  primary https://e.test/: closed; thrashing: it changed 7 times in the last hour
warning: STATE/runs/20260717T000158Z-three/report.json: no report: `
	got := strings.ReplaceAll(strings.ReplaceAll(b.String(), s.st.dir, "STATE"), inBytes(o.Ledger.Bytes), "SIZE")
	if !strings.HasPrefix(got, want) || strings.Count(got, "warning") != 1 || o.Ledger.Bytes < 100 {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// The oldest is told by when a record was first given up, not by its last repeat;
// runs of one second stand in their order.
func TestStatusOldest(t *testing.T) {
	s := newScribe(t)
	s.begin("zz")
	first := s.now
	s.letter(deadletter.Letter{Reason: "invalid", Details: deadletter.Details{Key: "k", Problem: "too short"}}, 1)
	s.beginAt(s.now.Add(time.Millisecond), "aa")
	s.begin("three")
	s.letter(deadletter.Letter{Reason: "invalid", Details: deadletter.Details{Key: "k", Problem: "too short"}}, 1)
	tried := []deadletter.Attempt{{At: first.Add(time.Second)}, {At: s.now}}
	s.letter(deadletter.Letter{Reason: "exhausted", Details: deadletter.Details{Key: "key-0005", Attempts: tried, Generation: 1}}, 5)
	s.stop()
	o, err := survey(s.st, time.Hour, s.now)
	if err != nil || len(o.Letters) != 2 || len(o.Runs) != 3 {
		t.Fatalf("%+v, %v", o, err)
	}
	if l := o.Letters; !l[0].Oldest.Equal(first.Add(time.Second)) || l[1].Count != 1 || !l[1].Oldest.Equal(first) {
		t.Errorf("%+v", l)
	}
	if !strings.HasSuffix(o.Runs[0].Run, "zz") || !strings.HasSuffix(o.Runs[1].Run, "aa") {
		t.Errorf("%+v", o.Runs)
	}
}

// Letters whose key was acked later are done with; that of a conflict belongs to
// another record.
func TestStatusDeliveredSince(t *testing.T) {
	s := newScribe(t)
	s.begin("one")
	for n, reason := range []string{"rejected", "rejected", "exhausted", "invalid", "conflict"} {
		s.letter(deadletter.Letter{Reason: reason, Details: deadletter.Details{Key: fmt.Sprintf("key-000%d", n)}}, int64(n))
	}
	s.letter(deadletter.Letter{Reason: "invalid"}, 9) // without a key
	s.begin("two")
	for _, key := range []string{"key-0000", "key-0002", "key-0003", "key-0004"} {
		s.intent(key, "SP-"+key, 1)
		s.answer(journal.Answer{Key: key, Attempt: 1, Status: 201, Class: journal.Acked, Wrote: true})
	}
	s.stop()
	o, err := survey(s.st, 30*24*time.Hour, s.now)
	if err != nil {
		t.Fatal(err)
	}
	o.flag, o.replay = " --state-dir=s", " --state-dir=s --url=u"
	got := map[string]string{}
	for _, g := range o.Letters {
		got[g.Reason] = o.remedy(g)
	}
	const list = "mend at the source and upload again; trafficup deadletters list --reason "
	for reason, want := range map[string]string{
		"rejected":  "1 of them delivered since; the others: mend and upload again, or, if the API was wrong: trafficup replay --reason rejected --state-dir=s --url=u",
		"exhausted": "delivered since; to clear them: trafficup replay --reason exhausted --state-dir=s --url=u",
		"invalid":   "1 of them delivered since; the others: " + list + "invalid --state-dir=s",
		"conflict":  list + "conflict --state-dir=s",
	} {
		if got[reason] != want {
			t.Errorf("%s: %q, want %q", reason, got[reason], want)
		}
	}
}

// A directory that is not there is no fault, and is not made.
func TestStatusOfNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for _, flags := range [][]string{nil, {"--json"}} {
		sys, stdout, stderr := testSystem(append([]string{"status", "--state-dir", dir}, flags...)...)
		if code := run(sys); code != exitOK || stderr.Len() > 0 {
			t.Errorf("exit %d\n%s%s", code, stdout, stderr)
		}
		if flags == nil && stdout.String() != "nothing has run here yet: "+dir+"\n" {
			t.Errorf("says %q", stdout)
		}
		var o overview
		if flags != nil && (json.Unmarshal(stdout.Bytes(), &o) != nil || o.Used || o.Dir != dir) {
			t.Errorf("says %q", stdout)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory was made: %v", err)
	}
}

func TestStatusOfWhatIsNoDirectory(t *testing.T) {
	file := writeNight(t, 1)
	sys, stdout, stderr := testSystem("status", "--state-dir", file)
	if code := run(sys); code != exitFailed || stdout.Len() > 0 || stderr.Len() == 0 {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}
