package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"trafficup/internal/breaker"
	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
)

// demoted is a hook of a server that a failover has made a replica, to those who
// were connected to it; those who come later are led to the new master.
type demoted struct {
	says func(args []string) string

	mu       sync.Mutex
	old      map[*server.Peer]bool // guarded by mu
	replica  bool                  // guarded by mu; it is one now
	promoted bool                  // guarded by mu; there is a new master
}

func (d *demoted) hook(c *server.Peer, _ string, args ...string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.old[c]; !known {
		d.old[c] = !d.promoted
	}
	refused := d.replica && d.old[c]
	if refused {
		c.WriteError(d.says(args))
	}
	return refused
}

func (d *demoted) set(replica, promoted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replica, d.promoted = replica, promoted
}

func TestReadOnlyAfterFailover(t *testing.T) {
	const plain = "READONLY You can't write against a read only replica."
	for name, says := range map[string]func([]string) string{
		"plain": func([]string) string { return plain },
		"in a script of an old server": func(args []string) string {
			if strings.Contains(strings.Join(args, " "), ":probe") {
				return plain // the probe passes it on as it is
			}
			return "ERR Error running script (call to f_6b1bf4): @user_script:9: @user_script: 9: -" + plain
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := miniredis.NewMiniRedis()
				d := &demoted{old: map[*server.Peer]bool{}, says: says}
				var heard notices
				c := mini(t, m, redis.Config{Notify: heard.take})
				b := c.Breakers(openMax, nil)
				if err := c.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
				m.Server().SetPreHook(d.hook)
				var wg sync.WaitGroup
				for n := range 20 { // the pool fills
					wg.Go(func() { _, _ = b.Update(t.Context(), fmt.Sprint(n), fail) })
				}
				wg.Wait()
				synctest.Wait()
				d.set(true, false)
				time.AfterFunc(3*time.Second, func() { d.set(true, true) })
				br := breaker.New(breaker.Config{Threshold: 1000}, b.Near(), "primary", nil)
				for range 200 {
					p, _, ok, _ := br.Allow(time.Now())
					if !ok {
						t.Fatal("not allowed")
					}
					_ = br.Record(p, breaker.Fail, time.Now())
					time.Sleep(40 * time.Millisecond)
				}
				if got, err := b.Update(t.Context(), "later", fail); err != nil || got.Failures != 1 {
					t.Errorf("five seconds after the failover: %+v, %v", got, err)
				}
				if got, err := mini(t, m, redis.Config{}).Breakers(openMax, nil).Load(t.Context(), "primary"); err != nil || got != br.State() || got.Failures == 0 {
					t.Errorf("shared %+v, own %+v, %v", got, br.State(), err)
				}
				if told := heard.all(); len(told) != 2 || !strings.Contains(fmt.Sprint(told[0]), "READONLY") {
					t.Errorf("told %v", told)
				}
			})
		})
	}
}

func TestScriptFlushAndRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	b := store(t, s)
	for i := range 200 {
		switch i {
		case 50:
			s.Do("SCRIPT", "FLUSH")
		case 100:
			s.Stop()
			if got, err := b.Update(t.Context(), "primary", fail); err == nil || got.Failures != 101 {
				t.Errorf("stopped: %+v, %v", got, err)
			}
			s.Start()
			continue
		}
		if got, _ := b.Update(t.Context(), "primary", fail); got.Failures != i+1 {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	wait(t, "all to be shared", func() bool {
		got, err := store(t, s).Load(t.Context(), "primary")
		return err == nil && got.Failures == 200
	})
}

// Each error to every command: no record waits, one warning a minute, and what was
// under the keys is what is there afterwards.
func TestEveryErrorToEveryCommand(t *testing.T) {
	for _, text := range []string{
		"LOADING Redis is loading the dataset in memory", "OOM command not allowed when used memory > 'maxmemory'.",
		"MISCONF Redis is configured to save RDB snapshots", "CLUSTERDOWN Hash slot not served", "MASTERDOWN Link with MASTER is down",
		"BUSY Redis is busy running a script.", "NOAUTH Authentication required.", "WRONGPASS invalid username-password pair",
		"NOPERM this user has no permissions", "WRONGTYPE Operation against a key", "READONLY You can't write", "MOVED 1 127.0.0.1:1", "ASK 1 127.0.0.1:1",
		"TRYAGAIN Multiple keys request", "NOREPLICAS Not enough good replicas", "ERR max number of clients reached", "ERR unknown command", "NOSCRIPT No matching script.", "",
	} {
		t.Run(strings.ReplaceAll(text, "/", ""), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := miniredis.NewMiniRedis()
				var heard notices
				c := mini(t, m, redis.Config{Notify: heard.take})
				b := c.Breakers(openMax, nil)
				if _, err := b.Update(t.Context(), "fallback", fail); err != nil {
					t.Fatal(err)
				}
				before := m.Dump()
				answer(m, text)
				br := breaker.New(breaker.Config{Threshold: 1000}, b.Near(), "primary", nil)
				for range 600 {
					at := time.Now()
					p, _, ok, err := br.Allow(at)
					if !ok || text != "" && err == nil {
						t.Fatalf("%v, %v", ok, err)
					}
					if err := br.Record(p, breaker.OK, at); text == "" && err != nil {
						t.Error(err)
					}
					if d := time.Since(at); d != 0 {
						t.Errorf("waited for %s", d)
					}
					time.Sleep(300 * time.Millisecond)
				}
				trouble := 0
				for _, err := range heard.all() {
					if err != nil {
						trouble++
					}
				}
				if trouble > 4 || (text != "") != (trouble > 0) { // in three minutes, with both ends
					t.Errorf("told %v", heard.all())
				}
				answer(m, "")
				time.Sleep(3 * time.Second)
				if m.Del(c.Key("probe")); m.Dump() != before {
					t.Errorf("held %s, before %s", m.Dump(), before)
				}
				if got, err := b.Update(t.Context(), "fallback", fail); err != nil || got.Failures != 2 {
					t.Errorf("afterwards: %+v, %v", got, err)
				}
			})
		})
	}
}

