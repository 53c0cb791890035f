package oauth

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/secret"
)

// dying is a file system that kills the process before its nth change.
type dying struct {
	disk.FS
	left *int
}

func (d dying) step() {
	if *d.left--; *d.left == 0 {
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		select {}
	}
}

func (d dying) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	if flag == os.O_RDONLY {
		return d.FS.OpenFile(name, flag, perm)
	}
	d.step()
	f, err := d.FS.OpenFile(name, flag, perm)
	return dyingFile{f, d}, err
}

func (d dying) Rename(from, to string) error { d.step(); return d.FS.Rename(from, to) }
func (d dying) SyncDir(name string) error    { d.step(); return d.FS.SyncDir(name) }

type dyingFile struct {
	disk.File
	d dying
}

func (f dyingFile) Write(p []byte) (int, error) {
	f.d.step()
	n, err := f.File.Write(p[:len(p)/2]) // torn
	if err != nil {
		return n, err
	}
	f.d.step()
	m, err := f.File.Write(p[len(p)/2:])
	return n + m, err
}

func (f dyingFile) Sync() error  { f.d.step(); return f.File.Sync() }
func (f dyingFile) Close() error { f.d.step(); return f.File.Close() }

// helper is what the test binary does when a test runs it as another process: it
// gets one token, prints it and exits. requires OAUTH_TEST_URL.
func helper() {
	if os.Getenv("OAUTH_TEST_URL") == "" {
		return
	}
	steps, _ := strconv.Atoi(os.Getenv("OAUTH_TEST_DIE"))
	c := newClient(Config{
		TokenURL: os.Getenv("OAUTH_TEST_URL"), ClientID: "client", ClientSecret: secret.New("CANARY-secret"),
		RefreshToken: secret.New("CANARY-refresh"), CacheFile: os.Getenv("OAUTH_TEST_CACHE"), Timeout: 5 * time.Second,
	})
	c.fsys = dying{disk.OS{}, &steps}
	g, err := c.fetch(context.Background(), secret.New(os.Getenv("OAUTH_TEST_OLD")))
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(g.value.Reveal())
	os.Exit(0)
}

// another runs helper in a process and returns what it printed.
func another(t *testing.T, url, cache, old string, die int) (string, error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "OAUTH_TEST_URL="+url, "OAUTH_TEST_CACHE="+cache, "OAUTH_TEST_OLD="+old, fmt.Sprint("OAUTH_TEST_DIE=", die),
		"GORACE=atexit_sleep_ms=0") // the race detector would sleep a second at each exit
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// listen serves e on a port of this machine.
func listen(t *testing.T, e *endpoint) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: e}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return "http://" + ln.Addr().String() + "/token"
}

func TestProcessesAtOnceMakeOneRequest(t *testing.T) {
	e := &endpoint{expires: "3600", slow: 100 * time.Millisecond, rotating: true, refresh: "CANARY-refresh"}
	url, cache := listen(t, e), filepath.Join(t.TempDir(), "token.json")
	for round, old := range []string{"", "CANARY-access-1"} {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				out, err := another(t, url, cache, old, 0)
				if want := fmt.Sprint("CANARY-access-", round+1); err != nil || out != want {
					t.Errorf("%q, %v; want %s", out, err, want)
				}
			})
		}
		wg.Wait()
		if n := e.count(); n != round+1 {
			t.Errorf("%d requests", n)
		}
	}
	if info, err := os.Stat(cache); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

// TestKilledWhileRotating kills a process before each of its changes to the disk.
// Whatever the file says then still works with a server that lets the refresh
// token before be used until its successor is.
func TestKilledWhileRotating(t *testing.T) {
	for die := 1; ; die++ {
		e := &endpoint{expires: "3600", rotating: true, refresh: "CANARY-refresh"}
		url, cache := listen(t, e), filepath.Join(t.TempDir(), "token.json")
		first, err := another(t, url, cache, "", 0)
		if err != nil || first != "CANARY-access-1" {
			t.Fatal(first, err)
		}
		out, err := another(t, url, cache, first, die)
		if err == nil {
			if die < 6 {
				t.Errorf("only %d steps", die-1)
			}
			return
		}
		if out != "" {
			t.Fatalf("step %d: the token was used before it was safe: %q", die, out)
		}
		next, err := another(t, url, cache, first, 0)
		if err != nil || next == first {
			t.Errorf("killed before step %d: %q, %v", die, next, err)
		}
		left, err := os.ReadDir(filepath.Dir(cache))
		if err != nil || len(left) != 2 { // the file and its lock
			t.Errorf("killed before step %d: %v, %v", die, left, err)
		}
	}
}
