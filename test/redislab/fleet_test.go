//go:build linux

package redislab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
)

// hang bounds what takes a moment. Only something that hangs reaches it.
const hang = 2 * time.Minute

const (
	threshold   = 8 // failures that open the breaker
	concurrency = 2 // of each upload
	jitter      = 0.2
)

// fleet is uploads that work side by side, for one API and on one Redis.
type fleet struct {
	*api
	t       *testing.T
	program string
	config  string // file, for all commands
	stalls  *stalls
	uploads []*upload
	client  *redis.Client // another machine's
	shared  breaker.Store // as that sees it
	busy    bool          // the machine was, too much to tell what can be reached
}

// newFleet returns one without uploads. more is what the scenario configures.
func newFleet(t *testing.T, on redis.Config, more string) *fleet {
	t.Helper()
	f := &fleet{t: t, program: program(t), api: newAPI(t), config: filepath.Join(t.TempDir(), "trafficup.yaml")}
	f.stalls = watchStalls(t, f.begin)
	where := "url: " + on.URL
	switch {
	case len(on.Sentinel.Addrs) > 0:
		where = fmt.Sprintf("sentinel: {master: %s, addrs: [%s]}", on.Sentinel.Master, strings.Join(quoted(on.Sentinel.Addrs), ", "))
	case len(on.Cluster) > 0:
		where = fmt.Sprintf("cluster: [%s]", strings.Join(quoted(on.Cluster), ", "))
	}
	text := fmt.Sprintf("api: {primary: %q}\nredis:\n  %s\nupload:\n  concurrency: %d\n%s", f.url, where, concurrency, more)
	if err := os.WriteFile(f.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	on.API = strings.TrimPrefix(f.url, "http://")
	c, err := redis.Open(on)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	f.client, f.shared = c, c.Breakers(time.Minute, nil)
	return f
}

func quoted(words []string) (list []string) {
	for _, w := range words {
		list = append(list, fmt.Sprintf("%q", w))
	}
	return list
}

// upload is one of them, with a state directory and records of its own. It may be
// started again.
type upload struct {
	f      *fleet
	name   string // before the number in its keys
	dir    string
	night  string // file
	keys   []string
	stderr string // file, of the run that is or was last
	cmd    *exec.Cmd
	ended  chan struct{}
}

// add makes an upload, which is not started yet.
func (f *fleet) add(records int) *upload {
	f.t.Helper()
	u := &upload{f: f, name: fmt.Sprintf("up%d", len(f.uploads)), dir: f.t.TempDir()}
	var b bytes.Buffer
	for n := range records {
		key := fmt.Sprintf("%s-%06d", u.name, n)
		fmt.Fprintf(&b, `{"spot_id":"SP-%s","idempotency_key":%[1]q,"payload":{"house_number":"WXYZ-%07[2]d"}}`+"\n", key, n)
		u.keys = append(u.keys, key)
	}
	u.night = filepath.Join(u.dir, "night.ndjson")
	if err := os.WriteFile(u.night, b.Bytes(), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.uploads = append(f.uploads, u)
	return u
}

func (u *upload) state() string { return filepath.Join(u.dir, "state") }

// start begins a run of it.
func (u *upload) start() {
	t := u.f.t
	t.Helper()
	out, err := os.CreateTemp(u.dir, "stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }() // the process has one of its own
	u.stderr = out.Name()
	cmd := u.f.command("upload", "--state-dir", u.state(), u.night)
	cmd.Stderr = out
	// Its own group, which is ended as one, and not outliving a test that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the exit code tells
	}()
	u.cmd, u.ended = cmd, ended
	t.Cleanup(u.kill)
}

// kill ends the run that is under way, if there is one, as a power cut does.
func (u *upload) kill() {
	select {
	case <-u.ended: // its number may be another's by now
	default:
		_ = syscall.Kill(-u.cmd.Process.Pid, syscall.SIGKILL)
		<-u.ended
	}
}

// said returns what the last run wrote to stderr.
func (u *upload) said() string {
	text, err := os.ReadFile(u.stderr)
	if err != nil {
		u.f.t.Fatal(err)
	}
	return string(text)
}

// times counts how often the last run said something.
func (u *upload) times(what string) int { return strings.Count(u.said(), what) }

// all tells whether each said something.
func (f *fleet) all(what string) bool {
	return !slices.ContainsFunc(f.uploads, func(u *upload) bool { return u.times(what) == 0 })
}

func (u *upload) hasEnded() bool {
	select {
	case <-u.ended:
		return true
	default:
		return false
	}
}

// command returns one of trafficup's, with the fleet's configuration.
func (f *fleet) command(args ...string) *exec.Cmd {
	cmd := exec.Command(f.program, append(args, "--config", f.config)...)
	cmd.Dir = filepath.Dir(f.config)
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir)
	return cmd
}

// startAll starts all uploads and returns when each has made a call.
func (f *fleet) startAll() time.Duration {
	f.t.Helper()
	for _, u := range f.uploads {
		u.start()
	}
	redistest.Wait(f.t, "all uploads to be at work", func() bool { return len(firsts(f.answered())) == len(f.uploads) })
	return f.now()
}

// wait waits for the end of all uploads.
func (f *fleet) wait() {
	f.t.Helper()
	late := time.After(hang)
	for _, u := range f.uploads {
		select {
		case <-u.ended:
		case <-late:
			f.t.Errorf("%s does not end\n%s", u.name, u.said())
			u.kill()
		}
	}
}

// finish holds that all end well and that each has delivered all it had, once.
func (f *fleet) finish() {
	t := f.t
	t.Helper()
	f.wait()
	for _, u := range f.uploads {
		if code := u.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s ended with %d\n%s", u.name, code, u.said())
		}
	}
	acked := map[string]int{}
	for _, c := range f.answered() {
		if c.ok {
			acked[c.key]++
		}
	}
	total := 0
	for _, u := range f.uploads {
		for _, key := range u.keys {
			total++
			if acked[key] != 1 {
				t.Errorf("%s was taken %d times", key, acked[key])
			}
		}
	}
	if len(acked) != total {
		t.Errorf("%d keys were taken, want %d", len(acked), total)
	}
	if f.busy {
		t.Skip("all but the pace was held: for that the machine is too busy")
	}
}

// breaker returns the shared state of the path.
func (f *fleet) breaker() breaker.State {
	f.t.Helper()
	var s breaker.State
	redistest.Wait(f.t, "the breaker's state", func() bool {
		var err error
		s, err = f.shared.Load(context.Background(), "primary")
		if err != nil && !errors.Is(err, redis.ErrAway) {
			f.t.Fatal(err)
		}
		return err == nil
	})
	return s
}

// opened waits until the breaker is open and returns how it stands then.
func (f *fleet) opened() (s breaker.State) {
	f.t.Helper()
	redistest.Wait(f.t, "the breaker to open", func() bool {
		s = f.breaker()
		return s.Phase == breaker.Open
	})
	return s
}
