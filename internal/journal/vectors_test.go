package journal

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"trafficup/internal/wal"
)

var update = flag.Bool("update", false, "write the test vector anew")

const vector = "../../testdata/formats/ledger-entries.txt"

// frames are what the vector is made of.
func frames() [][]byte {
	intent := *spot(1, 1, 1, 7)
	intent.fileNumber = 1
	twin := *spot(2, 2, 2, 8)
	twin.fileNumber = 1
	return [][]byte{
		Run{ID: "20260717T000301Z-ab12cd", Command: "upload", Version: "v1", URLs: []string{"https://api.test/v1/logs"}, Started: began}.encode(nil),
		file{1, "night.ndjson", "3f2a"}.encode(nil),
		intent.encode(nil),
		twin.encode(nil),
		answer("key-1", Retry, 503).encode(nil),
		answer("key-1", Acked, 201).encode(nil),
		End{Key: "key-2", At: began.Add(time.Second), Outcome: "halted", Reason: "not sent"}.encode(nil),
		append(End{Key: "key-2", At: began, Outcome: "unknown", Wrote: true}.encode(nil), "of a later version"...),
		[]byte("Zof a later version, too"),
		intent.encode(nil)[:40],
	}
}

// The entries of the ledger, byte by byte, and what they say together.
func TestVector(t *testing.T) {
	if *update {
		var b strings.Builder
		for _, f := range frames() {
			fmt.Fprintf(&b, "expect: %s\n%s\n", said(f), strings.TrimRight(wrapped(f), "\n"))
		}
		b.WriteString("expect: acked 1, unknown 1, bad 1\n")
		if err := os.WriteFile(vector, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(vector)
	if err != nil {
		t.Fatal(err)
	}
	l := loader{index: newIndex()}
	for _, part := range strings.Split(string(text), "expect: ")[1:] {
		want, digits, _ := strings.Cut(part, "\n")
		f, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("acked %d, unknown %d, bad %d", l.count(acked), l.count(unknown), l.bad)
		if len(f) > 0 {
			got = said(f)
			_ = l.frame(wal.Pos{}, f)
		}
		if got != want {
			t.Errorf("%x\nsays %s\nwant %s", f, got, want)
		}
	}
}

func said(frame []byte) string {
	entry, err := decode(frame)
	switch e := entry.(type) {
	case Run:
		return fmt.Sprintf("run %s %s %s %s %s", e.ID, e.Command, e.Version, stamp(e.Started), strings.Join(e.URLs, " "))
	case file:
		return fmt.Sprintf("file %d %s %s", e.number, e.name, e.sha256)
	case Intent:
		return fmt.Sprintf("intent %s %s %s %s %s %s file %d line %d offset %d body %x", stamp(e.At), e.Key, e.SpotID, e.Market, e.Station, e.AirDate, e.fileNumber, e.Line, e.Offset, e.Body)
	case Answer:
		return fmt.Sprintf("answer %s attempt %d %s %s status %d class %d wrote %v %s %s %s", e.Key, e.Attempt, stamp(e.SentAt), stamp(e.AnsweredAt), e.Status, e.Class, e.Wrote, e.Path, e.Receipt, e.Problem)
	case End:
		return fmt.Sprintf("end %s %s %s %q wrote %v", e.Key, stamp(e.At), e.Outcome, e.Reason, e.Wrote)
	}
	if err != nil {
		return "not an entry"
	}
	return "unknown kind"
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

func wrapped(b []byte) string {
	var s strings.Builder
	for n, c := range b {
		fmt.Fprintf(&s, "%02x%s", c, map[bool]string{true: "\n", false: " "}[n%16 == 15 || n == len(b)-1])
	}
	return s.String()
}
