package redis_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"trafficup/internal/breaker"
	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
	"trafficup/internal/secret"
)

const password = "correct-horse"

// Whatever Redis answers: the breaker goes on in memory, the error says of what
// kind it is and what to do, gives no secret away, and ends with its cause.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class, word string
		args        []string
		prepare     func(t *testing.T, s *redistest.Server, cfg *redis.Config)
		mend        func(t *testing.T, s *redistest.Server) // nil where the configuration is at fault
	}{
		"replica": {class: "away", word: "READONLY", args: []string{"--replicaof", "127.0.0.1 1"},
			mend: func(t *testing.T, s *redistest.Server) { s.Do("REPLICAOF", "NO", "ONE") }},
		"replica without master": {class: "away", word: "MASTERDOWN", args: []string{"--replicaof", "127.0.0.1 1", "--replica-serve-stale-data", "no"},
			mend: func(t *testing.T, s *redistest.Server) { s.Do("REPLICAOF", "NO", "ONE") }},
		"cluster down": {class: "away", word: "CLUSTERDOWN", args: []string{"--cluster-enabled", "yes"},
			mend: func(t *testing.T, s *redistest.Server) { s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383) }},
		"loading": {class: "away", word: "LOADING", args: []string{"--enable-debug-command", "yes"}, prepare: load, mend: func(*testing.T, *redistest.Server) {}},
		"refused": {class: "away", word: "refused", prepare: func(_ *testing.T, s *redistest.Server, _ *redis.Config) { s.Stop() },
			mend: func(t *testing.T, s *redistest.Server) { s.Start() }},
		"too many clients": {class: "away", word: "redis", prepare: func(t *testing.T, s *redistest.Server, _ *redis.Config) {
			if err := s.Client().ConfigSet(t.Context(), "maxclients", "1").Err(); err != nil {
				t.Fatal(err) // the client stays, and is the one
			}
		}, mend: func(t *testing.T, s *redistest.Server) { s.Stop(); s.Start() }},
		"no password": {class: "misconfigured", word: "NOAUTH", args: []string{"--requirepass", password}},
		"wrong password": {class: "misconfigured", word: "WRONGPASS", args: []string{"--requirepass", password},
			prepare: func(_ *testing.T, _ *redistest.Server, cfg *redis.Config) { cfg.Password = secret.New("wrong-horse") }},
		"no right": {class: "misconfigured", word: "NOPERM", prepare: func(t *testing.T, s *redistest.Server, cfg *redis.Config) {
			s.Do("ACL", "SETUSER", "up", "on", ">"+password, "~other:*", "+@all")
			cfg.Username, cfg.Password = "up", secret.New(password)
		}},
		"wrong type": {class: "misconfigured", word: "WRONGTYPE", prepare: func(t *testing.T, s *redistest.Server, _ *redis.Config) {
			s.Do("LPUSH", "trafficup:{test}:breaker:primary", "x")
		}, mend: func(t *testing.T, s *redistest.Server) { s.Do("DEL", "trafficup:{test}:breaker:primary") }},
		"foreign value": {class: "misconfigured", word: "not what is kept there", prepare: func(t *testing.T, s *redistest.Server, _ *redis.Config) {
			s.Do("SET", "trafficup:{test}:breaker:primary", "x")
		}, mend: func(t *testing.T, s *redistest.Server) { s.Do("DEL", "trafficup:{test}:breaker:primary") }},
		"out of memory": {class: "misconfigured", word: "OOM", prepare: func(t *testing.T, s *redistest.Server, _ *redis.Config) {
			s.Do("SET", "filler", strings.Repeat("x", 1<<20))
			s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			s.Do("CONFIG", "SET", "maxmemory", "1mb")
		}, mend: func(t *testing.T, s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "0") }},
		"cannot save": {class: "misconfigured", word: "MISCONF", args: []string{"--save", "3600 1"}, prepare: func(t *testing.T, s *redistest.Server, _ *redis.Config) {
			if err := os.RemoveAll(s.Dir); err != nil {
				t.Fatal(err)
			}
			s.Do("SET", "other", "x")
			s.Do("BGSAVE")
			wait(t, "the snapshot to fail", func() bool {
				return strings.Contains(s.Client().Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
			})
		}, mend: func(t *testing.T, s *redistest.Server) { s.Do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no") }},
		"no such database": {class: "misconfigured", word: "DB index", prepare: func(_ *testing.T, _ *redistest.Server, cfg *redis.Config) { cfg.URL += "/99" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, c.args...)
			cfg := config(s)
			if c.prepare != nil {
				c.prepare(t, s, &cfg)
			}
			b := open(t, cfg).Breakers(openMax, nil)
			for i := range 5 {
				got, err := b.Update(t.Context(), "primary", fail)
				if got.Failures != i+1 {
					t.Errorf("%d: %+v", i, got)
				}
				e, ok := errors.AsType[*redis.Error](err)
				if !ok || e.Hint == "" || e.Words == "" {
					t.Fatalf("%d: %v", i, err)
				}
				if errors.Is(err, redis.ErrAway) != (c.class == "away") || errors.Is(err, redis.ErrMisconfigured) != (c.class == "misconfigured") {
					t.Errorf("%d: %v is %v", i, err, e.Class)
				}
				if strings.Contains(err.Error()+e.Hint, "-horse") {
					t.Errorf("gives a password away: %v", err)
				}
			}
			// A busy machine may take too long over the first answer.
			wait(t, "the word "+c.word, func() bool {
				_, err := b.Update(t.Context(), "primary", same)
				return err != nil && strings.Contains(err.Error(), c.word)
			})
			if c.mend == nil {
				return
			}
			c.mend(t, s)
			// Nothing but what was there before, and after that it is shared again.
			other := open(t, cfg).Breakers(openMax, nil)
			wait(t, "the return", func() bool {
				_, err := b.Update(t.Context(), "secondary", fail)
				own, err2 := b.Load(t.Context(), "secondary")
				shared, err3 := other.Load(t.Context(), "secondary")
				return errors.Join(err, err2, err3) == nil && own == shared
			})
		})
	}
}

