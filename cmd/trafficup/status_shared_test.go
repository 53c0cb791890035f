package main

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/deadletter"
	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
	"trafficup/internal/sharedlimit"
)

// statusOf runs status in both forms, which must end with code 0.
func statusOf(t *testing.T, args ...string) (o overview, text string) {
	t.Helper()
	for _, form := range []string{"--json", "--json=false"} {
		sys, stdout, stderr := testSystem(append([]string{"status", form}, args...)...)
		if code := run(sys); code != exitOK || stderr.Len() > 0 {
			t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
		}
		if text = stdout.String(); form == "--json" {
			if err := json.Unmarshal(stdout.Bytes(), &o); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
	}
	return o, text
}

// statusWhen asks again where a busy machine lets a call to Redis run out of time.
func statusWhen(t *testing.T, told func(*sharedStatus) bool, args ...string) (o overview, text string) {
	t.Helper()
	redistest.Wait(t, "an answer of Redis", func() bool {
		o, text = statusOf(t, args...)
		return told(o.Shared) && !strings.Contains(text, "known")
	})
	return o, text
}

// What others left on Redis is shown where nothing has run yet: breakers, a burst
// of latency, and who shares the ceiling; and nothing of it changes.
func TestStatusShowsWhatIsShared(t *testing.T) {
	s := redistest.Start(t)
	other, err := redis.Open(redis.Config{API: "api.test/v1/logs", URL: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, err = other.Breakers(5*time.Minute, nil).Update(t.Context(), "primary", func(b breaker.State, now time.Time) breaker.State {
		for i := range 7 {
			b.Changes[i] = now
		}
		return breaker.Config{}.Force(b, breaker.Force{Phase: breaker.Open, Until: now.Add(time.Hour), Reason: "moves\x1b[2J", By: "ops@host"}, now)
	})
	if err != nil {
		t.Fatal(err)
	}
	stream := func(age time.Duration, path, batch string) {
		s.Do("XADD", other.Key("latency"), fmt.Sprintf("%d-*", time.Now().Add(-age).UnixMilli()), "path", path, "batch", batch)
	}
	stream(10*time.Minute, "primary", "9000 100000 190000")
	stream(9*time.Minute, "cell\x1b[2J", "5 70000")
	stream(20*time.Second, "primary", "1200 300000 812000")
	limits := sharedlimit.New(sharedlimit.Config{Node: "other", Ceiling: 200}, other)
	defer limits.Close()
	go func() { // at work all the time
		for limits.Wait(context.Background()) == nil {
		}
	}()
	dump := func() (all string) {
		for _, part := range []string{"breaker:primary", "breaker:fallback", "latency"} {
			all += fmt.Sprint(s.Do("DUMP", other.Key(part)))
		}
		return all
	}
	before := dump()

	args := []string{"--url", "https://API.test/v1/logs/?key=1", "--fallback-url", "https://cell.test/", "--redis", s.URL() + "/0", "--breaker-store", "redis", "--state-dir", t.TempDir()}
	o, text := statusWhen(t, func(sh *sharedStatus) bool { return sh.Away == "" && sh.Uploaders > 0 }, args...)
	if !strings.Contains(text, "\nShared        "+s.URL()+"/0, as api.test/v1/logs\n  primary: forced open until ") {
		t.Errorf("says\n%s", text)
	}
	for _, want := range []string{
		"nothing has run here yet: ",
		` by ops@host (nothing is sent): moves\x1b[2J; thrashing: it changed 7 times in the last hour` + "\n  fallback: closed\n",
		`  cell\x1b[2J: no call in the last minute, p95 70ms of 5 calls in the hour before` + "\n",
		"  primary: p95 812ms of 1,200 calls in the last minute, p95 190ms of 9,000 calls in the hour before: a burst of latency\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("says\n%s, not %q", text, want)
		}
	}
	if strings.Contains(text, "Breakers") || strings.Contains(text, "clock") {
		t.Errorf("says\n%s", text)
	}
	sh := o.Shared
	if sh == nil || sh.Away != "" || len(sh.Breakers) != 2 || !sh.Breakers[0].Forced || !sh.Breakers[0].Thrashing || sh.Breakers[1].Phase != "closed" ||
		sh.Ceiling != 200 || sh.Uploaders != 1 || sh.SkewS == nil || *sh.SkewS > 1 || *sh.SkewS < -1 ||
		len(sh.Latency) != 2 || sh.Latency[1] != (pathLatency{"primary", latencyLine{812, 1200}, latencyLine{190, 9000}, true}) {
		t.Errorf("%+v", sh)
	}
	if dump() != before {
		t.Error("something has changed")
	}

	// Where breakers are kept in the file they are shown from there.
	o, text = statusWhen(t, func(sh *sharedStatus) bool { return sh.Away == "" }, "--url", "https://api.test/v1/logs", "--redis", s.URL(), "--state-dir", t.TempDir())
	if len(o.Shared.Breakers) != 0 || len(o.Shared.Latency) != 2 || strings.Contains(text, "forced") {
		t.Errorf("%+v\n%s", o.Shared, text)
	}
}

// Without an answer one line says so, and the rest is shown.
func TestStatusWithoutRedis(t *testing.T) {
	s := redistest.Start(t)
	hung := redistest.Start(t)
	hung.Signal(syscall.SIGSTOP)
	s.Do("SET", "trafficup:{api.test}:breaker:primary", "something else")
	s.Do("SET", "trafficup:{wrong.test}:limit", "something else")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"refuses":  {[]string{"--url", "https://api.test", "--redis", "redis://127.0.0.1:1"}, "not known: redis cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused (see that it runs and can be reached: redis-cli -h 127.0.0.1 -p 1 ping)\n"},
		"hangs":    {[]string{"--url", "https://api.test", "--redis", hung.URL(), "--breaker-store", "redis"}, "not known: redis gave no answer within 250ms: "},
		"foreign":  {[]string{"--url", "https://api.test", "--redis", s.URL(), "--breaker-store", "redis"}, "not known: redis holds something else under the key: "},
		"in part":  {[]string{"--url", "https://wrong.test", "--redis", s.URL(), "--breaker-store", "redis"}, s.URL() + ", as wrong.test\n  primary: closed\n  warning: the rest is not known: redis holds something else under the key: "},
		"no group": {[]string{"--redis", s.URL()}, "not known: no name under which machines share: it is that of the API (give --url, or redis.group)\n"},
		"no file":  {[]string{"--url", "https://api.test", "--redis", s.URL(), "--set", "redis.password_file=none"}, "not known: redis: "},
	} {
		t.Run(name, func(t *testing.T) {
			st := newScribe(t)
			st.begin("one")
			st.letter(deadletter.Letter{Reason: "rejected", Details: deadletter.Details{Key: "key-rejected"}}, 1)
			st.stop()
			var o overview
			var text string
			redistest.Wait(t, c.want, func() bool { // a busy machine may be slower than 250 ms
				o, text = statusOf(t, append(c.args, "--state-dir", st.st.dir)...)
				return strings.Contains(text, "\nShared        "+c.want)
			})
			if !strings.Contains(text, "\nDead letters  [") || o.Shared.Away == "" {
				t.Errorf("says\n%s", text)
			}
			if name != "in part" && strings.Count(text[strings.Index(text, "\nShared"):], "\n") != 2 {
				t.Errorf("more than a line:\n%s", text)
			}
		})
	}
}

// A command of a hint gets the flags that it has.
func TestStatusRepeatsFlags(t *testing.T) {
	s := newScribe(t)
	s.begin("one")
	s.letter(deadletter.Letter{Reason: "invalid", Details: deadletter.Details{Key: "key-invalid"}}, 1)
	s.letter(deadletter.Letter{Reason: "exhausted", Details: deadletter.Details{Key: "key-exhausted"}}, 2)
	s.stop()
	_, text := statusOf(t, "--url", "https://api.test", "--redis", "redis://127.0.0.1:1", "--state-dir", s.st.dir)
	for _, want := range []string{
		"trafficup deadletters list --reason invalid --state-dir=" + s.st.dir + "\n",
		"trafficup replay --reason exhausted --state-dir=" + s.st.dir + " --url=https://api.test --redis=redis://127.0.0.1:1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("says\n%s, not %q", text, want)
		}
	}
	// What runs against the stand-in leave is nobody else's.
	st := s.st.sandbox()
	if o, text := statusOf(t, "--url", "https://api.test", "--redis", "redis://127.0.0.1:1", "--state-dir", st); o.Shared != nil {
		t.Errorf("says\n%s", text)
	}
}

