//go:build linux

package main

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"
)

// startRelay has a namespace pass on what it is sent for the API. stop ends that and
// returns how many bytes were passed on in each second of the clock.
func startRelay(ns, from, to string) (stop func() (map[int64]int, error), err error) {
	cmd := exec.Command("ip", "netns", "exec", ns, os.Args[0], "relay", from, to)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() (sent map[int64]int, err error) {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			return nil, fmt.Errorf("relay: %w: %s", err, complaint.String())
		}
		return sent, json.Unmarshal(out.Bytes(), &sent)
	}, nil
}

// relay is a provider: it accepts connections at one address and makes new ones to
// another, so that what was begun by one provider cannot go on by another, as behind
// address translation, which this kernel lacks. It ends with stdin and prints what
// [startRelay] returns.
func relay(from, to string) error {
	l, err := net.Listen("tcp", from)
	if err != nil {
		return err
	}
	m := &meter{sent: map[int64]int{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go m.pass(c, to)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	m.mu.Lock()
	defer m.mu.Unlock()
	return json.MarshalWrite(os.Stdout, m.sent)
}

// meter counts what is passed on.
type meter struct {
	mu   sync.Mutex
	sent map[int64]int // by second of the clock; guarded by mu
}

func (m *meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent[time.Now().Unix()] += len(p)
	return len(p), nil
}

func (m *meter) pass(c net.Conn, to string) {
	defer c.Close()
	api, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	go func() {
		defer api.Close()
		_, _ = io.Copy(api, io.TeeReader(c, m))
	}()
	_, _ = io.Copy(c, api)
}
