package sharedlimit

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"trafficup/internal/redis"
)

// Redis is what a [redis.Client] does: it names the keys of its API and runs
// scripts on them, each for 250 ms at most.
type Redis interface {
	Key(parts ...string) string
	Eval(ctx context.Context, script *redis.Script, keys []string, args ...any) ([]any, error)
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
	leaseScript = redis.NewScript("lease", leaseText)
	leaveScript = redis.NewScript("leave", leaveText)
	addScript   = redis.NewScript("add", addText)
	readScript  = redis.NewScript("read", readText)
)

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

func takeLease(ctx context.Context, on Redis, r request) (answer, error) {
	list, err := on.Eval(ctx, leaseScript, limitKeys(on), r.node, int(r.class)+1, r.demand, r.atOnce, r.ceiling, r.credit, window.Milliseconds())
	if err != nil {
		return answer{}, err
	}
	var n [5]int64
	if len(list) != len(n) {
		return answer{}, fmt.Errorf("lease on redis: %d values, want %d", len(list), len(n))
	}
	for i, v := range list {
		var ok bool
		if n[i], ok = v.(int64); !ok || n[i] < 0 {
			return answer{}, fmt.Errorf("lease on redis: value %d is %v", i, v)
		}
	}
	return answer{
		into: time.Duration(n[0]-n[1]) * time.Microsecond, window: n[1] / window.Microseconds(),
		now: int(n[2]), next: int(n[3]), nodes: int(n[4]),
	}, nil
}

func limitKeys(on Redis) []string { return []string{on.Key("limit")} }
