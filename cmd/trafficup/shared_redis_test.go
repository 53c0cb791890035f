//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"trafficup/internal/redis/redistest"
)

// warnings are those about Redis.
func (d lied) warnings() (all []string) {
	for line := range strings.Lines(d.stderr) {
		if strings.Contains(line, "warning: redis ") {
			all = append(all, line)
		}
	}
	return all
}

// demoted is a Redis that a failover makes a replica to those who are connected.
// Those who come after the promotion are led to the new master.
type demoted struct {
	mu       sync.Mutex
	old      map[*server.Peer]bool // guarded by mu
	replica  bool                  // guarded by mu
	promoted bool                  // guarded by mu
}

func (d *demoted) hook(c *server.Peer, _ string, _ ...string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.old[c]; !known {
		d.old[c] = !d.promoted
	}
	refused := d.replica && d.old[c]
	if refused {
		c.WriteError("READONLY You can't write against a read only replica.")
	}
	return refused
}

// After a failover no connection stays with the old master: all records are sent,
// and what becomes of the breaker is stored with the new one.
func TestFailoverInMidRun(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	d := &demoted{old: map[*server.Peer]bool{}}
	m.Server().SetPreHook(d.hook)
	var api *fickle
	var stored sync.Once
	api = newFickle(t, func(w http.ResponseWriter, _ *http.Request, nth int) {
		d.mu.Lock()
		d.replica, d.promoted = nth >= 20, nth >= 100
		d.mu.Unlock()
		// From then on something is to be stored.
		if nth >= 100 && !m.Exists(api.key("breaker", "primary")) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if nth >= 100 {
			stored.Do(func() { api.turns(with(http.StatusCreated)) })
		}
		w.WriteHeader(http.StatusCreated)
	})
	up := api.upload("redis://"+m.Addr(), 200, "--rate", "100", "--breaker-threshold", "100000", "--max-attempts", "1000", "--retry-budget-min", "100000").upload(t)
	up.is(t, exitOK, 200, 0)
	if said := up.warnings(); len(said) != 2 || !strings.Contains(said[0], "redis answers as a replica") || !strings.Contains(said[1], "redis is back") || up.Shared.Away != "" {
		t.Errorf("said %q, %+v", said, up.Shared)
	}
}

// Scripts that are forgotten and a restart cost no failure its count, and none
// counts twice.
func TestScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	see := s.Client()
	var api *fickle
	api = newFickle(t, func(w http.ResponseWriter, _ *http.Request, nth int) {
		w.WriteHeader(http.StatusServiceUnavailable)
		switch nth {
		case 50:
			s.Do("SCRIPT", "FLUSH")
		case 100:
			s.Stop()
			s.Start()
		case 150: // the run goes on when both know of each other again
			redistest.Wait(t, "all to be shared", func() bool {
				raw, _ := see.Get(context.Background(), api.key("breaker", "primary")).Result()
				return strings.Contains(raw, `"failures":149`)
			})
		}
	})
	up := api.upload(s.URL(), 200, "--concurrency", "1", "--breaker-threshold", "1000", "--breaker-window", "1h", "--max-attempts", "1", "--backoff-base", "1ms").upload(t)
	up.is(t, exitWaiting, 0, 200)
	if k := keptAt(t, see, api.key("breaker", "primary")); k.State.Failures != 200 || api.came() != 200 {
		t.Errorf("%d requests, %s", api.came(), k.raw)
	}
}

// Whatever Redis answers to everything: all records are delivered, one warning says
// what it is and what to do, and where Redis is required what somebody has to mend
// ends the run before anything is sent.
func TestEveryErrorOfRedis(t *testing.T) {
	for text, want := range map[string]struct {
		says string
		mend bool
	}{
		"LOADING Redis is loading the dataset in memory":          {"is loading its data", false},
		"CLUSTERDOWN Hash slot not served":                        {"redis-cli cluster info", false},
		"MASTERDOWN Link with MASTER is down":                     {"promote a replica", false},
		"BUSY Redis is busy running a script.":                    {"SCRIPT KILL", false},
		"READONLY You can't write":                                {"answers as a replica", false},
		"MOVED 1 127.0.0.1:1":                                     {"give the nodes as a cluster", false},
		"ERR max number of clients reached":                       {"raise maxclients", false},
		"OOM command not allowed when used memory > 'maxmemory'.": {"raise maxmemory", true},
		"MISCONF Redis is configured to save RDB snapshots":       {"make room for its snapshot", true},
		"NOAUTH Authentication required.":                         {"set redis.password_file", true},
		"WRONGPASS invalid username-password pair":                {"correct redis.username", true},
		"NOPERM this user has no permissions":                     {"docs/redis.md", true},
		"WRONGTYPE Operation against a key":                       {"redis-cli TYPE", true},
		"ERR unknown command":                                     {"version 5 or later", true},
		"NOSCRIPT No matching script.":                            {"version 5 or later", true},
	} {
		t.Run(strings.Fields(text)[0]+" "+strings.Fields(text)[1], func(t *testing.T) {
			t.Parallel()
			m := miniredis.RunT(t)
			m.SetError(text)
			api := newFickle(t, with(http.StatusCreated))
			l := api.upload("redis://"+m.Addr(), 20, "--shared-rate", "1000", "--set", "redis.uploaders=2")
			up := l.upload(t)
			up.is(t, exitOK, 20, 0)
			if said := up.warnings(); len(said) != 1 || !strings.Contains(said[0], want.says) || !strings.Contains(said[0], text) {
				t.Errorf("said %q", said)
			}
			if up.Shared == nil || up.Shared.Calls.Error == 0 || up.Transitions != 0 {
				t.Errorf("%+v, %d changes", up.Shared, up.Transitions)
			}
			required := l
			required.args = append(l.args, "--set", "redis.required=true")
			sent, code := api.came(), exitOK
			if want.mend {
				code = exitUsage
			}
			again := required.upload(t)
			if again.ExitCode != code || want.mend && (api.came() != sent || !strings.Contains(again.stderr, "hint: ") || !strings.Contains(again.stderr, want.says)) {
				t.Errorf("required: exit %d after %d requests\n%s", again.ExitCode, api.came()-sent, again.stderr)
			}
		})
	}
}

