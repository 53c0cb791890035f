package sharedlimit

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// callTimeout bounds every call to Redis.
const callTimeout = 250 * time.Millisecond

// Scripter runs Lua scripts on one Redis. It honours the deadline of ctx, is safe
// for concurrent use, returns integers as int64, texts as string and arrays as
// []any, and an error of Redis with its words, such as "NOSCRIPT ...".
type Scripter interface {
	Eval(ctx context.Context, text string, keys []string, args ...any) (any, error)
	EvalSHA(ctx context.Context, sha string, keys []string, args ...any) (any, error)
}

//go:embed lease.lua
var leaseText string

//go:embed leave.lua
var leaveText string

//go:embed add.lua
var addText string

//go:embed read.lua
var readText string

var (
	leaseScript = newScript(leaseText)
	leaveScript = newScript(leaveText)
	addScript   = newScript(addText)
	readScript  = newScript(readText)
)

type script struct{ name, text, sha string }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text))
	name, _, _ := strings.Cut(strings.TrimPrefix(text, "-- "), ":")
	return script{name, text, hex.EncodeToString(sum[:])}
}

// run calls s by its hash, and with its text if Redis does not know it (any
// more), within callTimeout altogether.
func (s script) run(ctx context.Context, on Scripter, keys []string, args ...any) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := on.EvalSHA(ctx, s.sha, keys, args...)
	if err != nil && strings.Contains(err.Error(), "NOSCRIPT") {
		reply, err = on.Eval(ctx, s.text, keys, args...)
	}
	if err != nil {
		return nil, fmt.Errorf("script %s on redis: %w", s.name, err)
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("script %s on redis: answer of type %T", s.name, reply)
	}
	return list, nil
}

// request is what a node tells when it asks for a lease.
type request struct {
	node    string
	class   Class
	demand  int64 // thousandths of a call a window
	atOnce  int64 // calls of the window that has begun
	ceiling int64 // thousandths of a call a second
	credit  int64 // thousandths of a call; a node unknown so far begins with it
}

// answer is what it gets.
type answer struct {
	into      time.Duration // how much of the window is over
	window    int64         // its number
	now, next int           // calls of this window and of the next one
	nodes     int           // seen in the last two seconds, with this one
}

func takeLease(ctx context.Context, on Scripter, prefix string, r request) (answer, error) {
	list, err := leaseScript.run(ctx, on, limitKeys(prefix), r.node, int(r.class)+1, r.demand, r.atOnce, r.ceiling, r.credit, window.Milliseconds())
	if err != nil {
		return answer{}, err
	}
	var n [5]int64
	if len(list) != len(n) {
		return answer{}, fmt.Errorf("script %s on redis: %d values, want %d", leaseScript.name, len(list), len(n))
	}
	for i, v := range list {
		var ok bool
		if n[i], ok = v.(int64); !ok || n[i] < 0 {
			return answer{}, fmt.Errorf("script %s on redis: value %d is %v", leaseScript.name, i, v)
		}
	}
	return answer{
		into: time.Duration(n[0]-n[1]) * time.Microsecond, window: n[1] / window.Microseconds(),
		now: int(n[2]), next: int(n[3]), nodes: int(n[4]),
	}, nil
}

func limitKeys(prefix string) []string {
	return []string{prefix + "ceiling:nodes", prefix + "ceiling:windows"}
}
