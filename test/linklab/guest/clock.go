//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trafficup/test/linklab"
)

// one plays a scenario of any kind.
func one(ctx context.Context, bin, name string) any {
	for _, row := range linklab.Shapes() {
		if i := slices.IndexFunc(row, func(s linklab.Shape) bool { return s.Name == name }); i >= 0 {
			return playShape(ctx, bin, row[i])
		}
	}
	for _, row := range linklab.Clocks() {
		if i := slices.IndexFunc(row, func(c linklab.Clock) bool { return c.Name == name }); i >= 0 {
			r := linklab.ClockRun{Name: name}
			if err := playClock(ctx, bin, row[i], &r); err != nil {
				r.Error = err.Error()
			}
			return r
		}
	}
	for _, row := range linklab.Edges() {
		if i := slices.IndexFunc(row, func(e linklab.Edge) bool { return e.Name == name }); i >= 0 {
			return playEdge(ctx, bin, row[i])
		}
	}
	return run(ctx, bin, name)
}

func playClock(ctx context.Context, bin string, c linklab.Clock, r *linklab.ClockRun) error {
	work := filepath.Join(scratch, c.Name)
	if err := errors.Join(command("ip", "link", "set", "lo", "up"), writeRecords(work, c.First, c.Records), setClock(c.Start)); err != nil {
		return err
	}
	a := &clockAPI{clock: c, failed: make(chan error, len(c.Steps))}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: a}
	go srv.Serve(l)
	defer srv.Close()
	const state = scratch + "/state"
	reports, err := filepath.Glob(filepath.Join(state, "runs", "*", "report.json"))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, bin, "upload", "--settle", "0s", "--deadline", "60s", "--concurrency", "4", "--state-dir", state,
		"--log-file", filepath.Join(work, logFile), "--log-format", "json", "--url", "http://"+l.Addr().String()+"/v1/logs", filepath.Join(work, "night.ndjson"))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	start := time.Now()
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return err
	}
	r.Seconds, r.Exit, r.Said = time.Since(start).Seconds(), cmd.ProcessState.ExitCode(), said.String()
	r.Requests, r.Late = a.seen()
	select {
	case err := <-a.failed:
		return err
	default:
	}
	log, err := os.ReadFile(filepath.Join(work, logFile))
	if err != nil {
		return err
	}
	r.Log = string(log)
	r.Report, err = newReport(state, reports)
	return err
}

// newReport returns the one report that was not there before. Names sort by a clock
// that is not to be trusted here.
func newReport(state string, before []string) (string, error) {
	now, err := filepath.Glob(filepath.Join(state, "runs", "*", "report.json"))
	if err != nil {
		return "", err
	}
	now = slices.DeleteFunc(now, func(name string) bool { return slices.Contains(before, name) })
	if len(now) != 1 {
		return "", fmt.Errorf("the upload left %d reports", len(now))
	}
	text, err := os.ReadFile(now[0])
	return string(text), err
}

func setClock(to time.Time) error {
	ts := unix.NsecToTimespec(to.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}

// clockAPI takes records and sets the clock meanwhile.
type clockAPI struct {
	clock  linklab.Clock
	failed chan error

	mu       sync.Mutex
	first    time.Time     // guarded by mu
	requests []time.Time   // guarded by mu
	late     time.Duration // guarded by mu
}

func (a *clockAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	now := time.Now()
	a.mu.Lock()
	if a.first.IsZero() {
		a.first = now
		for _, s := range a.clock.Steps {
			time.AfterFunc(s.After, func() {
				if err := setClock(s.To); err != nil {
					a.failed <- err
				}
			})
		}
	}
	a.requests = append(a.requests, now)
	early := now.Sub(a.first) < time.Second
	a.mu.Unlock()
	time.Sleep(200 * time.Millisecond)
	if a.clock.Patience > 0 && early {
		told := time.Now()
		time.AfterFunc(a.clock.Patience, func() { a.timed(time.Since(told) - a.clock.Patience) })
		w.Header().Set("Retry-After", fmt.Sprint(int(a.clock.Patience.Seconds())))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// timed notes by how much a timer was late.
func (a *clockAPI) timed(late time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = max(a.late, late)
}

// seen returns when requests came, in seconds since the first, and by how much a
// timer was late.
func (a *clockAPI) seen() (at []float64, late float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at = []float64{}
	for _, t := range a.requests {
		at = append(at, t.Sub(a.first).Seconds())
	}
	return at, a.late.Seconds()
}
