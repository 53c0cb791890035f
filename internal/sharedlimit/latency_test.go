package sharedlimit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"trafficup/internal/sharedlimit/sharedlimittest"
)

func TestLatencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &sharedlimittest.Server{}
		reader := NewReader(srv)
		var recorders []*Recorder
		for range 8 {
			recorders = append(recorders, NewRecorder(srv))
		}
		work := func(seconds int, usual time.Duration) {
			for range seconds {
				for _, r := range recorders {
					for range 10 {
						r.Add("primary", usual+rand.N(usual))
						r.Add("fallback", time.Second)
					}
				}
				time.Sleep(time.Second)
			}
		}
		compare := func() Comparison {
			t.Helper()
			paths, now, err := reader.Read(t.Context())
			if err != nil || !now.Equal(time.Now()) || len(paths) != 2 || len(paths["primary"]) > 8*721 {
				t.Fatal(len(paths), len(paths["primary"]), now, err)
			}
			if c := Compare(paths["fallback"], now); c.Burst || c.Minute.P95 != time.Second {
				t.Errorf("the other path: %+v", c)
			}
			c := Compare(paths["primary"], now)
			t.Logf("%+v", c)
			return c
		}
		work(40*60, 100*time.Millisecond)
		c := compare()
		if c.Burst || c.Minute.Calls < 8*10*50 || c.Hour.Calls < 8*10*60*38 {
			t.Error("usual times")
		}
		within(t, "p95 in ms", float64(c.Hour.P95.Milliseconds()), 192, 198)
		work(60, 300*time.Millisecond)
		if !compare().Burst {
			t.Error("three times as slow is no burst")
		}
		work(2*3600, 300*time.Millisecond)
		if c := compare(); c.Burst || c.Hour.Calls > 8*10*3600 || c.Hour.P95 < 500*time.Millisecond {
			t.Error("the new times became the usual ones")
		}
		for _, r := range recorders {
			r.Close()
			if n := r.Dropped(); n != 0 {
				t.Errorf("%d dropped", n)
			}
		}
	})
}

func TestLatenciesThatRedisDoesNotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &sharedlimittest.Server{}
		srv.Slow(time.Hour)
		r := NewRecorder(srv)
		begin := time.Now()
		for range 1000 {
			r.Add("primary", time.Second)
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("adding took %s", d)
		}
		time.Sleep(6 * time.Second)
		if n := r.Dropped(); n != 1000 {
			t.Errorf("%d dropped", n)
		}
		r.Add("primary", time.Second)
		r.Close()
		if n := r.Dropped(); n != 1001 {
			t.Errorf("%d dropped", n)
		}
		srv.Slow(0)
		srv.Fail(errors.New("OOM command not allowed"))
		if _, now, err := NewReader(srv).Read(t.Context()); err == nil || !now.IsZero() {
			t.Error(now, err)
		}
	})
}

