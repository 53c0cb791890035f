package redis

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"trafficup/internal/breaker"
)

const (
	shortestTTL = time.Hour       // of a state that nobody changes
	carry       = 5 * time.Second // how long an absence may last for its changes to count
	maxState    = 4096            // bytes; a state is a few hundred
)

// Breakers is a [breaker.Store] shared by everybody who uses the same Redis and
// names the same API. Its clock is that of Redis. A state expires when nobody
// has changed it for a while; one that is lost is a closed breaker.
//
// While Redis is away the store goes on in memory from the last state known,
// and calls return an [*Error] with it. That state needs no further bound on its
// age: an open breaker opens for a probe after its open time, a probe's lease
// ends and a count lapses with its window, whoever set them. When Redis is back,
// what an absence of up to five seconds brought is written to it. What a longer
// one brought is forgotten and the shared state holds: the trouble may have been
// this machine's own. While the machine knows that its own uplink is bad, it
// changes nothing for the others, and what it found is forgotten afterwards.
type Breakers struct {
	c       *Client
	ttl     time.Duration
	channel string
	apart   func() bool

	mu      sync.Mutex
	entries map[string]*entry // guarded by mu
	ahead   time.Duration     // guarded by mu; Redis' clock minus ours
}

var _ breaker.Store = (*Breakers)(nil)

// entry is one breaker. busy is held by the one update that may be under way;
// the rest is guarded by Breakers.mu.
type entry struct {
	busy  chan struct{}
	asked time.Time // when its state was last wanted

	known  bool // shared has been read
	shared document
	count  int   // of times that shared was set
	err    error // of the last try to read it

	local *breaker.State // made while Redis was away; nil when there is none
	since time.Time      // of the first of those
	apart bool           // local comes from a time when the uplink was bad
}

// document is what a key holds and what a change publishes.
type document struct {
	Version  int           `json:"v"`
	Breaker  string        `json:"breaker"`
	Revision uint64        `json:"rev"` // changes with each write
	State    breaker.State `json:"state"`
	raw      string
}

// Breakers returns the store, which works until the client is closed. openMax is
// the longest time a breaker stays open; states are kept for longer. apart, which
// may be nil, tells that this machine's uplink is bad; it is called often.
func (c *Client) Breakers(openMax time.Duration, apart func() bool) *Breakers {
	if apart == nil {
		apart = func() bool { return false }
	}
	b := &Breakers{
		c: c, ttl: max(2*openMax, shortestTTL), channel: c.Key("breakers"), apart: apart,
		entries: make(map[string]*entry),
	}
	c.work.Go(b.watch)
	return b
}

// Near returns the same store as the upload uses it: Load costs no round trip
// but returns the copy that others' changes are published to and that is read
// again in the background every 250 ms while it is in use.
func (b *Breakers) Near() breaker.Store { return near{b} }

type near struct{ *Breakers }

func (n near) Load(ctx context.Context, key string) (breaker.State, error) {
	e := n.entry(key)
	n.mu.Lock()
	s, known, err := e.current(), e.known, e.err
	n.mu.Unlock()
	if !known {
		return n.Breakers.Load(ctx, key)
	}
	return s, err
}

// Load returns the state under key.
func (b *Breakers) Load(ctx context.Context, key string) (breaker.State, error) {
	return b.read(ctx, key, b.entry(key))
}

func (b *Breakers) read(ctx context.Context, key string, e *entry) (breaker.State, error) {
	count := b.count(e)
	r, err := b.exchange(ctx, key)
	apart := b.apart()
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.err = err; err == nil {
		e.see(r.held, count, apart)
	}
	return e.current(), err
}

// Update is [breaker.Store]'s.
func (b *Breakers) Update(ctx context.Context, key string, fn func(breaker.State, time.Time) breaker.State) (breaker.State, error) {
	ctx, cancel := context.WithTimeout(ctx, b.c.timeout)
	defer cancel()
	e := b.entry(key)
	select {
	case e.busy <- struct{}{}:
		defer func() { <-e.busy }()
	case <-ctx.Done():
		return b.goOn(e, fn, false), explain(ctx.Err())
	}
	if b.apart() {
		_, err := b.read(ctx, key, e)
		return b.goOn(e, fn, true), err
	}
	next, err := b.change(ctx, key, e, fn)
	if err != nil {
		return b.goOn(e, fn, false), err
	}
	return next, nil
}

