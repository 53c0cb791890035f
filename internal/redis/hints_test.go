package redis_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
	"trafficup/internal/secret"
)

// A hint names the server that is configured, and no password.
func TestHintReachesWhatIsConfigured(t *testing.T) {
	for want, cfg := range map[string]redis.Config{
		"redis-cli -h 10.0.0.1 -p 6380 ping":       {URL: "redis://up:pw-horse@10.0.0.1:6380/2"},
		"redis-cli -h ::1 -p 6379 ping":            {URL: "redis://[::1]"},
		"redis-cli -h r.test -p 6379 --tls ping":   {URL: "rediss://r.test"},
		"redis-cli -s /run/redis.sock ping":        {URL: "unix:///run/redis.sock", Password: secret.New("pw-horse")},
		"redis-cli -h s1.test -p 26379 --tls ping": {Sentinel: redis.Sentinel{Master: "m", Addrs: []string{"s1.test:26379", "s2.test:26379"}}, TLS: &tls.Config{}},
		"redis-cli -h n1.test -p 7000 ping":        {Cluster: []string{"n1.test:7000", "n2.test:7000"}},
	} {
		if e := cfg.Explain(errors.New("connection refused")); e.Hint != "see that it runs and can be reached: "+want || !errors.Is(e, redis.ErrAway) {
			t.Errorf("%s, want %s", e.Hint, want)
		}
	}
}

// What several sentinels say is said once, in words, and what somebody can mend
// first.
func TestExplainSentinels(t *testing.T) {
	cfg := redis.Config{Sentinel: redis.Sentinel{Master: "night", Addrs: []string{"s1.test:26379", "s2.test:26379"}}}
	away := errors.New("dial tcp 192.0.2.1:26379: connect: connection refused")
	reply := func(text string) error { return serverError(text) }
	for name, c := range map[string]struct {
		errs              []error
		class             error
		words, text, hint string
	}{
		"no such master": {[]error{goredis.Nil, goredis.Nil, goredis.Nil}, redis.ErrMisconfigured, "is not found: one of redis.sentinel.addrs knows no such master", `no master named "night"`, "redis-cli -h s1.test -p 26379 sentinel masters lists them"},
		"one is away":    {[]error{away, goredis.Nil}, redis.ErrMisconfigured, "is not found: one of redis.sentinel.addrs knows no such master", away.Error() + `; no master named "night"`, "correct redis.sentinel.master"},
		"all are away":   {[]error{away, away}, redis.ErrAway, "is not found: no sentinel answers", away.Error(), "redis-cli -h s1.test -p 26379 ping"},
		"login":          {[]error{reply("NOAUTH Authentication required.")}, redis.ErrMisconfigured, "is not found: one of redis.sentinel.addrs wants a password", "NOAUTH Authentication required.", "set redis.sentinel.password_file, and redis.sentinel.username"},
		"wrong login":    {[]error{reply("WRONGPASS invalid")}, redis.ErrMisconfigured, "is not found: one of redis.sentinel.addrs refuses the user or the password", "WRONGPASS invalid", "correct redis.sentinel.username or the password in redis.sentinel.password_file"},
		"none":           {[]error{reply("ERR unknown command 'sentinel', with args")}, redis.ErrMisconfigured, "is not found: one of redis.sentinel.addrs is no sentinel", "ERR unknown command 'sentinel', with args", "redis.sentinel.addrs"},
	} {
		joined := errors.Join(c.errs...)
		e := cfg.Explain(fmt.Errorf("redis: all sentinels specified in configuration are unreachable: %w", joined))
		if !errors.Is(e, c.class) || e.Words != c.words || e.Err.Error() != c.text || !strings.Contains(e.Hint, c.hint) || !errors.Is(e, c.errs[0]) || !e.Disables() {
			t.Errorf("%s: %v (%s)", name, e, e.Hint)
		}
	}
}

// serverError is an error of a server.
type serverError string

func (a serverError) Error() string { return string(a) }
func (serverError) RedisError()     {}

// The wrong kind of server says which kind it is.
func TestWrongKind(t *testing.T) {
	t.Parallel()
	s, g := redistest.Start(t), redistest.Sentinel(t)
	for name, c := range map[string]struct {
		cfg  redis.Config
		want string
	}{
		"a server as sentinel":         {redis.Config{Sentinel: redis.Sentinel{Master: "m", Addrs: []string{s.Addr}}}, "is not found: one of redis.sentinel.addrs is no sentinel"},
		"a sentinel as server":         {redis.Config{URL: g.Nodes[0].URL()}, "answers as a sentinel"},
		"a sentinel with a database":   {redis.Config{URL: g.Nodes[0].URL() + "/2"}, "answers as a sentinel"},
		"a sentinel as server, logged": {redis.Config{URL: g.Nodes[0].URL(), Username: "up", Password: secret.New(password)}, "answers as a sentinel"},
		"a sentinel as node":           {redis.Config{Cluster: []string{g.Nodes[0].Addr}}, "answers as a sentinel"},
		"a server as node":             {redis.Config{Cluster: []string{s.Addr}}, "is no cluster"},
		"another master":               {redis.Config{Sentinel: redis.Sentinel{Master: "day", Addrs: g.Addrs()}}, "is not found: one of redis.sentinel.addrs knows no such master"},
	} {
		c.cfg.API = "test"
		_, err := open(t, c.cfg.Patient()).Inspect(t.Context())
		e, ok := errors.AsType[*redis.Error](err)
		if !ok || e.Words != c.want || e.Hint == "" || !errors.Is(e, redis.ErrMisconfigured) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
