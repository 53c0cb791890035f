package netshape

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/tc"
)

// busyKernel has something to send all the time, or nothing.
type busyKernel struct {
	*fakeKernel
	link  float64 // bit/s that the link carries
	busy  bool
	sent  float64 // bytes
	when  time.Time
	fails error // of changes
}

func (k *busyKernel) Qdiscs(link int) ([]tc.Qdisc, error) {
	list, err := k.fakeKernel.Qdiscs(link)
	if k.busy {
		k.sent += min(k.link, float64(rateOf(list[0].Shaper))) / 8 * time.Since(k.when).Seconds()
	}
	k.when = time.Now()
	list[0].Stats.Bytes = uint64(k.sent)
	return list, err
}

func (k *busyKernel) SetRoot(link int, s tc.Shaper) error {
	if k.fails != nil {
		return k.fails
	}
	return k.fakeKernel.SetRoot(link, s)
}

// gauged runs f with an interface shaped to 9mbit over a link of 5, and a delay as
// it is then.
func gauged(t *testing.T, f func(t *testing.T, b box, k *busyKernel, g Gauge)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, "eth1")
		k := &busyKernel{fakeKernel: b.k, link: 5e6, when: time.Now()}
		b.Kernel = k
		b.apply(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}})
		f(t, b, k, Gauge{Interface: "eth1", Probe: func(ctx context.Context) (time.Duration, error) {
			d := 40 * ms
			if k.busy && k.rate() > k.link {
				d = 400 * ms
			}
			return d, sleep(ctx, d)
		}})
	})
}

func (k *busyKernel) rate() float64 { return float64(rateOf(k.roots[k.index("eth1")].Shaper)) }

// run watches for so long and returns what was told; busy from the tenth second on.
func (k *busyKernel) run(t *testing.T, m *Machine, g Gauge, d time.Duration, at func(n int)) (told []Reading) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := m.Gauge(ctx, g, func(r Reading) {
		told = append(told, r)
		k.busy = len(told) >= 10
		at(len(told))
	}); err != nil {
		t.Error(err)
	}
	return told
}

func TestGaugeTells(t *testing.T) {
	gauged(t, func(t *testing.T, b box, k *busyKernel, g Gauge) {
		changes := k.changes
		told := k.run(t, b.Machine, g, 30*time.Second, func(int) {})
		asked := 0
		for _, r := range told[:10] {
			if r.Asked {
				asked++
			}
			if r.TooHigh != "" || r.Error != "" {
				t.Errorf("%+v", r)
			}
		}
		last := told[len(told)-1]
		if asked != 1 || !strings.Contains(last.TooHigh, "carries about 5mbit") || last.Idle.Duration != 40*ms || last.Delay.Duration != 400*ms || last.Rate != 9e6 || last.Next != 0 {
			t.Errorf("asked %d times without load; %+v", asked, last)
		}
		if k.changes != changes {
			t.Error("it changed something")
		}
	})
}

// The rate is fitted, which is no drift, and comes back at the end.
func TestGaugeSteers(t *testing.T) {
	gauged(t, func(t *testing.T, b box, k *busyKernel, g Gauge) {
		g.Min = 2e6
		stood := b.snapshot()
		least := 9e6
		var idle uint64
		told := k.run(t, b.Machine, g, 200*time.Second, func(n int) {
			least = min(least, k.rate())
			if n < 50 || n > 60 {
				if n > 150 {
					k.busy, idle = false, uint64(k.rate())
				}
				return
			}
			p := b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}})
			if s := must(b.Status("eth1")); !p.Equal || s.Interfaces[0].Drift != nil || float64(s.Interfaces[0].Root.Rate) != k.rate() {
				t.Errorf("%+v, %+v", p.Steps, s)
			}
			if e := b.reconcile(t.Context(), Desired{Interfaces: []Interface{cakeAt("9mbit")}})["eth1"]; e.What != EventGood {
				t.Errorf("%+v", e)
			}
		})
		slow := 0
		for _, r := range told[30:150] {
			if r.Delay.Duration > 100*ms {
				slow++
			}
		}
		if least > 5e6 || least < 4e6 || slow > 60 {
			t.Errorf("down to %f, slow %d times", least, slow)
		}
		if idle <= uint64(least) || k.rate() != 9e6 || b.snapshot() != stood {
			t.Errorf("then %d, at the end %f\n%s", idle, k.rate(), b.snapshot())
		}
	})
}

