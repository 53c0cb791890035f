package sharedlimittest

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is a sharedlimit.Scripter for one prefix. The zero value is an empty
// Redis that answers at once. Safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	ceiling Ceiling             // guarded by mu
	streams map[string][]string // guarded by mu; ids and batches in turn
	texts   map[string]string   // guarded by mu; by hash
	err     error               // guarded by mu
	delay   time.Duration       // guarded by mu
	calls   int                 // guarded by mu
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

// Flush forgets the scripts, as SCRIPT FLUSH does.
func (s *Server) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = nil
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

// Eval runs the script of that text.
func (s *Server) Eval(ctx context.Context, text string, keys []string, args ...any) (any, error) {
	s.mu.Lock()
	if s.texts == nil {
		s.texts = map[string]string{}
	}
	sum := sha1.Sum([]byte(text))
	s.texts[hex.EncodeToString(sum[:])] = text
	s.mu.Unlock()
	return s.run(ctx, text, keys, args)
}

// EvalSHA runs a script that Eval has seen.
func (s *Server) EvalSHA(ctx context.Context, sha string, keys []string, args ...any) (any, error) {
	s.mu.Lock()
	text, ok := s.texts[sha]
	s.mu.Unlock()
	if !ok {
		return nil, errors.New("NOSCRIPT No matching script")
	}
	return s.run(ctx, text, keys, args)
}

func (s *Server) run(ctx context.Context, text string, keys []string, args []any) (any, error) {
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
	reply, err := s.do(text, keys, args)
	select {
	case <-time.After(delay / 2):
		return reply, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Server) do(text string, keys []string, args []any) (any, error) {
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
	switch name, _, _ := strings.Cut(text, ":"); name {
	case "-- lease":
		var reply []any
		for _, n := range s.ceiling.Lease(us, Request{arg(0), int(number(1)), number(2), number(3), number(4), number(5), number(6)}) {
			reply = append(reply, n)
		}
		return reply, nil
	case "-- leave":
		s.ceiling.Leave(arg(0), map[int64]int64{number(1): number(2), number(3): number(4)})
		return []any{}, nil
	case "-- add":
		if s.streams == nil {
			s.streams = map[string][]string{}
		}
		for i, key := range keys {
			s.streams[key] = append(s.streams[key], fmt.Sprintf("%d-%d", us/1000, len(s.streams[key])), arg(i+2))
		}
		return []any{}, nil
	case "-- read":
		reply := []any{us}
		seen := arg(0) == ""
		for list := s.streams[keys[0]]; len(list) > 0 && int64(len(reply)) < 2*number(2); list = list[2:] {
			at, _, _ := strings.Cut(list[0], "-")
			ms, _ := strconv.ParseInt(at, 10, 64)
			if seen && ms >= us/1000-number(1) {
				reply = append(reply, list[0], list[1])
			}
			seen = seen || list[0] == arg(0)
		}
		return reply, nil
	}
	return nil, errors.New("ERR unknown script")
}
