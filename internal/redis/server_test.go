package redis_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"trafficup/internal/redis"
)

func TestMain(m *testing.M) {
	// The tests that run side by side wait for servers nearly all the time.
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// server is a redis-server of a test's own.
type server struct {
	addr, port, dir string
	conf            string // of a sentinel, which wants one first
	cmd             *exec.Cmd
}

// start runs redis-server on a free port of the loopback until the test ends.
func start(t *testing.T, args ...string) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().String(), dir: t.TempDir()}
	_, s.port, _ = net.SplitHostPort(s.addr)
	_ = l.Close()
	s.run(t, args...)
	return s
}

// run starts the server, anew if it ran before, and waits until it answers.
func (s *server) run(t *testing.T, args ...string) {
	t.Helper()
	if os.Getenv("REDIS") != "1" {
		t.Skip("REDIS is not 1: no test with servers of its own")
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		lacks(t, "redis-server: install the Debian package redis-server")
	}
	args = append([]string{"--port", s.port, "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", filepath.Join(s.dir, "log"), "--loglevel", "warning"}, args...)
	if s.conf != "" {
		args = append([]string{s.conf}, args...)
	} else {
		args = append(args[:8:8], append([]string{"--save", ""}, args[8:]...)...)
	}
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd
	t.Cleanup(func() { s.kill() })
	admin := s.admin(t)
	wait(t, "redis-server to start", func() bool {
		err := admin.Ping(context.Background()).Err()
		_, answered := err.(goredis.Error)
		return err == nil || answered
	})
}

func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// admin is a plain client, for what the test does to the server.
func (s *server) admin(t *testing.T) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: s.addr, DialerRetries: 1, MaxRetries: -1, DialTimeout: time.Second, ReadTimeout: time.Second, DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *server) do(t *testing.T, args ...any) {
	t.Helper()
	if err := s.admin(t).Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

func (s *server) config() redis.Config {
	return redis.Config{API: "test", URL: "redis://" + s.addr}
}

func open(t *testing.T, cfg redis.Config) *redis.Client {
	t.Helper()
	c, err := redis.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// wait polls for something that other processes do in their own time.
func wait(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !ok() {
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begin)
}

func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("this machine lacks %s", what)
	}
	t.Skipf("this machine lacks %s", what)
}

// flat is the name of a subtest as a part of a key.
func flat(t *testing.T) string { return strings.ReplaceAll(fmt.Sprint(t.Name()), "/", "_") }
