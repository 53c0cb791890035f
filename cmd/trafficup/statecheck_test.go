package main

import (
	"bytes"
	"encoding/json/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"trafficup/internal/deadletter"
	"trafficup/internal/journal"
)

// soundState is a state directory that a run left.
func soundState(t *testing.T) *scribe {
	t.Helper()
	s := newScribe(t)
	s.begin("one")
	s.intent("key-0001", "SP-1", 1)
	s.answer(journal.Answer{Key: "key-0001", Attempt: 1, Status: 201, Class: journal.Acked, Wrote: true})
	s.intent("key-0002", "SP-2", 2)
	s.answer(journal.Answer{Key: "key-lost", Attempt: 1, Status: 201, Class: journal.Acked, Wrote: true})
	s.letter(deadletter.Letter{Reason: "rejected", Details: deadletter.Details{Key: "key-0002"}}, 2)
	s.file("runs/20260716T235958Z-one/report.json", `{"read":2,"acked":1,"rejected":1}`)
	s.file("breaker.json", `{"v":1,"breakers":{}}`)
	s.stop()
	return s
}

func (s *scribe) checked(want int, flags ...string) string {
	s.t.Helper()
	sys, stdout, stderr := testSystem(append([]string{"state", "check", "--state-dir", s.st.dir}, flags...)...)
	if code := run(sys); code != want {
		s.t.Errorf("exit %d, want %d\n%s%s", code, want, stdout, stderr)
	}
	return strings.ReplaceAll(stdout.String(), s.st.dir, "STATE")
}

func TestStateCheckOfASoundDirectory(t *testing.T) {
	want := `ok       files         4 files, for their owner alone
ok       ledger        1 segment, 1 run, 2 intents, 1 answer without their intent
ok       dead letters  1 file, 1 letter
ok       archive       0 files, 0 letters
ok       reports       1 report
ok       breakers      0 paths
`
	s := soundState(t)
	if got := s.checked(exitOK); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(s.checked(exitOK, "--json")) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Type != "check" || f.Result != checkOK || f.What == "" {
			t.Errorf("%s: %+v, %v", line, f, err)
		}
	}
}

