package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trafficup/internal/envelope"
	"trafficup/internal/journal"
	"trafficup/internal/uploader"
)

// Records that an earlier run sent and heard nothing of go first, each once; the
// rest follows in order, and the sums are those of the input.
func TestUnknownGoesFirst(t *testing.T) {
	var keys []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key")) // one at a time
		w.WriteHeader(http.StatusCreated)
	}))
	defer srv.Close()
	night, dir := writeNight(t, 20), t.TempDir()
	j, _, err := journal.Open(dir+"/ledger", journal.Options{KeyTTL: 24 * time.Hour}, journal.Run{ID: "killed", Started: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{17, 4, 11} {
		body := fmt.Sprintf(`{"house_number":"WXYZ-%07d"}`, n)
		if err := j.Intend([]journal.Intent{{At: time.Now(), Key: key(n), SpotID: fmt.Sprint("SP-", n), Body: sha256.Sum256([]byte(body))}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// A copy of the night, and a pipe that can be read once only, come with it.
	copied := filepath.Join(t.TempDir(), "night - Copy.ndjson")
	text, err := os.ReadFile(night)
	if err == nil {
		err = os.WriteFile(copied, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	sys, stdout, stderr := testSystem("upload", "--url", srv.URL, "--state-dir", dir, "--concurrency", "1", night, copied, "-")
	sys.stdin = strings.NewReader(string(text))
	if code := run(sys); code != exitOK {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	if !strings.Contains(stderr.String(), "resuming: 3 records") {
		t.Errorf("stderr: %s", stderr)
	}
	want := []string{key(4), key(11), key(17)}
	for n := range 20 {
		if !slices.Contains(want, key(n)) {
			want = append(want, key(n))
		}
	}
	if !slices.Equal(keys, want) {
		t.Errorf("sent %v", keys)
	}
	if r := lastReport(t, dir); r.Read != 60 || r.Acked != 20 || r.Duplicate != 40 || r.AckedBefore != 0 {
		t.Errorf("%+v", r.Counts)
	}
}

// What changed between the two readings is taken as it is at the second.
func TestFileReplacedBetweenTheReadings(t *testing.T) {
	night := writeNight(t, 5)
	r := &resumedFeed{rest: &fileFeed{files: []string{night}, validator: mustValidator(t)}, journal: journal.Memory(), sent: map[uploader.Place]bool{}}
	r.sent[uploader.Place{File: night, Line: 1, SHA256: "of what the file was"}] = true
	lines := 0
	for {
		item, err := r.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil || item.Fault != nil {
			t.Fatal(err, item.Fault)
		}
		lines++
	}
	if lines != 5 {
		t.Errorf("%d records, want all 5", lines)
	}
}

func mustValidator(t *testing.T) *envelope.Validator {
	t.Helper()
	v, err := envelope.NewValidator(envelope.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
