package sharedlimit

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Those who asked lately are counted, whatever else is kept; the lowest ceiling
// counts, and counting changes nothing.
func TestCount(t *testing.T) {
	onEach(t, func(t *testing.T, c direct) {
		ctx, key := context.Background(), limitKeys(c)[0]
		expect := func(want Sharing) {
			t.Helper()
			before := c.HGetAll(ctx, key).Val()
			got, err := Count(ctx, c)
			if err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
			if after := c.HGetAll(ctx, key).Val(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("%v became %v", before, after)
			}
		}
		expect(Sharing{})
		old := time.Now().Add(-time.Minute).UnixMilli()
		for field, value := range map[string]string{
			"node gone": fmt.Sprint(1, 1000, 10_000, 0, 5, old), "node torn": "1 2", "other": fmt.Sprint(1, 1000, 10_000, 0, 5, time.Now().UnixMilli()),
		} {
			c.HSet(ctx, key, field, value)
		}
		expect(Sharing{})
		for node, ceiling := range map[string]int64{"a": 200_000, "b": 150_500, "c d": 300_000} {
			if _, err := takeLease(ctx, c, request{node: node, demand: 1000, ceiling: ceiling}); err != nil {
				t.Fatal(err)
			}
		}
		expect(Sharing{3, 150.5})
		c.Set(ctx, key, "text", 0)
		if got, err := Count(ctx, c); err == nil || got != (Sharing{}) {
			t.Errorf("of a text: %+v, %v", got, err)
		}
	})
}
