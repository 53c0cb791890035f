package sharedlimittest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"trafficup/internal/redis"
)

// timeout is that of a redis.Client.
const timeout = 250 * time.Millisecond

// Server is a sharedlimit.Redis. The zero value is an empty Redis that answers at
// once. Safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	ceiling Ceiling       // guarded by mu
	stream  []string      // guarded by mu; ids, paths and batches in turn
	err     error         // guarded by mu
	delay   time.Duration // guarded by mu
	calls   int           // guarded by mu
}

// Fail lets every call end with err from now on; nil: no more.
func (s *Server) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Slow lets every call take d.
func (s *Server) Slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// Calls is how many there were.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Nodes is how many are known.
func (s *Server) Nodes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ceiling.Nodes)
}

// Key returns a key.
func (s *Server) Key(parts ...string) string { return strings.Join(parts, ":") }

// Eval does what the script of that name does.
func (s *Server) Eval(ctx context.Context, script *redis.Script, _ []string, args ...any) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s.mu.Lock()
	s.calls++
	delay, err := s.delay, s.err
	s.mu.Unlock()
	select {
	case <-time.After(delay / 2):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	reply, err := s.do(script.Name, args)
	select {
	case <-time.After(delay / 2):
		return reply, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Server) do(name string, args []any) ([]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	arg := func(i int) string { return fmt.Sprint(args[i]) }
	number := func(i int) int64 {
		n, err := strconv.ParseInt(arg(i), 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	us := time.Now().UnixMicro()
	switch name {
	case "lease":
		var reply []any
		for _, n := range s.ceiling.Lease(us, Request{arg(0), int(number(1)), number(2), number(3), number(4), number(5), number(6)}) {
			reply = append(reply, n)
		}
		return reply, nil
	case "leave":
		s.ceiling.Leave(arg(0), map[int64]int64{number(1): number(2), number(3): number(4)})
		return []any{}, nil
	case "add":
		for i := 2; i < len(args); i += 2 {
			s.stream = append(s.stream, fmt.Sprintf("%d-%d", us/1000, len(s.stream)), arg(i), arg(i+1))
		}
		return []any{}, nil
	case "read":
		reply := []any{us}
		seen := arg(0) == ""
		for list := s.stream; len(list) > 0 && int64(len(reply)) < 3*number(2); list = list[3:] {
			at, _, _ := strings.Cut(list[0], "-")
			ms, _ := strconv.ParseInt(at, 10, 64)
			if seen && ms >= us/1000-number(1) {
				reply = append(reply, list[0], list[1], list[2])
			}
			seen = seen || list[0] == arg(0)
		}
		return reply, nil
	}
	return nil, errors.New("ERR unknown script")
}