// Who dies while the rate is low leaves a drift, that a watch mends.
func TestGaugeKilled(t *testing.T) {
	gauged(t, func(t *testing.T, b box, k *busyKernel, _ Gauge) {
		if changed, err := b.steer(t.Context(), "eth1", 2e6, 3e6); !changed || err != nil {
			t.Fatal(changed, err)
		}
		d := Desired{Interfaces: []Interface{cakeAt("9mbit")}}
		if e := b.reconcile(t.Context(), d)["eth1"]; e.What != EventGood {
			t.Errorf("%+v", e)
		}
		if err := k.SetRoot(k.index("eth1"), cakeAt("1mbit").Root); err != nil {
			t.Fatal(err)
		}
		if s := must(b.Status("eth1")); len(s.Interfaces[0].Drift) != 1 {
			t.Errorf("lower than allowed: %+v", s)
		}
		if err := k.SetRoot(k.index("eth1"), cakeAt("3mbit").Root); err != nil {
			t.Fatal(err)
		}
		time.Sleep(steeredFor + time.Second)
		if s := must(b.Status("eth1")); len(s.Interfaces[0].Drift) != 1 || !strings.Contains(s.Interfaces[0].Drift[0], "rate 3mbit, want 9mbit") {
			t.Errorf("%+v", s)
		}
		if e := b.reconcile(t.Context(), d)["eth1"]; e.What != EventApplied || k.rate() != 9e6 {
			t.Errorf("%+v, %f", e, k.rate())
		}
	})
}

// What is not ours, was changed by others or waits for confirmation is left alone.
func TestGaugeLeavesAlone(t *testing.T) {
	for name, change := range map[string]func(b box, k *busyKernel) error{
		"another rate": func(b box, k *busyKernel) error { return k.fakeKernel.SetRoot(k.index("eth1"), cakeAt("1mbit").Root) },
		"another flag": func(b box, k *busyKernel) error {
			s := cakeAt("9mbit").Root
			s.Cake.Wash = true
			return k.fakeKernel.SetRoot(k.index("eth1"), s)
		},
		"nothing":      func(b box, k *busyKernel) error { return k.DeleteRoot(k.index("eth1")) },
		"no interface": func(b box, k *busyKernel) error { k.remove("eth1"); return nil },
		"came back new": func(b box, k *busyKernel) error {
			k.remove("eth1")
			return k.fakeKernel.SetRoot(k.add("eth1"), cakeAt("9mbit").Root)
		},
		"waits": func(b box, k *busyKernel) error {
			d := Desired{Interfaces: []Interface{cakeAt("8mbit")}}
			_, err := b.Apply(context.Background(), Make(d, must(b.Observe("eth1")), false), time.Minute)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			gauged(t, func(t *testing.T, b box, k *busyKernel, _ Gauge) {
				if err := change(b, k); err != nil {
					t.Fatal(err)
				}
				stood := b.picture() + b.snapshot()
				if changed, err := b.steer(t.Context(), "eth1", 2e6, 3e6); changed || err != nil || b.picture()+b.snapshot() != stood {
					t.Error(changed, err, b.picture())
				}
			})
		})
	}
}

// Without a state file nobody knows what the rate was, and it stays.
func TestGaugeWithoutState(t *testing.T) {
	gauged(t, func(t *testing.T, b box, k *busyKernel, g Gauge) {
		if err := b.save(interfaceFile("eth1"), nil); err != nil {
			t.Fatal(err)
		}
		g.Min = 2e6
		told := k.run(t, b.Machine, g, 30*time.Second, func(int) {})
		if last := told[len(told)-1]; k.rate() != 9e6 || last.TooHigh == "" || last.Next != 0 {
			t.Errorf("%f, %+v", k.rate(), last)
		}
	})
}

// Errors are told, and end nothing.
func TestGaugeErrors(t *testing.T) {
	gauged(t, func(t *testing.T, b box, k *busyKernel, g Gauge) {
		g.Min, k.fails = 2e6, errFake
		told := k.run(t, b.Machine, g, 60*time.Second, func(n int) {
			if n == 40 {
				k.fails = nil
			}
		})
		failed, changed := 0, 0
		for _, r := range told {
			if strings.Contains(r.Error, errFake.Error()) {
				failed++
			}
			if r.Next != 0 {
				changed++
			}
		}
		if failed == 0 || changed == 0 {
			t.Errorf("failed %d times, changed %d times", failed, changed)
		}
		g.Probe = func(context.Context) (time.Duration, error) { return 0, errors.New("no route") }
		for _, r := range k.run(t, b.Machine, g, 20*time.Second, func(int) {}) {
			if r.Next != 0 || r.TooHigh != "" || r.Asked != strings.Contains(r.Error, "no route") {
				t.Errorf("%+v", r)
			}
		}
	})
}