// change applies fn to what Redis holds until nobody was faster.
func (b *Breakers) change(ctx context.Context, key string, e *entry, fn func(breaker.State, time.Time) breaker.State) (breaker.State, error) {
	count := b.count(e)
	r, err := b.exchange(ctx, key)
	for err == nil {
		b.mu.Lock()
		e.see(r.held, count, false)
		from := r.held.State
		if e.local != nil {
			from = *e.local
		}
		b.mu.Unlock()
		next := fn(from, r.clock)
		if next != r.held.State {
			count = b.count(e)
			if r, err = b.swap(ctx, key, r.held, next); err != nil || !r.done {
				continue
			}
		}
		b.mu.Lock()
		e.see(r.held, count, false)
		e.local, e.err = nil, nil
		b.mu.Unlock()
		return next, nil
	}
	return breaker.State{}, err
}

// goOn applies fn to the last state known, in memory.
func (b *Breakers) goOn(e *entry, fn func(breaker.State, time.Time) breaker.State, apart bool) breaker.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := fn(e.current(), time.Now().Add(b.ahead).Round(0).UTC())
	if s == e.current() {
		return s
	}
	if e.local == nil {
		e.since, e.apart = time.Now(), false
	}
	e.local, e.apart = &s, e.apart || apart
	return s
}

// see takes d for what Redis holds, unless it was overtaken on its way, and
// settles what becomes of local changes. count is that from before it was asked
// for. requires mu.
func (e *entry) see(d document, count int, apart bool) {
	if e.count != count && d.Revision < e.shared.Revision {
		return
	}
	e.shared, e.known = d, true
	e.count++
	if e.local == nil || e.apart && apart {
		return
	}
	if e.apart || time.Since(e.since) > carry || e.local.Generation < d.State.Generation {
		e.local = nil
	}
}

func (b *Breakers) count(e *entry) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.count
}

// current is the state to go on from. requires mu.
func (e *entry) current() breaker.State {
	if e.local != nil {
		return *e.local
	}
	return e.shared.State
}

func (b *Breakers) entry(key string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[key]
	if e == nil {
		e = &entry{busy: make(chan struct{}, 1)}
		b.entries[key] = e
	}
	e.asked = time.Now()
	return e
}

// swapScript compares and sets. KEYS: the breaker. ARGV: none to read, or the value
// expected, the new one, its time to live in milliseconds, and where to publish
// it. It returns whether it set, what is held now, and the time. Errors are
// returned as they are, not as those of a script. Not being allowed to publish
// is no error: others then see the change when they read.
var swapScript = goredis.NewScript(`
local clock = redis.call('TIME')
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then return held end
held = held or ''
if #ARGV == 0 or ARGV[1] ~= held then return {0, held, clock[1], clock[2]} end
local set = redis.pcall('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if set.err then return set end
redis.pcall('PUBLISH', ARGV[4], ARGV[2])
return {1, ARGV[2], clock[1], clock[2]}
`)

type answer struct {
	done  bool
	held  document
	clock time.Time
}

func (b *Breakers) exchange(ctx context.Context, key string, args ...any) (answer, error) {
	reply, err := b.c.Eval(ctx, swapScript, []string{b.c.Key("breaker", key)}, args...)
	if err != nil {
		return answer{}, err
	}
	parts, _ := reply.([]any)
	if len(parts) != 4 {
		return answer{}, explain(fmt.Errorf("answer of %d parts", len(parts)))
	}
	var r answer
	done, _ := parts[0].(int64)
	r.done = done == 1
	r.clock = clock(parts[2], parts[3])
	held, _ := parts[1].(string)
	if r.held, err = decode(held); err != nil {
		return answer{}, explain(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ahead = time.Until(r.clock)
	return r, nil
}

func clock(sec, usec any) time.Time {
	number := func(v any) int64 {
		s, _ := v.(string)
		n, _ := strconv.ParseInt(s, 10, 64) // TIME is two numbers
		return n
	}
	return time.Unix(number(sec), 1000*number(usec)).UTC()
}

// swap puts next in the place of held.
func (b *Breakers) swap(ctx context.Context, key string, held document, next breaker.State) (answer, error) {
	raw, err := json.Marshal(document{Version: 1, Breaker: key, Revision: held.Revision + 1, State: next})
	if err != nil {
		return answer{}, explain(err)
	}
	return b.exchange(ctx, key, held.raw, string(raw), b.ttl.Milliseconds(), b.channel)
}

// decode reads what a key holds; nothing is the zero document.
func decode(raw string) (document, error) {
	if raw == "" {
		return document{}, nil
	}
	var d document
	if len(raw) > maxState || json.Unmarshal([]byte(raw), &d) != nil || d.Version != 1 {
		return document{}, errForeign
	}
	s := &d.State
	for _, t := range []*time.Time{&s.FirstFailure, &s.OpenUntil, &s.ProbeUntil, &s.Since} {
		*t = t.Round(0).UTC()
	}
	d.raw = raw
	return d, nil
}
