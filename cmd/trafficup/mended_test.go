package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What was refused, mended and sent again is not replayed as it was, however
// often the first version had been replayed before.
func TestMendedRecordIsNotReplayedAsItWas(t *testing.T) {
	mended := map[string]string{"under its key": record(1, 1, 2), "under another key": record(1001, 1, 2)}
	for name, later := range mended {
		for _, status := range []int{http.StatusUnprocessableEntity, http.StatusServiceUnavailable} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				answer := http.StatusUnprocessableEntity
				var bodies []string
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					bodies = append(bodies, string(body))
					w.WriteHeader(answer)
				}))
				defer srv.Close()
				dir, input := t.TempDir(), filepath.Join(t.TempDir(), "log.ndjson")
				do := func(want int, command string, line string) {
					t.Helper()
					args := []string{command, "--url", srv.URL, "--state-dir", dir, "--max-attempts", "1", "--breaker-store", "memory"}
					if line != "" {
						if err := os.WriteFile(input, []byte(line+"\n"), 0o600); err != nil {
							t.Fatal(err)
						}
						args = append(args, input)
					}
					sys, stdout, stderr := testSystem(args...)
					if code := run(sys); code != want {
						t.Fatalf("%s: exit %d, want %d\n%s%s", command, code, want, stdout, stderr)
					}
				}
				do(exitPerson, "upload", record(1, 1, 0))
				do(exitPerson, "replay", "")
				answer = status
				if status == http.StatusServiceUnavailable {
					do(exitWaiting, "upload", later)
				} else {
					do(exitPerson, "upload", later)
				}
				answer, bodies = http.StatusCreated, nil
				do(exitOK, "replay", "")
				if want := []string{`{"house_number":"WXYZ-0000012"}`}; !slices.Equal(bodies, want) {
					t.Errorf("sent %q, want %q", bodies, want)
				}
				if left, _ := filepath.Glob(dir + "/deadletters/*.ndjson"); len(left) > 0 {
					t.Errorf("letters are left in %v", left)
				}
				do(exitOK, "upload", later)
				if len(bodies) != 1 {
					t.Errorf("sent again: %q", bodies)
				}
			})
		}
	}
}

// A letter is replayed in the form in which it was posted.
func TestReplayKeepsTheBodyForm(t *testing.T) {
	var bodies []string
	answer := http.StatusUnprocessableEntity
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		w.WriteHeader(answer)
	}))
	defer srv.Close()
	dir, input := t.TempDir(), filepath.Join(t.TempDir(), "log.ndjson")
	if err := os.WriteFile(input, []byte(record(1, 1, 0)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sys, _, _ := testSystem("upload", "--url", srv.URL, "--state-dir", dir, "--body", "envelope", input)
	run(sys)
	answer = http.StatusCreated
	sys, stdout, stderr := testSystem("replay", "--url", srv.URL, "--state-dir", dir)
	if code := run(sys); code != exitOK || len(bodies) != 2 || bodies[0] != bodies[1] || bodies[0] != record(1, 1, 0) {
		t.Errorf("exit %d, sent %q\n%s%s", code, bodies, stdout, stderr)
	}
}