// Every kind of harm is named, once, with the file and the place.
func TestStateCheckFindsHarm(t *testing.T) {
	const segment = "ledger/*.wal"
	letters := "deadletters/*.ndjson"
	for name, c := range map[string]struct {
		harm func(*scribe)
		code int
		want string // the lines that do not say ok
	}{
		"a byte of the ledger": {func(s *scribe) {
			s.change(segment, func(b []byte) []byte { b[60] ^= 1; return b })
		}, 1, `failed +ledger +STATE/ledger/0+1\.wal at byte 36: [0-9]+ bytes damaged .* sent again under the same keys\n`},
		"the header of a segment": {func(s *scribe) {
			s.change(segment, func(b []byte) []byte { b[3] ^= 1; return b })
		}, 1, `failed +ledger +STATE/ledger/0+1\.wal at byte 0: 36 bytes damaged .*\n`},
		"a torn tail": {func(s *scribe) {
			s.change(segment, func(b []byte) []byte { return b[:len(b)-3] })
		}, 0, `warning +ledger +STATE/ledger/0+1\.wal at byte [0-9]+: [0-9]+ bytes cut off by a crash.*next run takes them off\n`},
		"a line that is no letter": {func(s *scribe) {
			s.change(letters, func(b []byte) []byte { return append([]byte("{}\nx\n"), b...) })
		}, 1, `failed +dead letters +STATE/deadletters/.*-one\.ndjson:1: not a dead letter: version 0.*; 2 lines like this.*\n`},
		"a torn letter": {func(s *scribe) {
			s.change(letters, func(b []byte) []byte { return append(b, `{"v":1,"reas`...) })
		}, 0, `warning +dead letters +STATE/deadletters/.*-one\.ndjson:2: cut off by a crash: .*\n`},
		"in the archive": {func(s *scribe) { s.file("deadletters/archive/a.ndjson", "x\n") },
			1, `failed +archive +STATE/deadletters/archive/a\.ndjson:1: .*\n`},
		"a report": {func(s *scribe) { s.file("runs/20260716T235958Z-one/report.json", `{"read":`) },
			1, `failed +reports +STATE/runs/.*/report\.json: no report: .*\n`},
		"the sums of a report": {func(s *scribe) { s.file("runs/20260716T235958Z-one/report.json", `{"read":3,"acked":1}`) },
			1, `failed +reports +STATE/runs/.*/report\.json: the sums do not balance: 3 records read.*\n`},
		"a run without a report": {func(s *scribe) {
			if err := os.Mkdir(filepath.Join(s.st.runs(), "two"), 0o700); err != nil {
				s.t.Fatal(err)
			}
		}, 0, `warning +reports +STATE/runs/two/report\.json: there is none: .*\n`},
		"the breakers": {func(s *scribe) { s.file("breaker.json", "x") },
			1, `failed +breakers +STATE/breaker\.json: no breaker state: .*\n`},
		"what a crash left": {func(s *scribe) {
			s.file("runs/20260716T235958Z-one/report.json.tmp", "")
			s.file("breaker.json.bad", "")
		}, 0, `warning +files +STATE/breaker\.json\.bad: damaged, and set aside.*\nwarning +files +STATE/runs/.*\.tmp: left by a crash.*\n`},
		"rights": {func(s *scribe) {
			for _, name := range []string{"", "breaker.json"} {
				if err := os.Chmod(filepath.Join(s.st.dir, name), 0o755); err != nil {
					s.t.Fatal(err)
				}
			}
		}, 0, `warning +files +STATE: others than the owner have rights on this and on 1 more path, .*chmod -R go-rwx STATE\n`},
	} {
		t.Run(name, func(t *testing.T) {
			s := soundState(t)
			c.harm(s)
			var said strings.Builder
			sound := 0
			for line := range strings.Lines(s.checked(c.code)) {
				if strings.HasPrefix(line, checkOK+" ") {
					sound++
				} else {
					said.WriteString(line)
				}
			}
			if !regexp.MustCompile("^"+c.want+"$").MatchString(said.String()) || sound != 5 {
				t.Errorf("%swant %s; %d parts are sound, want 5", &said, c.want, sound)
			}
		})
	}
}

// Reading changes nothing: not the names, not the bytes, not the times.
func TestLookingChangesNothing(t *testing.T) {
	s := soundState(t)
	s.change("ledger/*.wal", func(b []byte) []byte { return b[:len(b)-3] })
	picture := func() []byte {
		var b bytes.Buffer
		err := filepath.Walk(s.st.dir, func(path string, info os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			b.WriteString(path + info.Mode().String() + info.ModTime().String())
			if !info.IsDir() {
				data, err := os.ReadFile(path)
				b.Write(data)
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	before := picture()
	for _, args := range [][]string{{"status"}, {"state", "check"}, {"explain", "SP-1"}} {
		sys, stdout, stderr := testSystem(append(args, "--state-dir", s.st.dir)...)
		if code := run(sys); code != exitOK {
			t.Errorf("%v: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
	if !bytes.Equal(picture(), before) {
		t.Error("the state directory was changed")
	}
}

func TestStateCheckOfNothing(t *testing.T) {
	sys, stdout, _ := testSystem("state", "check", "--state-dir", filepath.Join(t.TempDir(), "none"))
	if code := run(sys); code != exitOK || !strings.Contains(stdout.String(), "nothing has run here yet") {
		t.Errorf("exit %d\n%s", code, stdout)
	}
	sys, _, stderr := testSystem("state", "check", "here")
	if code := run(sys); code != exitUsage || !strings.Contains(stderr.String(), "unexpected argument") {
		t.Errorf("exit %d\n%s", code, stderr)
	}
}
