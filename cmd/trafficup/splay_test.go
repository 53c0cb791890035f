//go:build unix

package main

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A fleet that starts at once begins spread over the splay, and waiting is neither
// an attempt nor a failure.
func TestSplaySpreadsAFleet(t *testing.T) {
	var begun []time.Duration
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var first time.Duration
			w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
				if first == 0 {
					first = time.Since(start)
				}
				takes(w, r)
			}), "upload", "--url", primaryURL, "--splay", "10s", "--concurrency", "1", writeNight(t, 1))
			w.all(t, 1)
			if w.Retries != 0 {
				t.Errorf("%+v", w.result)
			}
			begun = append(begun, first)
		})
	}
	slices.Sort(begun)
	if begun[49] > 10*time.Second || begun[49]-begun[0] < 5*time.Second || begun[25]-begun[0] < time.Second {
		t.Errorf("first requests after %v", begun)
	}
}

// A signal ends the wait at once.
func TestSignalInSplay(t *testing.T) {
	eachSignal(t, func(t *testing.T, api *slowAPI, state string, s syscall.Signal, code int) {
		var p *subprocess
		for wait := 100 * time.Millisecond; ; wait *= 4 { // nothing tells that it waits
			p = api.upload(t, state, "--splay", "1h", writeNight(t, 1))
			time.Sleep(wait)
			p.signal(s)
			<-p.ended
			if p.cmd.ProcessState.ExitCode() >= 0 || wait > 10*time.Second {
				break
			}
			// It had not come so far as to hear it.
		}
		p.exits(code)
		if len(api.arrived) > 0 {
			t.Error("a request was made")
		}
	})
}

// One signal ends all inputs of a command line, not only the one being read.
func TestSignalEndsAllInputs(t *testing.T) {
	api, state := newSlowAPI(t), t.TempDir()
	var files []string
	for n := range 5 {
		text, err := os.ReadFile(writeNight(t, 300))
		if err != nil {
			t.Fatal(err)
		}
		name := t.TempDir() + "/night.ndjson"
		marked := strings.NewReplacer("key-", "key-"+string(rune('a'+n)), "SP-", "SP-"+string(rune('a'+n))).Replace(string(text))
		if err := os.WriteFile(name, []byte(marked), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	p := api.upload(t, state, append([]string{"--queue-size", "10"}, files...)...)
	for range 310 {
		api.next(t)
		api.answers <- http.StatusCreated
	}
	p.signal(syscall.SIGTERM)
	p.says("stopping")
	close(api.answers)
	p.exits(143)
	r := lastReport(t, state)
	if r.Acked < 310 || r.Read > 400 || r.Acked+r.Halted != r.Read {
		t.Errorf("%+v", r.Counts)
	}
}