// What is under the keys and is not ours stays, and is named.
func TestForeignKeysStay(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	see := s.Client()
	for name, put := range map[string]func(key string) []any{
		"a list": func(key string) []any { return []any{"RPUSH", key, "a", "b"} },
		"a word": func(key string) []any { return []any{"SET", key, "x"} },
	} {
		t.Run(name, func(t *testing.T) {
			api := newFickle(t, func(w http.ResponseWriter, _ *http.Request, nth int) {
				if nth == 5 { // so that there is something to write
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				w.WriteHeader(http.StatusCreated)
			})
			dump := func() (all []string) {
				for _, key := range []string{api.key("breaker", "primary"), api.key("limit"), api.key("latency")} {
					all = append(all, see.Dump(context.Background(), key).Val())
				}
				return all
			}
			for _, key := range []string{api.key("breaker", "primary"), api.key("limit"), api.key("latency")} {
				s.Do(put(key)...)
			}
			before := dump()
			l := api.upload(s.URL(), 20, "--shared-rate", "1000")
			up := l.upload(t)
			up.is(t, exitOK, 20, 0)
			if said := up.warnings(); len(said) != 1 || !strings.Contains(said[0], "holds something else under the key") || !strings.Contains(said[0], "remove it if it is not needed") {
				t.Errorf("said %q", said)
			}
			sent := api.came()
			l.args = append(l.args, "--set", "redis.required=true")
			if up := l.upload(t); up.ExitCode != exitUsage || api.came() != sent || !strings.Contains(up.stderr, "hint: see what it is with redis-cli") {
				t.Errorf("required: exit %d after %d requests\n%s", up.ExitCode, api.came()-sent, up.stderr)
			}
			if after := dump(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("holds %q, held %q", after, before)
			}
		})
	}
}

// A Redis without memory to spare takes no writes, and costs nothing but them.
func TestRedisIsFull(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	s.Client().Do(context.Background(), "SET", "rest", strings.Repeat("x", 1<<20)) // whether or not it is taken
	api := newFickle(t, with(http.StatusCreated))
	up := api.upload(s.URL(), 100, "--shared-rate", "1000").upload(t)
	up.is(t, exitOK, 100, 0)
	if said := up.warnings(); len(said) != 1 || !strings.Contains(said[0], "is out of memory") {
		t.Errorf("said %q", said)
	}
}

// One of three sentinels drops packets: twenty starts find the master nevertheless.
func TestStartsWithADeadSentinel(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	see, dead := g.Master.Client(), silent(t)
	for n := range 20 {
		group := fmt.Sprint("start-", n)
		api := newFickle(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			redistest.Wait(t, "Redis to be found", func() bool {
				return see.Exists(context.Background(), "trafficup:{"+group+"}:probe").Val() == 1
			})
			w.WriteHeader(http.StatusCreated)
		})
		d := lying{url: api.URL, records: 1, args: []string{
			"--breaker-store", "redis", "--set", "redis.sentinel.master=" + g.Name, "--set", "redis.group=" + group, "--set", fmt.Sprintf("redis.sentinel.addrs=[%q, %q, %q]", dead, g.Addrs()[1], g.Addrs()[2]),
		}}.upload(t)
		d.is(t, exitOK, 1, 0)
		if d.Shared.Calls.OK == 0 {
			t.Errorf("%+v\n%s", d.Shared, d.stderr)
		}
	}
}

// A Redis that takes no packet is given up after a few calls, and said to be away
// once.
func TestSilentRedis(t *testing.T) {
	t.Parallel()
	api := newFickle(t, with(http.StatusCreated))
	d := api.upload("redis://"+silent(t), 50, "--shared-rate", "1000").upload(t)
	d.is(t, exitOK, 50, 0)
	// A call takes a quarter of a second at most, and some are made at once.
	if said := d.warnings(); len(said) != 1 || !strings.Contains(said[0], "gave no answer within 250ms") || d.Shared.Calls.Timeout > 4 || d.Shared.Away == "" {
		t.Errorf("said %q, %+v", said, d.Shared)
	}
	if d.DurationS > 30 {
		t.Errorf("took %.1f s", d.DurationS)
	}
}

// silent is an address where packets are dropped: nobody takes connections, and
// the queue of those who wait is full.
func silent(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	err = errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0))
	name, err2 := syscall.Getsockname(fd)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 8 {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("its queue does not fill")
	return ""
}
