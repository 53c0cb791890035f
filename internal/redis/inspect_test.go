package redis_test

import (
	"errors"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
	"trafficup/internal/secret"
)

func TestInspect(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	s.Do("ACL", "SETUSER", "up", "on", ">"+password, "~trafficup:*", "&trafficup:*", "+@all", "-@dangerous", "-@admin")
	i, err := open(t, config(s).Patient()).Inspect(t.Context())
	if err != nil || i.RoundTrip <= 0 || i.Version == "" || i.Role != "master" || i.Policy != "allkeys-lru" || i.MaxMemory != 100<<20 || i.Memory <= 0 || i.Nodes != 0 || i.Sentinels != 0 || i.Denied != nil || i.Peers != nil {
		t.Errorf("%+v, %v", i, err)
	}
	// Their clock is ours.
	if i.Clock.At.IsZero() || i.Clock.Ahead.Abs() > i.Clock.Within+i.RoundTrip {
		t.Errorf("%+v", i.Clock)
	}
	// INFO is one of the dangerous commands, and its lack is no trouble.
	var heard notices
	cfg := config(s).Patient()
	cfg.Username, cfg.Password, cfg.Notify = "up", secret.New(password), heard.take
	c, err := redis.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	i, err = c.Inspect(t.Context())
	if err := c.Close(); err != nil { // after which all is told
		t.Error(err)
	}
	if err != nil || i.RoundTrip <= 0 || !slices.Equal(i.Denied, []string{"+info"}) || i.Clock.At.IsZero() || i.Version+i.Role+i.Policy != "" || i.Memory != 0 {
		t.Errorf("denied: %+v, %v", i, err)
	}
	if told := heard.all(); len(told) != 0 {
		t.Errorf("told %v", told)
	}
	s.Signal(syscall.SIGSTOP)
	i, err = open(t, config(s)).Inspect(t.Context())
	if !errors.Is(err, redis.ErrAway) || !reflect.DeepEqual(i, redis.Info{}) {
		t.Errorf("away: %+v, %v", i, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"", "x", "{}", `{"v":2}`, `{"v":1,"breaker":"primary","rev":18446744073709551615,"state":{"phase":2,"open_until":"2026-07-17T02:03:11+02:00"}}`,
		`{"v":1,"state":{"phase":"open"}}`, `{"v":1,"rev":-1}`, `{"v":1,"v":1}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		s, rev, err := redis.Decode(raw)
		if err != nil {
			return
		}
		again, err := redis.Encode("primary", rev, s)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", s, err)
		}
		if back, next, err := redis.Decode(again); err != nil || back != s || next != rev+1 {
			t.Errorf("%+v came back as %+v, %v", s, back, err)
		}
	})
}
