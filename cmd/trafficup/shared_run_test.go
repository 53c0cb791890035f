package main

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"trafficup/internal/breaker"
	"trafficup/internal/redis/redistest"
)

// fickle is an API that answers as it is told to, and notes who came.
type fickle struct {
	*httptest.Server
	calls
	mood atomic.Pointer[mood]
}

// mood answers the request that came as the nth of all.
type mood func(w http.ResponseWriter, r *http.Request, nth int)

func newFickle(t *testing.T, first mood) *fickle {
	t.Helper()
	a := &fickle{}
	a.turns(first)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*a.mood.Load())(w, r, a.note(r))
	}))
	t.Cleanup(a.Close)
	return a
}

// turns lets the API answer otherwise from now on.
func (a *fickle) turns(m mood) { a.mood.Store(&m) }

// came is how many requests there were.
func (a *fickle) came() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.times)
}

func with(status int) mood {
	return func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(status) }
}

// key is where Redis keeps what is shared about the API.
func (a *fickle) key(parts ...string) string {
	return "trafficup:{" + strings.TrimPrefix(a.URL, "http://") + "}:" + strings.Join(parts, ":")
}

// upload is one to the API whose breakers live in the Redis at url.
func (a *fickle) upload(url string, records int, args ...string) lying {
	return lying{url: a.URL, records: records, args: append([]string{"--breaker-store", "redis", "--redis", url, "--set", "breaker.jitter=0"}, args...)}
}

// again is another run of the machine whose run that was.
func (d lied) again() lying { return d.lying }

// kept is what Redis holds of a breaker, and raw as it is.
type kept struct {
	Version  int           `json:"v"`
	Breaker  string        `json:"breaker"`
	Revision uint64        `json:"rev"`
	State    breaker.State `json:"state"`
	raw      string
}

// keptAt reads it; nothing is the zero value.
func keptAt(t *testing.T, c *goredis.Client, key string) (k kept) {
	t.Helper()
	raw, err := c.Get(context.Background(), key).Result()
	if err == goredis.Nil {
		return k
	}
	if err == nil {
		err = json.Unmarshal([]byte(raw), &k)
	}
	if err != nil {
		t.Fatalf("%s holds %q: %v", key, raw, err)
	}
	k.raw = raw
	return k
}

// keep writes a state as another machine would.
func keep(t *testing.T, c *goredis.Client, key string, k kept) {
	t.Helper()
	k.Version, k.Breaker, k.Revision = 1, "primary", k.Revision+1
	raw, err := json.Marshal(k)
	if err == nil {
		err = c.Set(context.Background(), key, raw, time.Hour).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// redisClock is the time on the clock of Redis.
func redisClock(t *testing.T, c *goredis.Client) time.Time {
	t.Helper()
	now, err := c.Time(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now.UTC()
}

// scene is a story of machines that share. What goes wrong in it is kept until its
// end.
type scene struct {
	*testing.T
	server *redistest.Server
	redis  *goredis.Client // plain, to see what is there

	mu    sync.Mutex
	late  uint64   // guarded by mu; calls to Redis that were not answered in time
	wrong []string // guarded by mu
}

// calmly plays a story. One that goes wrong is played again when calls to Redis
// took longer than they may: the machine was too busy to share, of which other
// tests are.
func calmly(t *testing.T, play func(s *scene)) {
	t.Helper()
	server := redistest.Start(t)
	for try := 1; ; try++ {
		s := &scene{T: t, server: server, redis: server.Client()}
		play(s)
		if len(s.wrong) > 0 && s.late > 0 && try < 5 {
			t.Logf("once more: %d calls were late", s.late)
			continue
		}
		for _, w := range s.wrong {
			t.Error(w)
		}
		return
	}
}

func (s *scene) Errorf(format string, a ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, a...))
}

// ends runs an upload and checks its end.
func (s *scene) ends(l lying, code int, acked int64) lied {
	s.Helper()
	d := l.upload(s.T)
	if d.Shared != nil {
		s.mu.Lock()
		s.late += d.Shared.Calls.Timeout
		s.mu.Unlock()
	}
	if d.ExitCode != code || d.Acked != acked || d.letters != 0 {
		s.Errorf("exit %d with %d acked and %d letters, want %d and %d\n%s%s", d.ExitCode, d.Acked, d.letters, code, acked, d.stdout, d.stderr)
	}
	return d
}
