//go:build linux

package main

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// manager is what a service manager hears.
type manager struct {
	mu   sync.Mutex
	said []string // guarded by mu
}

func newManager(t *testing.T) *manager {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	m := &manager{}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, string(b[:n]))
			m.mu.Unlock()
		}
	}()
	return m
}

func (m *manager) heard(what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Contains(strings.Join(m.said, "\n"), what)
}

// The service manager is told when the program is ready and when it ends.
func TestServiceManagerIsTold(t *testing.T) {
	t.Run("sandbox", func(t *testing.T) {
		m := newManager(t)
		p := startSubprocess(t, "sandbox", "--listen", "127.0.0.1:0")
		p.until("READY", func() bool { return m.heard("READY=1") })
		p.signal(syscall.SIGTERM)
		p.exits(exitOK)
		if !m.heard("STOPPING=1") {
			t.Error(m.said)
		}
	})
	t.Run("upload", func(t *testing.T) {
		m, api := newManager(t), newSlowAPI(t)
		p := api.upload(t, t.TempDir(), writeNight(t, 5))
		p.until("READY", func() bool { return m.heard("READY=1") })
		api.next(t)
		p.signal(syscall.SIGTERM)
		p.until("STOPPING", func() bool { return m.heard("STOPPING=1") })
		close(api.answers)
		p.exits(143)
	})
}
