// Package redistest runs redis-server processes for tests: one, one with
// sentinels, or a cluster. Each has a free port of the loopback and a directory
// of its own, keeps nothing on disk unless asked to, and ends with its test.
//
// Where redis-server is missing the test is skipped, and fails when CI is set.
package redistest

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// patience bounds what other processes do in their own time. Only a hang reaches it.
const patience = 60 * time.Second

// Server is a redis-server of a test's own. Its methods are for the test's
// goroutine and end the test when they fail.
type Server struct {
	Addr string // host:port
	Dir  string // where it keeps what it is asked to

	t    testing.TB
	port string
	args []string
	conf string // of a sentinel, which wants a file
	cmd  *exec.Cmd
	died chan struct{} // closed when cmd has ended
}

// Start runs redis-server with args behind those that give it a port, no
// snapshots and little to log, and waits until it answers.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, Dir: t.TempDir(), args: args}
	t.Cleanup(s.Stop)
	for range 10 {
		if s.take(freePort(t)); s.launch(nil) {
			return s
		}
	}
	t.Fatalf("redis-server does not start:\n%s", s.log())
	return nil
}

// Start runs the server again, after Stop, on its port and in its directory, with
// more arguments if need be.
func (s *Server) Start(more ...string) {
	s.t.Helper()
	begin := time.Now()
	for !s.launch(more) { // the old one's connections may hold the port for a moment
		if time.Since(begin) > patience {
			s.t.Fatalf("redis-server does not start again:\n%s", s.log())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Stop kills the server, if it runs.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.died
		s.cmd = nil
	}
}

// Signal sends the server a signal, SIGSTOP for one.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// URL is the server's address as a URL.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Client returns a plain client, for what the test does to the server and sees
// in it. The test's end closes it.
func (s *Server) Client() *goredis.Client {
	c := s.client()
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *Server) client() *goredis.Client {
	logging.Disable() // it would tell of each try to connect
	return goredis.NewClient(&goredis.Options{
		Addr: s.Addr, DialerRetries: 1, MaxRetries: -1, PoolSize: 4, DisableIdentity: true, Protocol: 2,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, ContextTimeoutEnabled: true,
	})
}

// Do makes one call, in words, that has to succeed.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	c := s.client()
	defer func() { _ = c.Close() }()
	reply, err := c.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		s.t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// Info returns a section of INFO, "" while there is no answer.
func (s *Server) Info(section string) string {
	c := s.client()
	defer func() { _ = c.Close() }()
	return c.Info(context.Background(), section).Val()
}

// Wait polls until ok, and ends the test when that takes too long.
func Wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (s *Server) take(port int) {
	s.port = strconv.Itoa(port)
	s.Addr = net.JoinHostPort("127.0.0.1", s.port)
}

// launch starts the process and tells whether it answers; it does not when it
// ends at once, as with a port that somebody else was faster to take.
func (s *Server) launch(more []string) bool {
	s.t.Helper()
	args := []string{"--port", s.port, "--bind", "127.0.0.1", "--dir", s.Dir, "--logfile", filepath.Join(s.Dir, "log"), "--loglevel", "warning"}
	if s.conf != "" {
		args = append([]string{s.conf}, args...)
	} else {
		args = append(args, "--save", "")
	}
	cmd := exec.Command(binary(s.t), append(append(args, s.args...), more...)...)
	cmd.SysProcAttr = mortal()
	started, died := make(chan error), make(chan struct{})
	go func() {
		// It ends with the thread that started it, and tests of networks end theirs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(died)
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.died = cmd, died
	c := s.client()
	defer func() { _ = c.Close() }()
	for begin := time.Now(); ; {
		err := c.Ping(context.Background()).Err()
		if _, answered := err.(goredis.Error); err == nil || answered {
			return true
		}
		select {
		case <-died:
			s.cmd = nil
			return false
		case <-time.After(10 * time.Millisecond):
		}
		if time.Since(begin) > patience {
			s.t.Fatalf("redis-server does not answer:\n%s", s.log())
		}
	}
}

func (s *Server) log() string {
	text, _ := os.ReadFile(filepath.Join(s.Dir, "log")) // there may be none
	return string(text)
}

func binary(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		const lacks = "redis-server is missing: apt-get install redis-server"
		if os.Getenv("CI") != "" {
			t.Fatal(lacks)
		}
		t.Skip(lacks)
	}
	return path
}

// freePort is one below those that the kernel gives away, so that nobody gets it
// by chance, and so is the one 10000 above it, where nodes of a cluster talk.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(12000)
		if isFree(port) && isFree(port+10000) {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

func has(text string, any ...string) bool {
	for _, a := range any {
		if strings.Contains(text, a) {
			return true
		}
	}
	return false
}
