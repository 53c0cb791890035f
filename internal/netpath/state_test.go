package netpath

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/breaker"
)

// A random life with requests in flight, and what must hold after every step.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Names:          []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "paths")],
			Failback:       30 * time.Second,
			Canary:         0.2,
			CanaryFallback: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "canary of the fallback"),
			Quota:          map[int]Quota{},
		}
		for i, name := range cfg.Names {
			if rapid.Bool().Draw(t, "window") {
				_, w := drawWindow(t, name)
				w.closed = rapid.Bool().Draw(t, "closed")
				cfg.Windows = append(cfg.Windows, w)
			}
			cfg.Quota[i] = Quota{
				Bytes: rapid.SampledFrom([]int64{0, 0, 1000}).Draw(t, "bytes"),
				Share: rapid.SampledFrom([]float64{0, 0, 0.3}).Draw(t, "share"),
			}
		}
		var (
			s        = state{paths: make([]pathState, len(cfg.Names))}
			start    = drawTime(t)
			now      = start
			inFlight []int
			most     int // in flight at once
		)
		const size = 100
		// Each step is checked to leave the state before it alone.
		step := func(f func(state) state) {
			kept := s
			kept.paths = slices.Clone(s.paths)
			next := f(s)
			if !reflect.DeepEqual(s, kept) {
				t.Fatalf("changed %+v\nto %+v", kept, s)
			}
			s = next
		}
		path := func(t *rapid.T) int { return rapid.IntRange(0, len(cfg.Names)-1).Draw(t, "path") }
		t.Repeat(map[string]func(*rapid.T){
			"order": func(t *rapid.T) {
				var order []int
				step(func(s state) (next state) {
					next, order, _ = cfg.order(s, now, rapid.Float64Range(0, 0.999).Draw(t, "u"))
					return next
				})
				var usable []int
				var total int64
				for _, p := range s.paths {
					total += p.sent
				}
				for i, p := range s.paths {
					q := cfg.Quota[i]
					_, closed := cfg.Windows.Closing().In(cfg.Names[i], now)
					if !closed && (q.Bytes == 0 || p.bytes < q.Bytes) && (q.Share == 0 || float64(p.sent) <= q.Share*float64(total)) {
						usable = append(usable, i)
					}
				}
				sorted := slices.Clone(order)
				slices.Sort(sorted)
				if !slices.Equal(sorted, usable) {
					t.Fatalf("order %v of %v", order, usable)
				}
				inside := false
				for _, i := range order {
					_, in := cfg.Windows.In(cfg.Names[i], now)
					if inside && !in {
						t.Fatalf("order %v: a path inside its window comes before %s", order, cfg.Names[i])
					}
					inside = in
				}
				if len(order) > 0 {
					inFlight = append(inFlight, order[0])
					most = max(most, len(inFlight))
				}
			},
			"done": func(t *rapid.T) {
				if len(inFlight) == 0 {
					t.Skip("nothing in flight")
				}
				v := rapid.SampledFrom([]Verdict{OK, OK, OK, Fail, Neutral}).Draw(t, "verdict")
				i := inFlight[0]
				inFlight = inFlight[1:]
				step(func(s state) state { return cfg.done(s, i, v, size, now) })
			},
			"refused": func(t *rapid.T) {
				i, d := path(t), rapid.IntRange(0, 300).Draw(t, "retry")
				step(func(s state) state { return cfg.refused(s, i, now.Add(time.Duration(d)*time.Second), now) })
				if !s.paths[i].untrusted {
					t.Fatal("trusted after its breaker refused")
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "d")))
			},
			"": func(t *rapid.T) {
				var fallback time.Duration
				for i, p := range s.paths {
					q := cfg.Quota[i]
					if q.Bytes > 0 && p.bytes >= q.Bytes+int64(most)*size {
						t.Fatalf("%d bytes by %s with %d in flight", p.bytes, cfg.Names[i], most)
					}
					if h := cfg.hold(p); h < cfg.Failback || h > failbackMax {
						t.Fatalf("a failback of %s", h)
					}
					fallback += p.onFallback
				}
				if s.planned < 0 || s.unplanned < 0 || fallback != s.planned+s.unplanned || fallback > now.Sub(start) {
					t.Fatalf("on fallback for %s and %s of %s", s.planned, s.unplanned, now.Sub(start))
				}
			},
		})
	})
}

// world drives a chooser and real breakers over two paths.
type world struct {
	c        *Chooser
	rng      *rand.Rand
	cfg      breaker.Config
	breakers [2]breaker.State
	now      time.Time
	counts   [2]int // requests by path
	failed   int
	switches int
	head     int
}

func newWorld(cfg Config) *world {
	cfg.Names = []string{"primary", "fallback"}
	cfg.Canary = cmp.Or(cfg.Canary, 0.01)
	return &world{
		c: NewChooser(cfg), rng: rand.New(rand.NewPCG(1, 2)), cfg: breaker.DefaultConfig(), now: t0,
	}
}