// One of three sentinels drops packets, or hangs: it does not use up a call's time.
func TestOneDeadSentinel(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	cfg := redis.Config{API: "test", Sentinel: redis.Sentinel{Master: g.Name, Addrs: append([]string{blackHole(t)}, g.Addrs()[1:]...)}}.Patient()
	var wg sync.WaitGroup
	for range 20 {
		c := open(t, cfg)
		wg.Go(func() {
			bounded(t, func() {
				if err := c.Check(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
	wg.Wait()
	if i, err := open(t, cfg).Inspect(t.Context()); err != nil || i.Sentinels != 3 {
		t.Errorf("%+v, %v", i, err)
	}
	// Those that know a sentinel are connected anew to the master when it hangs.
	cfg.Sentinel.Addrs = g.Addrs()
	var clients []*redis.Client
	for range 10 {
		c := open(t, cfg)
		clients = append(clients, c)
		if err := c.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	g.Nodes[0].Signal(syscall.SIGSTOP)
	g.Master.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	for _, c := range clients {
		wg.Go(func() {
			if err := c.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// The short time that a sentinel has is not the master's.
func TestSlowMasterOfSentinels(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	m.Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool {
		if cmd == "EVALSHA" {
			time.Sleep(time.Second)
		}
		return false
	})
	sentinel, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer sentinel.Close()
	if err := sentinel.Register("SENTINEL", func(c *server.Peer, _ string, _ []string) {
		c.WriteStrings([]string{m.Host(), m.Port()})
	}); err != nil {
		t.Fatal(err)
	}
	cfg := redis.Config{API: "test", Sentinel: redis.Sentinel{Master: "m", Addrs: []string{sentinel.Addr().String()}}}
	if err := open(t, cfg.Within(3*time.Second)).Check(t.Context()); err != nil { // a sentinel has 750 ms
		t.Error(err)
	}
}

const uploaderURL = "TRAFFICUP_TEST_REDIS" // makes this binary an uploader that fails

func TestTenProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), uploaderURL+"="+s.URL())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	for api, want := range map[string][2]breaker.State{
		"test":  {{Failures: 1000}, {Phase: breaker.Open, Transitions: breaker.Transitions{Open: 1}}},
		"other": {},
	} {
		b := open(t, redis.Config{API: api, URL: s.URL()}.Patient()).Breakers(openMax, nil)
		for i, key := range []string{"primary", "trips"} {
			got, err := b.Load(t.Context(), key)
			if err != nil || got.Phase != want[i].Phase || got.Failures != want[i].Failures || got.Transitions != want[i].Transitions {
				t.Errorf("%s, %s: %+v, %v", api, key, got, err)
			}
		}
	}
}

// uploader is one of the processes: a hundred failures, counted on a path whose
// breaker they do not open, and on one that the last of a thousand opens.
func uploader(url string) int {
	c, err := redis.Open(redis.Config{API: "test", URL: url}.Patient())
	if err == nil {
		defer func() { _ = c.Close() }()
		b := c.Breakers(openMax, nil)
		for range 100 {
			for key, threshold := range map[string]int{"primary": 1001, "trips": 1000} {
				cfg := breaker.Config{Threshold: threshold, Window: time.Hour, Open: time.Hour, OpenMax: time.Hour}
				_, e := b.Update(context.Background(), key, func(s breaker.State, now time.Time) breaker.State {
					return cfg.Record(s, s.Generation, breaker.Fail, now, 0)
				})
				err = errors.Join(err, e)
			}
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
