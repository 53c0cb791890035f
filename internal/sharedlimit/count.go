package sharedlimit

import (
	"context"
	_ "embed"
	"fmt"

	"trafficup/internal/redis"
)

//go:embed count.lua
var countText string

var countScript = redis.NewScript("count", countText)

// Sharing is who shares the ceiling of an API.
type Sharing struct {
	Nodes   int     // that let calls through in the last two seconds
	Ceiling float64 // calls per second, the lowest that they were told; 0 without nodes
}

// Count returns who shares the ceiling on a Redis, and takes no part in it.
func Count(ctx context.Context, on Redis) (Sharing, error) {
	list, err := on.Eval(ctx, countScript, limitKeys(on))
	if err != nil {
		return Sharing{}, err
	}
	if len(list) != 3 {
		return Sharing{}, fmt.Errorf("ceiling on redis: %d values, want 3", len(list))
	}
	nodes, counted := list[1].(int64)
	lowest, told := list[2].(int64)
	if !counted || !told {
		return Sharing{}, fmt.Errorf("ceiling on redis: values %v", list[1:])
	}
	return Sharing{int(nodes), float64(lowest) / 1000}, nil
}
