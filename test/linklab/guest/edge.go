//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"trafficup/test/linklab"
)

// playEdge plays a night at an edge node.
func playEdge(ctx context.Context, bin string, e linklab.Edge) linklab.EdgeRun {
	r := linklab.EdgeRun{Name: e.Name}
	if err := edgeNight(ctx, bin, e, &r); err != nil {
		r.Error = err.Error()
	}
	return r
}

func edgeNight(ctx context.Context, bin string, e linklab.Edge, r *linklab.EdgeRun) (err error) {
	work := filepath.Join(scratch, e.Name)
	config := "failover: {preset: leo, " + e.Rules + "targets: " + asked + ", uplinks: [" +
		"{name: leo, role: primary, interface: wan0}, {name: lte, role: backup, interface: wan1, metered: true}]}\n"
	if err := errors.Join(writeRecords(work, 0, e.Records),
		os.WriteFile(filepath.Join(work, "scenario"), nil, 0o600),
		os.WriteFile(filepath.Join(work, "failover.yaml"), []byte(config), 0o600)); err != nil {
		return err
	}
	sky := linklab.NewSky(e.Length, rand.New(rand.NewPCG(1, 1)), e.Dark, e.Gap)
	n, err := newEdgeNet(e.Name, sky)
	if err != nil {
		return err
	}
	stop, err := startSandbox(n.ns("api"), bin, work, &r.Sandbox)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	told, end, err := startFailover(n, bin, work)
	if err != nil {
		return err
	}
	start, err := edgeUpload(ctx, n, bin, work, sky, e, r)
	said := end()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	r.Said += said
	if r.Switches, err = readSwitches(told, start); err != nil {
		return err
	}
	r.Carried, err = n.carried(start)
	return err
}

// startFailover starts it on the node and returns when it has chosen an uplink. What
// it tells goes to a file; end ends it and returns its complaints.
func startFailover(n *edgeNet, bin, work string) (told string, end func() string, err error) {
	told = filepath.Join(work, "failover.jsonl")
	out, err := os.Create(told)
	if err != nil {
		return "", nil, err
	}
	defer out.Close()
	cmd := exec.Command("ip", "netns", "exec", n.ns("edge"), bin, "failover", "run", "--json",
		"--config", filepath.Join(work, "failover.yaml"), "--state-dir", filepath.Join(work, "failover"))
	var complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &complaint
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	end = func() string {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // its code is that of a signal
		return complaint.String()
	}
	for range 300 {
		if text, _ := os.ReadFile(told); bytes.Contains(text, []byte(`"event":"switch"`)) {
			return told, end, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	text, _ := os.ReadFile(told)
	return "", nil, fmt.Errorf("failover chose no uplink in 30 s: %s%s", text, end())
}

// edgeUpload runs the upload while the night goes on, to the end of both.
func edgeUpload(ctx context.Context, n *edgeNet, bin, work string, sky linklab.Sky, e linklab.Edge, r *linklab.EdgeRun) (start time.Time, err error) {
	host, state := "lan", "none"
	if e.OnNode {
		host, state = "edge", filepath.Join(work, "failover", "state.json")
	}
	text, err := output("ip", "netns", "exec", n.ns(host), os.Args[0], "rtt", apiAddress)
	if err != nil {
		return start, err
	}
	if _, err = fmt.Sscan(text, &r.RTTms); err != nil {
		return start, err
	}
	args := append([]string{"netns", "exec", n.ns(host), bin, "upload", "--quiet", "--settle", "0s", "--rate", strconv.Itoa(e.Rate),
		"--log-file", filepath.Join(work, logFile), "--log-format", "json", "--state-dir", filepath.Join(work, "state"),
		"--failover-state", state, "--url", "http://" + apiAddress + "/v1/logs"}, e.Upload...)
	cmd := exec.CommandContext(ctx, "ip", append(args, filepath.Join(work, "night.ndjson"))...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	start = time.Now()
	night := make(chan error, 1)
	go func() { night <- n.night(ctx, sky, start) }()
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return start, err
	}
	r.Seconds, r.Exit, r.Said = time.Since(start).Seconds(), cmd.ProcessState.ExitCode(), said.String()
	if err := <-night; err != nil {
		return start, err
	}
	select {
	case <-time.After(time.Until(start.Add(e.Length))):
	case <-ctx.Done():
		return start, fmt.Errorf("the night did not end: %w", ctx.Err())
	}
	return start, readUpload(work, start, r)
}

// readUpload reads what an upload left.
func readUpload(work string, start time.Time, r *linklab.EdgeRun) error {
	if err := readReport(filepath.Join(work, "state"), &r.Summary); err != nil {
		return fmt.Errorf("%w: %s", err, r.Said)
	}
	var log linklab.Result
	ends, err := readLog(filepath.Join(work, logFile), start, &log)
	r.Warnings, r.PerSecond = log.Warnings, linklab.PerSecond(ends)
	return err
}

// readSwitches returns those that failover told of.
func readSwitches(told string, start time.Time) (all []linklab.Switch, err error) {
	text, err := os.ReadFile(told)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var e struct {
			At    time.Time `json:"at"`
			Event string    `json:"event"`
			To    string    `json:"uplink"`
			From  string    `json:"from"`
			Why   string    `json:"why"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("failover told %q: %w", line, err)
		}
		if e.Event == "switch" {
			all = append(all, linklab.Switch{At: e.At.Sub(start).Seconds(), To: e.To, From: e.From, Why: e.Why})
		}
	}
	return all, nil
}
