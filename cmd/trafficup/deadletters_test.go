package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"trafficup/internal/deadletter"
)

// letterBox returns a state directory with so many letters, each of another
// station and too long a record for a pipe's buffer when there are some.
func letterBox(t *testing.T, n int) *scribe {
	s := newScribe(t)
	s.begin("one")
	for i := range n {
		l := deadletter.Letter{Reason: "exhausted", Details: deadletter.Details{Key: fmt.Sprintf("key-%06d", i), Run: s.run}}
		l.SetRecord(fmt.Appendf(nil, `{"station":"S%02d","payload":%q}`, i, strings.Repeat("x", 10_000)))
		if err := s.w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	s.stop()
	return s
}

func (s *scribe) deadletters(want int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	sys, out, errs := testSystem(append(append([]string{"deadletters"}, args...), "--state-dir", s.st.dir)...)
	if code := run(sys); code != want {
		s.t.Errorf("%v: exit %d, want %d\n%s%s", args, code, want, out, errs)
	}
	return out.String(), errs.String()
}

// A table ends where a person stops reading; a few letters are told one by one.
func TestListIsBounded(t *testing.T) {
	for _, c := range []struct {
		letters, groups, rows int
		more                  string
		args                  []string
	}{
		{22, 20, 0, "\nand 2 more groups\n22 dead letters\n", []string{"list"}},
		{21, 20, 0, "\nand 1 more group\n21 dead letters\n", []string{"list", "--reason", "exhausted"}},
		{20, 20, 20, "\n20 dead letters\n", []string{"list", "--reason", "exhausted"}},
		{20, 20, 0, "\n20 dead letters\n", []string{"list"}},
		{22, 20, 22, "\nand 2 more groups\n", []string{"list", "--long"}},
	} {
		out, _ := letterBox(t, c.letters).deadletters(exitOK, c.args...)
		if g, r := strings.Count(out, "\n1 "), strings.Count(out, "\nexhausted "); g != c.groups || r != c.rows || !strings.Contains(out, c.more) {
			t.Errorf("%v of %d: %d groups, %d rows\n%s", c.args, c.letters, g, r, out)
		}
	}
}

// Whoever reads only the beginning, as head does, wants to hear nothing more.
func TestBrokenPipeIsQuiet(t *testing.T) {
	s := letterBox(t, 30)
	for _, args := range [][]string{{"deadletters", "export"}, {"deadletters", "show", "key-000001"}, {"explain", "key-000001"}, {"status"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		sys, _, stderr := testSystem(append(args, "--state-dir", s.st.dir)...)
		sys.stdout = w
		if code := run(sys); code != exitFailed || stderr.Len() > 0 {
			t.Errorf("%v: exit %d, says %q", args, code, stderr)
		}
		w.Close()
	}
}

// A letter that no longer counts is not taken for one that is not there.
func TestShowOlderLetter(t *testing.T) {
	s := newScribe(t)
	for line, name := range []string{"one", "two"} {
		s.begin(name)
		s.letter(deadletter.Letter{Reason: "exhausted", Details: deadletter.Details{Key: "key-0001", SpotID: "SP-1"}}, int64(line+1))
	}
	s.stop()
	if out, _ := s.deadletters(exitOK, "show", "in/night.ndjson:2"); !strings.Contains(out, "-two.ndjson:1") {
		t.Errorf("the newer:\n%s", out)
	}
	if _, said := s.deadletters(exitUsage, "show", "in/night.ndjson:1"); !strings.Contains(said, "in an older letter alone") {
		t.Errorf("the older: %s", said)
	}
}
