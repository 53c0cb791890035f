//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// output is what a process has said so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// subprocess is a run of the program in a process of its own: locks and signals
// are the kernel's, and mean nothing between goroutines.
type subprocess struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdin          io.Closer
	stdout, stderr output
	ended          chan struct{}
}

func startSubprocess(t *testing.T, args ...string) *subprocess {
	t.Helper()
	p := &subprocess{t: t, cmd: exec.Command("trafficup", args...), ended: make(chan struct{})}
	p.cmd.Dir = t.TempDir() // no configuration there
	p.cmd.Env = append(os.Environ(), "HOME="+p.cmd.Dir, "XDG_CONFIG_HOME=", "TRAFFICUP_CONFIG=")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the exit code tells
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// patience is for what must happen sooner or later, on a busy machine too.
const patience = time.Minute

// exits waits for the end of the process and checks its code.
func (p *subprocess) exits(want int) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("still running\n%s%s", &p.stdout, &p.stderr)
	}
	if p.cmd.ProcessState.ExitCode() != want {
		p.t.Fatalf("%s, want %d\n%s%s", p.cmd.ProcessState, want, &p.stdout, &p.stderr)
	}
}

func (p *subprocess) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// until waits for something that no channel tells.
func (p *subprocess) until(what string, seen func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !seen(); time.Sleep(2 * time.Millisecond) {
		select {
		case <-p.ended:
			p.t.Fatalf("ended before %s\n%s%s", what, &p.stdout, &p.stderr)
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("waited in vain for %s\n%s%s", what, &p.stdout, &p.stderr)
		}
	}
}

func (p *subprocess) says(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%q", text), func() bool { return strings.Contains(p.stderr.String(), text) })
}

// holder is how others name the process in their errors.
func (p *subprocess) holder() string {
	host, err := os.Hostname()
	if err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprintf("held by pid %d on %s (upload, since ", p.cmd.Process.Pid, host)
}

// slowAPI takes records when it is told to.
type slowAPI struct {
	*httptest.Server
	arrived chan string // keys, as they come
	answers chan int    // one status each; closed: 201 for all
}

func newSlowAPI(t *testing.T) *slowAPI {
	t.Helper()
	a := &slowAPI{arrived: make(chan string, 1000), answers: make(chan int)}
	ended := make(chan struct{})
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		a.arrived <- r.Header.Get("Idempotency-Key")
		status := http.StatusCreated
		select {
		case s, open := <-a.answers:
			if open {
				status = s
			}
		case <-r.Context().Done():
			return
		case <-ended:
			return
		}
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "50")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(func() {
		close(ended)
		a.Close()
	})
	return a
}

// next waits for a request and returns its key.
func (a *slowAPI) next(t *testing.T) string {
	t.Helper()
	select {
	case key := <-a.arrived:
		return key
	case <-time.After(patience):
		t.Fatal("no request came")
		return ""
	}
}

// upload starts an upload to the API, which may take its time.
func (a *slowAPI) upload(t *testing.T, state string, args ...string) *subprocess {
	t.Helper()
	return startSubprocess(t, append([]string{"upload", "--url", a.URL, "--state-dir", state, "--request-timeout", "10m", "--concurrency", "4"}, args...)...)
}

// Ten at once: one runs, the others say who, and each record comes once.
func TestUploadsAtOnceShareNothing(t *testing.T) {
	api, state, night := newSlowAPI(t), t.TempDir(), writeNight(t, 4)
	var all []*subprocess
	for range 10 {
		all = append(all, api.upload(t, state, night))
	}
	came := map[string]int{}
	for range 4 {
		came[api.next(t)]++
	}
	// The API answers nobody before all the others are gone: one is left.
	left := make(chan *subprocess, len(all))
	for _, p := range all {
		go func() { <-p.ended; left <- p }()
	}
	named := regexp.MustCompile(`held by (pid [0-9]+ on \S+ \(upload, since [0-9:]+Z\)|another process)`)
	gone := map[*subprocess]bool{}
	for range len(all) - 1 {
		p := <-left
		gone[p] = true
		p.exits(exitLocked)
		if !named.MatchString(p.stderr.String()) {
			t.Errorf("no holder in %s", &p.stderr)
		}
	}
	holder := all[slices.IndexFunc(all, func(p *subprocess) bool { return !gone[p] })]
	// Those who came in the first moment may not have learnt the name; this one must.
	late := api.upload(t, state, night)
	late.exits(exitLocked)
	if !strings.Contains(late.stderr.String(), holder.holder()) {
		t.Errorf("%s, want %q", &late.stderr, holder.holder())
	}
	close(api.answers)
	holder.exits(exitOK)
	for len(api.arrived) > 0 {
		came[<-api.arrived]++
	}
	for key, n := range came {
		if n != 1 {
			t.Errorf("%s came %d times", key, n)
		}
	}
	if len(came) != 4 {
		t.Errorf("%d keys came, want 4", len(came))
	}
}

func TestOnLocked(t *testing.T) {
	api, state := newSlowAPI(t), t.TempDir()
	holder := api.upload(t, state, writeNight(t, 1))
	api.next(t)

	skips := api.upload(t, state, "--on-locked", "skip", writeNight(t, 2))
	skips.exits(exitOK)
	if !strings.Contains(skips.stderr.String(), holder.holder()) || skips.stdout.String() != "" {
		t.Errorf("skip says %q and %q", &skips.stdout, &skips.stderr)
	}
	quiet := api.upload(t, state, "--on-locked", "skip", "--quiet", writeNight(t, 2))
	quiet.exits(exitOK)
	if said := quiet.stdout.String() + quiet.stderr.String(); said != "" {
		t.Errorf("quiet skip says %q", said)
	}
	waits := api.upload(t, state, "--on-locked", "wait", writeNight(t, 3))
	waits.says(holder.holder())
	stopped := api.upload(t, state, "--on-locked", "wait", writeNight(t, 3))
	stopped.says(holder.holder())
	stopped.signal(syscall.SIGTERM)
	stopped.exits(143)
	if n := len(api.arrived); n > 0 {
		t.Errorf("%d requests beside the holder's", n)
	}
	close(api.answers)
	holder.exits(exitOK)
	waits.exits(exitOK)
	// Its first record is the holder's, who delivered it meanwhile.
	if n := len(api.arrived); n != 2 {
		t.Errorf("%d requests after waiting, want 2", n)
	}
}

// A holder that stands still is respected, and may finish.
func TestStoppedHolderIsRespected(t *testing.T) {
	api, state, night := newSlowAPI(t), t.TempDir(), writeNight(t, 4)
	holder := api.upload(t, state, night)
	for range 4 {
		api.next(t)
	}
	holder.signal(syscall.SIGSTOP)
	other := api.upload(t, state, night)
	other.exits(exitLocked)
	if !strings.Contains(other.stderr.String(), holder.holder()) {
		t.Errorf("%s, want %q", &other.stderr, holder.holder())
	}
	close(api.answers)
	holder.signal(syscall.SIGCONT)
	holder.exits(exitOK)
	if n := len(api.arrived); n > 0 {
		t.Errorf("%d requests too many", n)
	}
}