// load makes the server take its time to load what it saved.
func load(t *testing.T, s *redistest.Server, _ *redis.Config) {
	s.Do("DEBUG", "POPULATE", 3000, "filler", 1100)
	s.Do("SAVE")
	s.Stop()
	s.Start("--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024", "--rdbcompression", "no")
}

// What is under the key and is not ours stays.
func TestForeignKeyStays(t *testing.T) {
	s := redistest.Start(t)
	s.Do("RPUSH", "trafficup:{test}:breaker:primary", "a", "b")
	s.Do("SET", "trafficup:{test}:breaker:fallback", `{"v":2}`)
	b := open(t, config(s)).Breakers(openMax, nil)
	for _, key := range []string{"primary", "fallback"} {
		_, _ = b.Update(t.Context(), key, fail)
		_, _ = b.Load(t.Context(), key)
	}
	admin := s.Client()
	if got := admin.LRange(t.Context(), "trafficup:{test}:breaker:primary", 0, -1).Val(); strings.Join(got, "") != "ab" {
		t.Errorf("list is %q", got)
	}
	if got := admin.Get(t.Context(), "trafficup:{test}:breaker:fallback").Val(); got != `{"v":2}` {
		t.Errorf("value is %q", got)
	}
	// Other keys are not held up by them.
	if got, err := b.Update(t.Context(), "third", fail); err != nil || got.Failures != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A server that is stopped costs two calls, and nothing from then on; it is told
// once, and so is its return.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var heard notices
	cfg := config(s)
	cfg.Notify = heard.take
	c := open(t, cfg)
	br := breaker.New(breaker.Config{Threshold: 1 << 30}, c.Breakers(openMax, nil).Near(), "primary", nil)
	var p breaker.Permit
	wait(t, "the first answer", func() (ok bool) {
		var err error
		p, _, ok, err = br.Allow(time.Now())
		return ok && err == nil
	})
	s.Signal(syscall.SIGSTOP)
	work := func() {
		if _, _, ok, _ := br.Allow(time.Now()); !ok {
			t.Fatal("not allowed")
		}
		_ = br.Record(p, breaker.Fail, time.Now())
	}
	wait(t, "the pause", func() bool {
		bounded(t, work)
		return c.Paused() != nil
	})
	before := c.Calls()
	for range 1000 {
		work()
	}
	// A probe may have been made meanwhile, but none of a thousand results called.
	if n := c.Calls(); n.OK != before.OK || n.Timeout+n.Error > before.Timeout+before.Error+2 {
		t.Errorf("%+v, before %+v", n, before)
	}
	s.Signal(syscall.SIGCONT)
	wait(t, "the return", func() bool { return c.Paused() == nil })
	if told := heard.all(); len(told) != 2 || !errors.Is(told[0], redis.ErrAway) || told[1] != nil {
		t.Errorf("told %v", told)
	}
	if n := c.Calls(); n.OK == 0 || n.Timeout == 0 || n.Open == 0 {
		t.Errorf("%+v", n)
	}
}

