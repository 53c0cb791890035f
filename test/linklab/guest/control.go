//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"trafficup/test/linklab"
)

// startControl runs the control of a scenario that has one, over the last link.
// stop ends it and returns what [linklab.Measure] takes.
func startControl(ctx context.Context, n *network, s linklab.Scenario) (stop func(start time.Time) ([][]time.Duration, error), err error) {
	if !s.Control {
		return func(time.Time) ([][]time.Duration, error) { return nil, nil }, nil
	}
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", n.client, os.Args[0], "control",
		n.url(len(n.links)-1), strconv.Itoa(s.Concurrency), strconv.Itoa(s.Records))
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func(start time.Time) ([][]time.Duration, error) {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			return nil, fmt.Errorf("control: %w: %s", err, complaint.String())
		}
		var times [][]time.Time
		err := json.Unmarshal(out.Bytes(), &times)
		loops := make([][]time.Duration, len(times))
		for i, loop := range times {
			for _, t := range loop {
				loops[i] = append(loops[i], t.Sub(start))
			}
		}
		return loops, err
	}, nil
}

// control posts records to a URL in as many loops as asked for, with nothing around
// that but net/http, until stdin ends. The records are those from a number on. It
// prints for each loop when it began and when each of its requests ended. args are
// the URL and both numbers.
func control(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	first, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	var next atomic.Int64
	next.Store(first - 1)
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(done)
	}()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	times, errs := make([][]time.Time, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { times[i], errs[i] = loop(client, args[0], &next, done) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return json.MarshalWrite(os.Stdout, times)
}

// loop posts one record after the other until done is closed.
func loop(client *http.Client, url string, next *atomic.Int64, done <-chan struct{}) (times []time.Time, err error) {
	times = append(times, time.Now())
	for {
		select {
		case <-done:
			return times, nil
		default:
		}
		if err := post(client, url, int(next.Add(1))); err != nil {
			return nil, err
		}
		times = append(times, time.Now())
	}
}

// post sends a record with the headers that trafficup sends.
func post(client *http.Client, url string, i int) error {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(record(i)))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"User-Agent": "trafficup", "Accept": "application/json", "Accept-Encoding": "identity",
		"Content-Type": "application/json", "Idempotency-Key": key(i), "X-Trafficup-Run": "control", "X-Trafficup-Attempt": "1"} {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("record %d: %s", i, resp.Status)
	}
	return nil
}