func TestLatencyStreamOnRedis(t *testing.T) {
	onEach(t, func(t *testing.T, c direct) {
		key := "trafficup:{test}:latency"
		for n := range 2500 {
			if err := c.XAdd(t.Context(), &goredis.XAddArgs{
				Stream: key, ID: fmt.Sprint(time.Now().Add(-2*time.Hour+time.Duration(n)*2880*time.Millisecond).UnixMilli(), "-0"), Values: []any{"path", "primary", "batch", "1 1000"},
			}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		r := NewRecorder(c)
		r.Add("primary", 250*time.Millisecond)
		r.Add("primary", -time.Second)
		r.Add("primary", 24*time.Hour)
		r.Add("fallback", time.Second)
		r.Close()
		for _, foreign := range [][]any{{"batch", "1 1000"}, {"path", "", "batch", "1 1000"}, {"path", strings.Repeat("x", 300), "batch", "1 1000"}, {"path", "primary", "batch", "x"}} {
			if err := c.XAdd(t.Context(), &goredis.XAddArgs{Stream: key, Values: foreign}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		reader := NewReader(c)
		paths, now, err := reader.Read(t.Context())
		if len(paths) != 2 || len(paths["fallback"]) != 1 {
			t.Errorf("%d paths, %+v", len(paths), paths["fallback"])
		}
		batches := paths["primary"]
		if err != nil || len(batches) < 1200 || len(batches) > 1252 || now.Sub(batches[0].At) > time.Hour {
			t.Fatalf("%d batches, %v", len(batches), err)
		}
		if got := batches[len(batches)-1]; fmt.Sprint(got.Calls, got.Sample) != "3 [250ms 0s 1h0m0s]" {
			t.Errorf("%+v", got)
		}
		paths, _, err = reader.Read(t.Context())
		again := paths["primary"]
		if err != nil || len(again) > len(batches) || len(again) < len(batches)-40 {
			t.Errorf("read again: %d batches, %v", len(again), err)
		}
		if ttl := c.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > streamTTL {
			t.Errorf("goes after %s", ttl)
		}
	})
}

// The stream does not grow without end.
func TestLatencyStreamIsCapped(t *testing.T) {
	onEach(t, func(t *testing.T, c direct) {
		args := []any{500, 60000, "primary", "1 1000", "fallback", "1 1000"}
		for range 1000 {
			if _, err := c.Eval(t.Context(), addScript, latencyKeys(c), args...); err != nil {
				t.Fatal(err)
			}
		}
		within(t, "entries", float64(c.XLen(t.Context(), latencyKeys(c)[0]).Val()), 500, 700)
	})
}

func TestCompareWeighs(t *testing.T) {
	now := time.Unix(1e9, 0)
	batch := func(age time.Duration, calls int, sample ...time.Duration) Batch {
		return Batch{At: now.Add(-age), Calls: calls, Sample: sample}
	}
	usual := batch(10*time.Minute, 1000, time.Second)
	for name, tt := range map[string]struct {
		batches []Batch
		want    Comparison
	}{
		"nothing":        {nil, Comparison{}},
		"long ago":       {[]Batch{batch(2*time.Hour, 1000, time.Second)}, Comparison{}},
		"only a minute":  {[]Batch{batch(time.Second, 1000, time.Second)}, Comparison{Minute: Latency{time.Second, 1000}}},
		"twice":          {[]Batch{usual, batch(time.Second, 20, 2*time.Second)}, Comparison{Latency{2 * time.Second, 20}, Latency{time.Second, 1000}, true}},
		"hardly twice":   {[]Batch{usual, batch(time.Second, 20, 1999*time.Millisecond)}, Comparison{Latency{1999 * time.Millisecond, 20}, Latency{time.Second, 1000}, false}},
		"too few":        {[]Batch{usual, batch(time.Second, 19, time.Minute)}, Comparison{Latency{time.Minute, 19}, Latency{time.Second, 1000}, false}},
		"a busy node":    {[]Batch{usual, batch(time.Second, 95, time.Second), batch(time.Second, 5, time.Minute)}, Comparison{Latency{time.Second, 100}, Latency{time.Second, 1000}, false}},
		"6 percent slow": {[]Batch{usual, batch(time.Second, 94, time.Second), batch(time.Second, 6, time.Minute)}, Comparison{Latency{time.Minute, 100}, Latency{time.Second, 1000}, true}},
	} {
		if got := Compare(tt.batches, now); got != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func FuzzParseBatch(f *testing.F) {
	for _, s := range []string{"3 1 2 3", "40 1 2", "2 1 2 3", "", "1", "1 -1", "x 1", "1 99999999999999999999", "9 " + strings.Repeat("1 ", 40)} {
		f.Add("1700000000000-0", s)
	}
	f.Fuzz(func(t *testing.T, id, text string) {
		b, ok := parseBatch(id, text)
		if !ok {
			return
		}
		again, ok := parseBatch(fmt.Sprint(b.At.UnixMilli(), "-0"), b.text())
		if !ok || fmt.Sprint(again) != fmt.Sprint(b) {
			t.Errorf("%+v became %+v", b, again)
		}
		if l := p95([]Batch{b}); l.P95 < 0 || l.Calls != b.Calls {
			t.Errorf("%+v", l)
		}
	})
}

// What a model is worth: the properties the package promises.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c sharedlimittest.Ceiling
		quota := rapid.Int64Range(100, 1_000_000).Draw(t, "quota")
		for n := range rapid.IntRange(1, 12).Draw(t, "nodes") {
			if c.Nodes == nil {
				c.Nodes = map[string]sharedlimittest.Node{}
			}
			c.Nodes[fmt.Sprint(n)] = sharedlimittest.Node{Class: rapid.IntRange(1, 3).Draw(t, "class"), Demand: rapid.Int64Range(0, 2*quota).Draw(t, "demand")}
		}
		var wants, got [4]int64
		most := [4]int64{} // of a class, a node's share
		shares := c.Shares(quota)
		for name, n := range c.Nodes {
			wants[n.Class] += n.Demand
			got[n.Class] += shares[name]
			most[n.Class] = max(most[n.Class], shares[name])
		}
		sum, all := got[1]+got[2]+got[3], wants[1]+wants[2]+wants[3]
		if sum > quota || sum < min(all, quota)-3 {
			t.Errorf("%d of %d shared, %d wanted", sum, quota, all)
		}
		if got[1] < min(wants[1], quota*85/100)-1 || got[2] < min(wants[2], quota/10)-1 || got[3] < min(wants[3], quota/20)-1 {
			t.Errorf("wanted %v, got %v of %d", wants, got, quota)
		}
		if got[3] > quota/20+1 && got[2] < wants[2]-1 || got[2] > quota/10+1 && got[1] < wants[1]-1 {
			t.Errorf("wanted %v, got %v of %d: out of order", wants, got, quota)
		}
		for name, n := range c.Nodes { // who gets less than another one has all it wants
			if s := shares[name]; s > n.Demand || s < n.Demand && s < most[n.Class]-1 {
				t.Errorf("node %s wants %d, gets %d; another one gets %d", name, n.Demand, s, most[n.Class])
			}
		}
	})
}

// However the nodes ask, no window gives more than the ceiling allows.
func TestModelNeverGivesTooMuch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c sharedlimittest.Ceiling
		ceiling := rapid.Int64Range(100, 1_000_000).Draw(t, "ceiling")
		us := int64(1e15)
		given := map[int64]int64{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			us += rapid.Int64Range(0, 200_000).Draw(t, "later")
			a := c.Lease(us, sharedlimittest.Request{
				Node: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node"), Class: rapid.IntRange(1, 3).Draw(t, "class"),
				Demand: rapid.Int64Range(0, ceiling).Draw(t, "demand"), AtOnce: rapid.Int64Range(0, ceiling).Draw(t, "at once"),
				Ceiling: ceiling, Credit0: rapid.Int64Range(0, 999).Draw(t, "credit"), Window: 250,
			})
			given[us/250_000] += a[2]
			given[us/250_000+1] += a[3]
		}
		var first, last, sum int64 = 1e15 / 250_000, us/250_000 + 1, 0
		for w := first; w <= last; w++ {
			sum += given[w]
			if budget := float64(ceiling) / 4000; float64(given[w]) > budget+1 || float64(sum) > budget*float64(w-first+1)+1 {
				t.Errorf("window %d of %d: %d, up to there %d; %.2f each", w-first, last-first, given[w], sum, budget)
			}
		}
	})
}