// notices is what was told.
type notices struct {
	mu   sync.Mutex
	told []error // guarded by mu
}

func (n *notices) take(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, err)
}

func (n *notices) all() []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.told)
}

// The bound of a call is its context's.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mini(t, miniredis.NewMiniRedis(), redis.Config{})
		begin := time.Now()
		err := c.Do(t.Context(), func(ctx context.Context, _ goredis.UniversalClient) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if d := time.Since(begin); !errors.Is(err, redis.ErrAway) || d != redis.Timeout {
			t.Errorf("%v after %s", err, d)
		}
	})
}

// A Redis that comes and goes for ten minutes is worth ten warnings at most; of
// an absence that goes on people hear, too.
func TestFlappingIsToldOnceAMinute(t *testing.T) {
	for name, tt := range map[string]struct {
		away, here time.Duration
		trouble    int // times told in ten minutes
		wrong      bool
		returns    int
		more       int // told of ten minutes' absence after that
	}{
		"fast":   {away: 3 * time.Second, here: 2 * time.Second, trouble: 10, returns: 10, more: 1},
		"slow":   {away: 50 * time.Second, here: 50 * time.Second, trouble: 6, returns: 6, more: 1},
		"a key":  {wrong: true, here: time.Second, trouble: 10, more: 1},
		"always": {here: time.Minute, more: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := miniredis.NewMiniRedis()
				var heard notices
				c := mini(t, m, redis.Config{Notify: heard.take})
				b := c.Breakers(openMax, nil)
				if tt.wrong {
					if _, err := b.Update(t.Context(), "primary", fail); err != nil {
						t.Fatal(err)
					}
					m.Del("trafficup:{test}:breaker:primary")
					if _, err := m.Lpush("trafficup:{test}:breaker:primary", "x"); err != nil {
						t.Fatal(err)
					}
				}
				work := func(d time.Duration) {
					for begin := time.Now(); time.Since(begin) < d; time.Sleep(250 * time.Millisecond) {
						_, _ = b.Load(t.Context(), "primary")
					}
				}
				for begin := time.Now(); time.Since(begin) < 10*time.Minute-time.Second; {
					if tt.away > 0 {
						answer(m, "LOADING")
						work(tt.away)
						answer(m, "")
					}
					work(tt.here)
				}
				var trouble, returns int
				count := func() {
					trouble, returns = 0, 0
					for _, err := range heard.all() {
						if trouble++; err == nil {
							trouble, returns = trouble-1, returns+1
						}
					}
				}
				count()
				if trouble > 10 || trouble != tt.trouble || returns != tt.returns {
					t.Errorf("trouble told %d times, returns %d", trouble, returns)
				}
				before := trouble
				answer(m, "LOADING")
				work(10 * time.Minute)
				if count(); trouble != before+tt.more {
					t.Errorf("the last absence told %d times: %v", trouble-before, heard.all())
				}
			})
		})
	}
}

// An address that swallows packets, and one that takes connections and is
// silent: the first call ends in time, too.
func TestSilence(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	hole := blackHole(t)
	for name, cfg := range map[string]redis.Config{
		"silent":        {URL: "redis://" + l.Addr().String()},
		"packets lost":  {URL: "redis://" + hole},
		"silent login":  {URL: "redis://:secret@" + l.Addr().String() + "/1"},
		"silent TLS":    {URL: "rediss://" + l.Addr().String()},
		"cluster":       {Cluster: []string{l.Addr().String(), hole}},
		"all sentinels": {Sentinel: redis.Sentinel{Master: "m", Addrs: []string{l.Addr().String(), hole}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.API = "test"
			c := open(t, cfg)
			for range 3 {
				bounded(t, func() {
					if err := c.Check(t.Context()); !errors.Is(err, redis.ErrAway) {
						t.Error(err)
					}
				})
			}
		})
	}
}

