//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// bare runs a shell's command line in the environment that cron has at its
// barest, and returns the code and all that was said.
func bare(t *testing.T, dir, line string, env ...string) (code int, said string) {
	t.Helper()
	self, err := exec.LookPath("trafficup")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", strings.ReplaceAll(line, "trafficup ", self+" "))
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=/usr/bin:/bin"}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// The night runs as cron starts it: nearly nothing in the environment, no home,
// the root directory or one that is gone, stdin closed, any umask, no locale.
func TestAsCronStartsIt(t *testing.T) {
	var calls atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	defer api.Close()
	for name, c := range map[string]struct {
		before, after, dir string
		env                []string
	}{
		"from the root, stdin closed": {after: "<&-", dir: "/"},
		"stdin of nothing":            {after: "</dev/null", dir: "/"},
		"a directory that is gone":    {before: "d=$(mktemp -d); cd $d; rmdir $d;", dir: "/"},
		"umask 077":                   {before: "umask 077;", dir: "/"},
		"umask 000":                   {before: "umask 000;", dir: "/"},
		"locale C":                    {dir: "/", env: []string{"LANG=C", "LC_ALL=C"}},
		"stdout and stderr closed":    {after: ">&- 2>&-", dir: "/"},
		"unknown time zone":           {dir: "/", env: []string{"TZ=Mars/Olympus"}},
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			night := filepath.Join(work, "Nächte 17%.ndjson")
			if err := os.Rename(writeNight(t, 20), night); err != nil {
				t.Fatal(err)
			}
			state, before := filepath.Join(work, "state"), calls.Load()
			line := fmt.Sprintf("%s trafficup upload --quiet --url %s/v1 --state-dir %s '%s' %s", c.before, api.URL, state, night, c.after)
			code, said := bare(t, c.dir, line, c.env...)
			if code != exitOK || said != "" || calls.Load()-before != 20 {
				t.Fatalf("code %d, %d calls\n%s", code, calls.Load()-before, said)
			}
			err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := d.Info()
				if err == nil && info.Mode().Perm()&0o077 != 0 {
					t.Errorf("others have rights on %s: %s", path, info.Mode())
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Without a place for the state the message says what to give.
func TestNowhereForTheState(t *testing.T) {
	code, said := bare(t, "/", "trafficup upload --url http://127.0.0.1:1/ "+writeNight(t, 1))
	if code != exitUsage || !strings.Contains(said, "give --state-dir") {
		t.Errorf("code %d: %s", code, said)
	}
}

// --quiet is silent when all went well, and short when it did not.
func TestQuietIsShortOnFailure(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprintf(w, `{"title":"bad number %s"}`, r.Header.Get("Idempotency-Key"))
	}))
	defer api.Close()
	state := t.TempDir()
	code, said := bare(t, "/", fmt.Sprintf("trafficup upload --quiet --poison-stop 0 --url %s/v1 --state-dir %s %s /none.ndjson", api.URL, state, writeNight(t, 300)))
	if lines := strings.Count(said, "\n"); code != exitInput || lines == 0 || lines > 20 {
		t.Errorf("code %d, %d lines\n%s", code, lines, said)
	}
}
