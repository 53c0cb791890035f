package main

import (
	"strings"
	"testing"
	"time"

	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
)

// Two machines that tell of one site are warned of, once, and though they are clones of
// one name; one whose place this one takes is not.
func TestUplinkShareRival(t *testing.T) {
	s := redistest.Start(t)
	client, err := redis.Open(redis.Config{API: "test", URL: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	start := time.Now()
	var said []string
	share := func(boot string) *uplinkShare {
		return &uplinkShare{client: client, site: "501", host: "edge", boot: boot, keep: time.Minute, known: start, warn: func(text string) { said = append(said, text) }}
	}
	tell := func(u *uplinkShare, after time.Duration) {
		t.Helper()
		if err := u.write(redis.Uplink{Host: u.host, Boot: u.boot, At: start.Add(after)}); err != nil {
			t.Fatal(err)
		}
	}
	a, b := share("a"), share("b")
	tell(b, -time.Minute)
	tell(a, 0)
	if len(said) > 0 {
		t.Errorf("it takes a place, and warns %q", said)
	}
	for n := range 3 {
		tell(b, time.Duration(n+1)*time.Minute)
		tell(a, time.Duration(n+1)*time.Minute)
	}
	if len(said) != 2 || !strings.HasPrefix(said[0], "edge tells other hosts of an uplink as 501, too") {
		t.Errorf("%q", said)
	}
}
