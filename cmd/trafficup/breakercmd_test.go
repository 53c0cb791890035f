package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/atomicfile"
	"trafficup/internal/breaker"
	"trafficup/internal/disk"
)

// An upload at work minds the operator beside it: within the refresh of the
// breaker it sends nothing more, says so once, and goes on after the reset.
func TestRunningUploadMindsTheOperator(t *testing.T) {
	dir, night := t.TempDir(), writeNight(t, 600)
	log := filepath.Join(dir, "audit.log")
	breakers := func(args ...string) {
		t.Helper()
		sys, stdout, stderr := testSystem(append([]string{"breaker", args[0], "primary", "--url", primaryURL, "--state-dir", dir, "--set", "log.file=" + log}, args[1:]...)...)
		if code := run(sys); code != exitOK {
			t.Fatalf("%q: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var c calls
		l := newPipes()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.note(r)
			w.WriteHeader(http.StatusCreated)
		})}
		go srv.Serve(l)
		defer srv.Close()
		hard, abandon := context.WithCancel(t.Context())
		defer abandon()
		out, ended := &scribble{last: time.Now()}, make(chan int)
		go func() {
			ended <- run(system{
				args:  []string{"upload", "--url", primaryURL, "--state-dir", dir, "--rate", "50", "--log-file", filepath.Join(dir, "upload.log"), night},
				stdin: strings.NewReader(""), stdout: out, stderr: out, soft: hard, hard: hard, signal: new(atomic.Int32), graceful: new(atomic.Bool),
				fs: disk.OS{}, random: rand.Float64, lock: atomicfile.Lock,
				dial: func(ctx context.Context, network, addr string) (net.Conn, error) { return l.dial(ctx, network, addr) },
			})
		}()
		time.Sleep(3 * time.Second)
		opened := time.Now()
		breakers("open", "--reason", "API moves")
		time.Sleep(time.Minute)
		reset := time.Now()
		breakers("reset")
		if code := <-ended; code != exitOK || len(c.keys) != 600 || len(c.times) != 600 {
			t.Fatalf("exit %d, %d keys in %d calls\n%s", code, len(c.keys), len(c.times), out.b.String())
		}
		if n := c.between(opened.Add(-time.Second), opened); n < 40 {
			t.Errorf("%d requests in the second before it was opened", n)
		}
		if n := c.between(opened.Add(300*time.Millisecond), reset); n > 0 {
			t.Errorf("%d requests while it was forced open", n)
		}
		if n := c.between(reset, reset.Add(1500*time.Millisecond)); n < 10 {
			t.Errorf("%d requests in the first 1.5 s after the reset", n)
		}
		logged, err := os.ReadFile(filepath.Join(dir, "upload.log"))
		if err != nil {
			t.Fatal(err)
		}
		for where, text := range map[string]string{"stderr": out.b.String(), "log": string(logged)} {
			for _, words := range []string{"warning: the breaker of primary is forced open until ", "primary: breaker no longer forced open", "primary: breaker closed"} {
				if n := strings.Count(text, words); n != 1 {
					t.Errorf("%s says %d times %q\n%s", where, n, words, text)
				}
			}
			if strings.Contains(text, "next probe") {
				t.Errorf("%s tells of a probe\n%s", where, text)
			}
		}
		if !regexp.MustCompile(`; primary forced open for 14m\d*s \(nothing is sent\)\n`).MatchString(out.b.String()) {
			t.Errorf("the line of progress does not tell of it\n%s", out.b.String())
		}
		if n := strings.Count(out.b.String(), ": breaker of primary held open by hand (API moves)\n"); n != 1 {
			t.Errorf("the summary says %d times why it stood still\n%s", n, out.b.String())
		}
	})
}

// What a breaker tells, in the words of a run.
func TestBreakerNews(t *testing.T) {
	now := time.Now()
	force := func(p breaker.Phase, reason string) breaker.State {
		return breaker.Config{}.Force(breaker.State{}, breaker.Force{Phase: p, Until: now.Add(time.Hour), Reason: reason, By: "ops@host"}, now)
	}
	until := stamp(now.Add(time.Hour))
	var thrash breaker.Changes
	for i := range 7 {
		thrash[i] = now.Add(-time.Second)
	}
	for name, c := range map[string]struct {
		news breaker.News
		want string
		down bool
	}{
		"opens":                  {breaker.News{Is: breaker.State{Phase: breaker.Open, OpenUntil: now.Add(30 * time.Second)}}, "trafficup: primary: breaker open, next probe in 30s\n", true},
		"half-open":              {breaker.News{Was: breaker.State{Phase: breaker.Open}, Is: breaker.State{Phase: breaker.HalfOpen}}, "", true},
		"closes":                 {breaker.News{Was: breaker.State{Phase: breaker.HalfOpen}}, "trafficup: primary: breaker closed\n", false},
		"forced":                 {breaker.News{Is: force(breaker.Open, "moves")}, "trafficup: warning: the breaker of primary is forced open until " + until + " by ops@host (nothing is sent): moves\n", true},
		"forced, closed already": {breaker.News{Is: force(breaker.Closed, "a\x1b[2Jb")}, "trafficup: warning: the breaker of primary is forced closed until " + until + ` by ops@host (everything is sent, whatever it answers): a\x1b[2Jb` + "\n", true},
		"lapsed":                 {breaker.News{Was: force(breaker.Open, "moves"), Is: breaker.State{Phase: breaker.HalfOpen}}, "trafficup: primary: breaker no longer forced open\n", true},
		"thrashes": {breaker.News{Is: breaker.State{Phase: breaker.Open, OpenUntil: now.Add(60 * time.Second), Changes: thrash}, Thrashes: true},
			"trafficup: primary: breaker open, next probe in 1m0s\ntrafficup: warning: the breaker of primary opens and closes again and again: it changed 7 times in the last hour, and stays open for longer now\n", true},
	} {
		var b bytes.Buffer
		u := &ui{stderr: &b, down: map[string]breaker.State{}, holds: map[string]string{}}
		u.breakerNews("primary", c.news)
		got := b.String()
		if _, down := u.down["primary"]; got != c.want && !(name == "opens" && strings.Contains(got, "in 29s")) || down != c.down {
			t.Errorf("%s: %q, down %v; want %q", name, got, down, c.want)
		}
	}
}