// blackHole is an address whose packets get no answer: its queue of connections
// is full.
func blackHole(t *testing.T) string {
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
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
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

// What is there is not Redis, or not the one that the certificate is for.
func TestTrust(t *testing.T) {
	plain, other := httptest.NewServer(nil), httptest.NewTLSServer(nil)
	defer plain.Close()
	defer other.Close()
	for name, srv := range map[string]*httptest.Server{"plain": plain, "other": other} {
		t.Run(name, func(t *testing.T) {
			err := open(t, redis.Config{API: "test", URL: "rediss://" + srv.Listener.Addr().String()}.Patient()).Check(t.Context())
			if !errors.Is(err, redis.ErrMisconfigured) || !strings.Contains(err.Error(), "cannot be trusted") {
				t.Error(err)
			}
		})
	}
}

func TestCallerGivesUp(t *testing.T) {
	c := open(t, config(redistest.Start(t)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 5 {
		err := c.Do(ctx, func(ctx context.Context, conn goredis.UniversalClient) error { return conn.Ping(ctx).Err() })
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if err := c.Check(t.Context()); err != nil || c.Paused() != nil {
		t.Errorf("%v, %v", err, c.Paused())
	}
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  redis.Config
		want string
	}{
		"no API":           {redis.Config{URL: "redis://h"}, "no name"},
		"nothing":          {redis.Config{API: "a"}, "is not redis://"},
		"port":             {redis.Config{API: "a", URL: "redis://h:99999"}, "no such port"},
		"query":            {redis.Config{API: "a", URL: "redis://h?password=pw-horse"}, "h?***"},
		"two":              {redis.Config{API: "a", URL: "redis://h", Cluster: []string{"h:1"}}, "more than one"},
		"scheme":           {redis.Config{API: "a", URL: "http://u:pw-horse@h"}, "is not redis://"},
		"garbage":          {redis.Config{API: "a", URL: "redis://u:pw-horse@h:port"}, "is not a URL"},
		"no scheme":        {redis.Config{API: "a", URL: "127.0.0.1:6379"}, `"127.0.0.1:6379" has no scheme: write redis://127.0.0.1:6379`},
		"a name":           {redis.Config{API: "a", URL: "redis.example:6379/1"}, "write redis://redis.example:6379/1"},
		"a host":           {redis.Config{API: "a", URL: "localhost"}, "write redis://localhost"},
		"a path":           {redis.Config{API: "a", URL: "/run/redis.sock"}, "write unix:///run/redis.sock"},
		"login, no scheme": {redis.Config{API: "a", URL: "u:pw-horse@h:6379"}, "has no scheme: write redis://"},
		"database":         {redis.Config{API: "a", URL: "redis://u:pw-horse@h/x"}, "number of a database"},
		"options":          {redis.Config{API: "a", URL: "redis://h/0?protocol=3"}, "options"},
		"node":             {redis.Config{API: "a", Cluster: []string{"u:pw-horse@h"}}, "not host:port"},
		"sentinel":         {redis.Config{API: "a", Sentinel: redis.Sentinel{Addrs: []string{"h:1"}}}, "master's name"},
		"sentinel address": {redis.Config{API: "a", Sentinel: redis.Sentinel{Master: "m", Addrs: []string{"h"}}}, "not host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			cl, err := redis.Open(c.cfg)
			if err == nil {
				_ = cl.Close()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "horse") {
				t.Error(err)
			}
		})
	}
}

// Every key of an API has one hash tag, whatever its name.
func TestKeys(t *testing.T) {
	for api, want := range map[string]string{
		"prod": "trafficup:{prod}:a:b", "x}y{z%": "trafficup:{x%7Dy%7Bz%25}:a:b",
	} {
		c := open(t, redis.Config{API: api, URL: "redis://127.0.0.1:1"})
		if got := c.Key("a", "b"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
