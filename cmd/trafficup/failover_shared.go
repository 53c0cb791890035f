package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"time"

	"trafficup/internal/edge"
	"trafficup/internal/redis"
)

// siteName is what a site may be called: a part of a key.
var siteName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// How long other hosts believe what they were told last.
const (
	siteKept       = 3 * edge.SavedEvery
	siteKeptByCron = 3 * time.Minute // where it is told once a minute
)

// uplinkShare tells other hosts, over Redis, which uplink carries. A Redis that is
// away or slow holds nothing up: it gets the latest that there is to tell.
type uplinkShare struct {
	client           *redis.Client // nil: nobody is told
	site, host, boot string
	keep             time.Duration
	known            time.Time    // what another one said before that may be of the node whose place this one takes
	rival            redis.Uplink // who was warned of
	warn             func(string)
	latest           chan redis.Uplink // holds one
	work             sync.WaitGroup

	mu    sync.Mutex
	state string // guarded by mu; what became of the last, for people
}

// begin begins to tell, if the place has a name. What is wrong with Redis is a warning
// and nothing more.
func (s *uplinkShare) begin(ctx context.Context, sys *system, c Config) {
	if s.latest = make(chan redis.Uplink, 1); s.site == "" {
		return
	}
	s.warn = func(text string) { sys.warn(text) }
	host, err := os.Hostname()
	if err == nil {
		s.client, err = c.openRedis(sys, s.warn, s.told)
	}
	if err != nil {
		s.state = "not told: " + err.Error()
		s.warn("other hosts are not told which uplink carries: " + err.Error())
		return
	}
	s.host = host
	s.work.Go(func() { s.run(ctx) })
}

// close waits for the last word, after the end of the ctx of begin.
func (s *uplinkShare) close() {
	s.work.Wait()
	if s.client != nil {
		_ = s.client.Close() // what was told ends by itself
	}
}

// post leaves what there is to tell, in the place of what was not told yet. It does
// not wait.
func (s *uplinkShare) post(r edge.Report) {
	if s.client == nil {
		return
	}
	select {
	case <-s.latest:
	default:
	}
	s.latest <- redis.Uplink{Uplink: r.Uplink, Host: s.host, Boot: s.boot, At: r.At} // only the loop posts: there is room
}

// how says what became of the last that was to be told; "" when nothing is to be.
func (s *uplinkShare) how() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// run tells what is posted until ctx ends, and then the last.
func (s *uplinkShare) run(ctx context.Context) {
	defer func() {
		select {
		case u := <-s.latest:
			_ = s.write(u) // how() says so
		default:
		}
	}()
	var u redis.Uplink
	var again <-chan time.Time // to try what could not be told
	for {
		select {
		case <-ctx.Done():
			return
		case u = <-s.latest:
		case <-again:
		}
		if again = nil; s.write(u) != nil {
			again = time.After(time.Second)
		}
	}
}

// write tells u, which takes no longer than a call of Redis may.
func (s *uplinkShare) write(u redis.Uplink) error {
	other, err := s.client.WriteUplink(context.Background(), s.site, u, s.keep)
	state := fmt.Sprintf("told as %s at %s", s.site, time.Now().UTC().Format(time.RFC3339))
	if err != nil {
		state = fmt.Sprintf("not told as %s: %v", s.site, err)
	}
	if other.At.After(s.known) && (other.Host != s.rival.Host || other.Boot != s.rival.Boot) {
		s.rival = other
		s.warn(fmt.Sprintf("%s tells other hosts of an uplink as %s, too (this is %s): give each a failover.site of its own", printable(other.Host), s.site, s.host))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
	return err
}

// told hears that Redis is away, or back.
func (s *uplinkShare) told(err error) {
	if err == nil {
		s.warn("redis is back: other hosts are told again which uplink carries")
		return
	}
	text := err.Error()
	if e, ok := errors.AsType[*redis.Error](err); ok {
		text += " (" + e.Hint + ")"
	}
	s.warn(text + "; other hosts are not told which uplink carries")
}