// run sends requests at a rate for d. up says whether the primary works.
func (w *world) run(d time.Duration, perSecond int, up func(time.Duration) bool) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(time.Second / time.Duration(perSecond)) {
		w.request(up(w.now.Sub(t0)))
		if head := w.c.state.head; head != w.head {
			w.head, w.switches = head, w.switches+1
		}
	}
}

func (w *world) request(up bool) {
	order, _ := w.c.Order(w.now, w.rng.Float64())
	for _, i := range order {
		next, ok, retryAt := w.cfg.Allow(w.breakers[i], w.now, w.rng.Float64())
		w.breakers[i] = next
		if !ok {
			w.c.Refused(i, retryAt, w.now)
			continue
		}
		v, bv := OK, breaker.OK
		if i == 0 && !up {
			v, bv = Fail, breaker.Fail
			w.failed++
		}
		w.breakers[i] = w.cfg.Record(next, next.Generation, bv, w.now, w.rng.Float64())
		w.c.Done(i, v, 100, w.now)
		w.counts[i]++
		return
	}
}

func flap(d time.Duration) bool { return d%(30*time.Second) < 20*time.Second }
func well(time.Duration) bool   { return true }

// A path that is up for 20 s and down for 10 s, for an hour, must not carry the
// traffic to and fro; when it is well for good it comes back in bounded time.
func TestFlapping(t *testing.T) {
	for _, perSecond := range []int{1, 10} {
		w := newWorld(Config{})
		w.run(time.Hour, perSecond, flap)
		total := w.counts[0] + w.counts[1]
		t.Logf("%d/s: %d switches, %d of %d by the primary, %d failed", perSecond, w.switches, w.counts[0], total, w.failed)
		if w.switches > 16 {
			t.Errorf("%d/s: %d switches", perSecond, w.switches)
		}
		if w.failed*50 > total && w.failed > 60 {
			t.Errorf("%d/s: %d of %d failed", perSecond, w.failed, total)
		}
		from := w.now
		bound := w.cfg.OpenMax + failbackMax + failbackMax/trustOKs
		for !w.c.Status(w.now)[0].Trusted {
			if w.now.Sub(from) > bound {
				t.Fatalf("%d/s: not back after %s", perSecond, bound)
			}
			w.run(time.Second, perSecond, well)
		}
		t.Logf("%d/s: back after %s", perSecond, w.now.Sub(from))
		if order, _ := w.c.Order(w.now, 0.5); order[0] != 0 {
			t.Errorf("%d/s: trusted, and order %v", perSecond, order)
		}
	}
}

// However it flaps, each trust that does not last makes the next one rarer.
func TestAnyFlapping(t *testing.T) {
	rng, most := rand.New(rand.NewPCG(3, 4)), 0
	for range 25 {
		w := newWorld(Config{})
		period := time.Duration(5+rng.IntN(595)) * time.Second
		upFor := time.Duration((0.3 + 0.69*rng.Float64()) * float64(period))
		w.run(time.Hour, 1, func(d time.Duration) bool { return d%period < upFor })
		most = max(most, w.switches)
		if w.switches > 20 {
			t.Errorf("%d switches, up for %s of %s", w.switches, upFor, period)
		}
	}
	t.Logf("at most %d switches", most)
}

// After one plain outage it is back a failback after its probe, at any rate.
func TestOutageThenBack(t *testing.T) {
	for _, perSecond := range []int{1, 10, 50} {
		w := newWorld(Config{})
		w.run(2*time.Minute, perSecond, func(time.Duration) bool { return false })
		from := w.now
		for !w.c.Status(w.now)[0].Trusted && w.now.Sub(from) < time.Hour {
			w.run(time.Second, perSecond, well)
		}
		took := w.now.Sub(from)
		t.Logf("%d/s: back after %s, %d switches, %d failed", perSecond, took, w.switches, w.failed)
		if took > 4*time.Minute+30*time.Second+6*time.Second || w.switches != 2 {
			t.Errorf("%d/s: back after %s, %d switches", perSecond, took, w.switches)
		}
	}
}

func TestCanaryShareIsHeld(t *testing.T) {
	w := newWorld(Config{Failback: failbackMax, Canary: 0.05})
	w.c.Refused(0, t0, t0)
	w.run(9*time.Minute, 50, well)
	share := float64(w.counts[0]) / float64(w.counts[0]+w.counts[1])
	t.Logf("share %.4f", share)
	if share < 0.045 || share > 0.055 { // of 27,000 requests: standard deviation 0.0013
		t.Errorf("share %.4f", share)
	}
}

func TestShareOfAMeteredPathIsHeld(t *testing.T) {
	w := newWorld(Config{CanaryFallback: 0.5, Quota: map[int]Quota{1: {Share: 0.1}}})
	for range 2000 {
		w.request(true)
		if total := w.counts[0] + w.counts[1]; float64(w.counts[1]) > 0.1*float64(total)+1 {
			t.Fatalf("%d of %d by the fallback", w.counts[1], total)
		}
	}
	if w.counts[1] < 190 {
		t.Errorf("only %d by the fallback", w.counts[1])
	}
}