func TestSharedText(t *testing.T) {
	zero, slow := 0.0, -3.25
	for want, s := range map[string]*sharedStatus{
		"":                          nil,
		"\nShared        r, as g\n": {Where: "r", Group: "g", SkewS: &zero},
		"\nShared        r, as g\n  clock: this machine's is 3.3s ahead of that of Redis\n":      {Where: "r", Group: "g", SkewS: &slow, off: true},
		"\nShared        r, as g\n  ceiling: 0.5 calls per second, shared by 8 uploaders now\n":  {Where: "r", Group: "g", SkewS: &slow, Ceiling: 0.5, Uploaders: 8},
		"\nShared        r, as g\n  p: no call in the last minute, no call in the hour before\n": {Where: "r", Group: "g", SkewS: &zero, Latency: []pathLatency{{Path: "p"}}},
	} {
		var b bytes.Buffer
		if s.text(&b); b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
}

// The clock of the last run that compared it is told of when it was wrong.
func TestStatusTellsOfTheClock(t *testing.T) {
	skew := func(s float64) *result { return &result{ClockSkewS: &s} }
	for name, c := range map[string]struct {
		reports []*result
		want    string
	}{
		"never compared": {[]*result{nil, {}}, ""},
		"right":          {[]*result{skew(9), skew(1.9)}, ""},
		"behind":         {[]*result{skew(0), skew(3.25), {}, nil}, "\nClock         3.3s behind in run run1; set it, and keep it right: timedatectl set-ntp true\n"},
		"ahead":          {[]*result{skew(-7200)}, "\nClock         2h0m0s ahead in run run0; set it, and keep it right: timedatectl set-ntp true\n"},
	} {
		var o overview
		for n, r := range c.reports {
			o.Runs = append(o.Runs, pastRun{Run: fmt.Sprint("run", n), Report: r})
		}
		var b bytes.Buffer
		if o.clockText(&b); b.String() != c.want {
			t.Errorf("%s: %q, want %q", name, b.String(), c.want)
		}
	}
}
