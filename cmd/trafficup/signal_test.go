//go:build unix

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// ending are the signals that end a run, with its code.
var ending = map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143}

func eachSignal(t *testing.T, test func(t *testing.T, api *slowAPI, state string, s syscall.Signal, code int)) {
	for s, code := range ending {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			test(t, newSlowAPI(t), t.TempDir(), s, code)
		})
	}
}

// At the start: the run has the lock and waits for its first record.
func TestSignalAtStart(t *testing.T) {
	eachSignal(t, func(t *testing.T, api *slowAPI, state string, s syscall.Signal, code int) {
		p := api.upload(t, state, "-")
		p.until("the lock", func() bool {
			text, err := os.ReadFile(filepath.Join(state, "lock"))
			return err == nil && len(text) > 0
		})
		p.signal(s)
		p.exits(code)
	})
}

// In mid-run: what is in flight is answered, nothing else is sent.
func TestSignalInMidRun(t *testing.T) {
	eachSignal(t, func(t *testing.T, api *slowAPI, state string, s syscall.Signal, code int) {
		p := api.upload(t, state, writeNight(t, 100))
		for range 4 {
			api.next(t)
		}
		p.signal(s)
		p.says("stopping")
		close(api.answers)
		p.exits(code)
		if r := lastReport(t, state); r.Acked != 4 || len(api.arrived) > 0 || r.ExitCode != code {
			t.Errorf("%d more requests, %+v", len(api.arrived), r)
		}
	})
}

// In backoff: nobody waits for a pause of fifty seconds.
func TestSignalInBackoff(t *testing.T) {
	eachSignal(t, func(t *testing.T, api *slowAPI, state string, s syscall.Signal, code int) {
		begin := time.Now()
		p := api.upload(t, state, writeNight(t, 1))
		api.next(t)
		api.answers <- http.StatusServiceUnavailable
		p.says("waiting")
		p.signal(s)
		p.exits(code)
		if d := time.Since(begin); d > 40*time.Second {
			t.Errorf("ended after %s", d)
		}
		if r := lastReport(t, state); r.Halted != 1 || len(api.arrived) > 0 {
			t.Errorf("%d more requests, %+v", len(api.arrived), r)
		}
	})
}

// Twice: what is in flight is abandoned.
func TestSecondSignalAbandonsRequests(t *testing.T) {
	eachSignal(t, func(t *testing.T, api *slowAPI, state string, s syscall.Signal, code int) {
		p := api.upload(t, state, writeNight(t, 100))
		for range 4 {
			api.next(t)
		}
		p.signal(s)
		p.says("stopping")
		p.signal(s)
		p.exits(code)
		if r := lastReport(t, state); r.Acked != 0 || len(api.arrived) > 0 {
			t.Errorf("%d more requests, %+v", len(api.arrived), r)
		}
	})
}

// While the last record is in flight: all is done in the end.
func TestSignalBeforeTheLastAnswer(t *testing.T) {
	eachSignal(t, func(t *testing.T, api *slowAPI, state string, s syscall.Signal, _ int) {
		p := api.upload(t, state, writeNight(t, 1))
		api.next(t)
		p.signal(s)
		p.says("stopping")
		close(api.answers)
		p.exits(exitOK)
	})
}

// The end of a terminal session does not end the night.
func TestHangupIsIgnored(t *testing.T) {
	api, state := newSlowAPI(t), t.TempDir()
	p := api.upload(t, state, writeNight(t, 5))
	for range 4 {
		api.next(t)
	}
	p.signal(syscall.SIGHUP)
	close(api.answers)
	p.exits(exitOK)
	if key := api.next(t); key != "key-000004" {
		t.Errorf("last came %q", key)
	}
}
