package redis_test

import (
	"errors"
	"testing"
	"time"

	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
	"trafficup/internal/uplinkstate"
)

// What an edge node says another host reads, under a name of its own for each site,
// and for as long as it was said.
func TestUplink(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	edge, host := open(t, config(s).Patient()), open(t, config(s).Patient())
	if u, ok, err := host.ReadUplink(t.Context(), "501"); ok || err != nil {
		t.Fatalf("before: %+v, %v, %v", u, ok, err)
	}
	now := time.Now().UTC().Round(time.Second)
	said := redis.Uplink{Uplink: uplinkstate.Uplink{Active: "lte", Metered: true, Since: now.Add(-time.Minute)}, Host: "edge1", Boot: "a", At: now}
	for range 2 {
		if other, err := edge.WriteUplink(t.Context(), "501", said, time.Minute); other != (redis.Uplink{}) || err != nil {
			t.Fatalf("%+v, %v", other, err)
		}
	}
	if u, ok, err := host.ReadUplink(t.Context(), "501"); u != said || !ok || err != nil {
		t.Errorf("%+v, %v, %v", u, ok, err)
	}
	if _, ok, _ := host.ReadUplink(t.Context(), "502"); ok {
		t.Error("another site's is taken for this one's")
	}
	raw := `{"active":"lte","metered":true,"window":false,"since":"` + said.Since.Format(time.RFC3339) + `","host":"edge1","boot":"a","at":"` + now.Format(time.RFC3339) + `"}`
	if got := s.Do("GET", "trafficup:{test}:uplink:501"); got != raw {
		t.Errorf("it is\n%s, want\n%s", got, raw)
	}
	if left := s.Client().TTL(t.Context(), "trafficup:{test}:uplink:501").Val(); left <= 0 || left > time.Minute {
		t.Errorf("it expires in %v", left)
	}
	said.Boot = "b" // a clone of it
	if other, err := edge.WriteUplink(t.Context(), "501", said, time.Minute); other.Host != "edge1" || other.Boot != "a" || err != nil {
		t.Errorf("%+v, %v", other, err)
	}
	said.Host = "edge2"
	if other, err := edge.WriteUplink(t.Context(), "501", said, 50*time.Millisecond); other.Host != "edge1" || err != nil {
		t.Errorf("%+v, %v", other, err)
	}
	wait(t, "the end of what was said", func() bool {
		_, ok, err := host.ReadUplink(t.Context(), "501")
		return !ok && err == nil
	})
}

// Something else under the key stays there, and is told.
func TestUplinkForeign(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, config(s).Patient())
	for name, foreign := range map[string][]any{
		"text": {"SET", c.UplinkKey("1"), "mine"}, "hash": {"HSET", c.UplinkKey("1"), "a", "b"}, "damaged": {"SET", c.UplinkKey("1"), `{"active":7`},
	} {
		s.Do("DEL", c.UplinkKey("1"))
		s.Do(foreign...)
		_, wrote := c.WriteUplink(t.Context(), "1", redis.Uplink{Host: "edge1"}, time.Minute)
		if name == "damaged" { // it is ours by its beginning, and mended
			if _, ok, err := c.ReadUplink(t.Context(), "1"); !ok || err != nil {
				t.Errorf("%s: %v, %v", name, ok, err)
			}
			continue
		}
		if _, ok, err := c.ReadUplink(t.Context(), "1"); ok || !errors.Is(err, redis.ErrMisconfigured) || !errors.Is(wrote, redis.ErrMisconfigured) {
			t.Errorf("%s: %v, %v, %v", name, ok, err, wrote)
		}
		if kind := s.Do("TYPE", c.UplinkKey("1")); name == "hash" && kind != "hash" {
			t.Errorf("it is a %v now", kind)
		}
	}
}

// A Redis that is away is not waited for longer than a call takes.
func TestUplinkAway(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, config(s))
	s.Stop()
	for range 5 {
		begin := time.Now()
		_, err := c.WriteUplink(t.Context(), "1", redis.Uplink{}, time.Minute)
		if took := time.Since(begin); err == nil || took > 5*redis.Timeout {
			t.Errorf("%v after %v", err, took)
		}
	}
	if _, ok, err := c.ReadUplink(t.Context(), "1"); ok || !errors.Is(err, redis.ErrPaused) {
		t.Errorf("%v, %v", ok, err)
	}
}
