package retry

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

func TestBudgetEarnsAWholeTokenInTenSuccesses(t *testing.T) {
	b := NewBudget(0.1, 0)
	for range 9 {
		b.Earn()
	}
	if b.Spend() {
		t.Fatal("nine tenths bought a retry")
	}
	b.Earn()
	if !b.Spend() || b.Spend() {
		t.Fatalf("ten successes have to buy exactly one retry, %v left", b.Remaining())
	}
}

func TestBudgetOddArguments(t *testing.T) {
	for _, b := range []*Budget{NewBudget(math.NaN(), -3), NewBudget(-1, 0)} {
		b.Earn()
		if b.Spend() || b.Remaining() != 0 {
			t.Errorf("%v left, want 0", b.Remaining())
		}
	}
	b := NewBudget(math.Inf(1), math.MaxInt)
	b.Earn()
	if !b.Spend() || b.Remaining() < 0 {
		t.Errorf("%v left", b.Remaining())
	}
}

// The promise of the budget: retries <= floor + ratio*successes, and a store of
// unused tokens that stays bounded.
func TestBudgetBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		floor := rapid.IntRange(0, 20).Draw(t, "floor")
		percent := rapid.IntRange(0, 300).Draw(t, "percent")
		b := NewBudget(float64(percent)/100, floor)
		earned, spent := 0, 0
		for _, success := range rapid.SliceOfN(rapid.Bool(), 0, 500).Draw(t, "calls") {
			if success {
				b.Earn()
				earned++
			} else if b.Spend() {
				spent++
			}
			if spent*100 > floor*100+percent*earned {
				t.Fatalf("%d retries after %d successes", spent, earned)
			}
			if r := b.Remaining(); r < 0 || r > float64(max(1, 10*floor)) {
				t.Fatalf("%v tokens held", r)
			}
		}
	})
}

func TestBudgetConcurrent(t *testing.T) {
	b := NewBudget(0, 100)
	var granted atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				if b.Spend() {
					granted.Add(1)
				}
				b.Earn()
			}
		})
	}
	wg.Wait()
	if granted.Load() != 100 {
		t.Errorf("%d granted, want 100", granted.Load())
	}
}
