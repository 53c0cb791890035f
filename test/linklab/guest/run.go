//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"trafficup/test/linklab"
)

const port = "8088"

// run plays one scenario. Its files are in memory: the lab is about links.
func run(ctx context.Context, bin, name string) linklab.Result {
	r := linklab.Result{Name: name}
	all := linklab.Scenarios()
	i := slices.IndexFunc(all, func(s linklab.Scenario) bool { return s.Name == name })
	if i < 0 {
		r.Error = "no such scenario"
	} else if err := upload(ctx, bin, all[i], &r); err != nil {
		r.Error = err.Error()
	}
	return r
}

func upload(ctx context.Context, bin string, s linklab.Scenario, r *linklab.Result) error {
	links := []linklab.Profile{s.Link}
	if s.Fallback != nil {
		links = append(links, *s.Fallback)
	}
	if s.Control {
		links = append(links, linklab.Profile{RTT: s.Link.RTT})
	}
	n, err := newNetwork(s.Name, links...)
	if err != nil {
		return err
	}
	work := filepath.Join(scratch, s.Name)
	if err := writeInput(work, s); err != nil {
		return err
	}
	stop, err := startSandbox(n.server, bin, work, &r.Sandbox)
	if err != nil {
		return err
	}
	err = sendAll(ctx, n, bin, work, s, r)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	r.Sandbox.Requests -= r.Control.Requests
	r.Sandbox.Applied -= r.Control.Requests
	r.Breaker, err = readBreaker(filepath.Join(work, "state", "breaker.json"), n.url(0))
	return err
}

func writeInput(work string, s linklab.Scenario) error {
	if err := writeRecords(work, 0, s.Records); err != nil {
		return err
	}
	script := ""
	if s.Delay > 0 {
		script = fmt.Sprintf("delay %s\n", s.Delay)
	}
	return os.WriteFile(filepath.Join(work, "scenario"), []byte(script), 0o600)
}

// writeRecords writes a night of n records, from the first-th on.
func writeRecords(work string, first, n int) error {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	for i := first; i < first+n; i++ {
		b.WriteString(record(i) + "\n")
	}
	return os.WriteFile(filepath.Join(work, "night.ndjson"), b.Bytes(), 0o600)
}

// record returns the i-th of all there could be.
func record(i int) string {
	return fmt.Sprintf(`{"spot_id":"SP-%06d","idempotency_key":"%s","payload":{"house_number":"WXYZ-%07d","title":"Spring sale","advertiser":"Civic Theater","air_time":"06:14:30","duration":"00:00:30","break_number":"1","break_position":"01"},"market":"501","station":"WXYZ-FM","air_date":"2026-07-17"}`, i, key(i), i)
}

func key(i int) string { return fmt.Sprintf("WXYZ:2026-07-17:SP-%06d", i) }

// startSandbox serves on all addresses of a namespace. stop ends it and reads what it
// counted.
func startSandbox(ns, bin, work string, got *linklab.Sandbox) (stop func() error, err error) {
	cmd := exec.Command("ip", "netns", "exec", ns, bin, "sandbox", "--listen", "0.0.0.0:"+port, "--scenario", filepath.Join(work, "scenario"))
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	var counts bytes.Buffer
	cmd.Stdout = &counts
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil { // it ended without a word
		return nil, errors.Join(fmt.Errorf("sandbox: %w: %q", err, line), cmd.Wait())
	}
	return func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // its code is that of a signal
		_, err := fmt.Sscanf(counts.String(), "requests %d, applied %d, repeated %d", &got.Requests, &got.Applied, &got.Repeated)
		if err != nil {
			err = fmt.Errorf("sandbox counts %q: %w", counts.String(), err)
		}
		return err
	}, nil
}

// sendAll runs the upload while the link has its outages, and the control beside
// it. What they did is read afterwards: the guest's one processor is slow.
func sendAll(ctx context.Context, n *network, bin, work string, s linklab.Scenario, r *linklab.Result) (err error) {
	if r.RTTms, err = n.rtt(n.address(0) + ":" + port); err != nil {
		return err
	}
	calm, cancel := context.WithCancel(ctx)
	defer cancel()
	var outages atomic.Int64
	played := make(chan error, 1)
	go func() { played <- n.outages(calm, 0, &outages) }()
	stopControl, err := startControl(ctx, n, s)
	if err != nil {
		return err
	}
	start := time.Now()
	complaint, err := uploadCommand(ctx, n, bin, work, s, r)
	r.Seconds = time.Since(start).Seconds()
	r.Outages = int(outages.Load())
	cancel()
	loops, stopErr := stopControl(start)
	if err = errors.Join(err, <-played, stopErr); err != nil {
		return err
	}
	if err := readReport(filepath.Join(work, "state"), &r.Summary); err != nil {
		return fmt.Errorf("%w: %s", err, complaint)
	}
	if r.Dials, r.Retransmits, err = n.counters(); err != nil {
		return err
	}
	r.Dials -= probes + len(loops)
	ends, err := readLog(filepath.Join(work, logFile), start, r)
	if err != nil {
		return err
	}
	r.Steady, r.PerSecond = linklab.Steady(ends, s.Concurrency), linklab.PerSecond(ends)
	r.Control = linklab.Measure(loops, linklab.Middle(ends))
	return nil
}

const logFile = "log.jsonl"

// uploadCommand runs the upload to its end and returns what it said of errors.
// An exit code is a result and no error.
func uploadCommand(ctx context.Context, n *network, bin, work string, s linklab.Scenario, r *linklab.Result) (complaint string, err error) {
	args := []string{"netns", "exec", n.client, bin, "upload", "--quiet", "--settle", "0s",
		"--log-file", filepath.Join(work, logFile), "--log-format", "json", "--state-dir", filepath.Join(work, "state"),
		"--concurrency", strconv.Itoa(s.Concurrency), "--url", n.url(0)}
	if s.Fallback != nil {
		args = append(args, "--fallback-url", n.url(1))
	}
	cmd := exec.CommandContext(ctx, "ip", append(args, filepath.Join(work, "night.ndjson"))...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return "", err
	}
	r.Exit = cmd.ProcessState.ExitCode()
	return said.String(), nil
}

func (n *network) url(link int) string {
	return "http://" + n.address(link) + ":" + port + "/v1/logs"
}
