package retry

import (
	"math"
	"sync"
)

// Budget is a bucket of retry tokens, safe for concurrent use. It starts with
// floor tokens; each success earns a share of one, each retry costs one. Over
// its life it therefore grants at most floor + ratio*successes retries.
type Budget struct {
	earn, most int64 // micro-tokens

	mu   sync.Mutex
	left int64 // guarded by mu; micro-tokens
}

// token is one retry. Counted in integers, because ten times 0.1 added up as
// floats is less than one.
const token = 1_000_000

// NewBudget returns a budget that earns ratio tokens a success, starts with
// floor of them and holds at most ten times floor, but room for one at least:
// with a floor of 0 retries still have to be earnable. Negative values and NaN
// count as 0.
func NewBudget(ratio float64, floor int) *Budget {
	start := int64(min(max(floor, 0), math.MaxInt32)) * token
	b := &Budget{left: start, most: max(10*start, token)}
	if ratio > 0 {
		b.earn = int64(math.Round(min(ratio*token, float64(b.most))))
	}
	return b
}

// Spend takes a token for one retry; false means there is none to take.
func (b *Budget) Spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < token {
		return false
	}
	b.left -= token
	return true
}

// Earn credits one success.
func (b *Budget) Earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+b.earn, b.most)
}

// Remaining returns the tokens left, parts of one included.
func (b *Budget) Remaining() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return float64(b.left) / token
}
