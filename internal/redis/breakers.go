package redis

import (
	"context"
	"crypto/rand"
	"encoding/json/v2"
	"fmt"
	"sync"
	"time"

	"trafficup/internal/breaker"
)

const (
	shortestTTL = time.Hour       // of a state that nobody changes
	carry       = 5 * time.Second // how long an absence may last for its changes to count
	remembered  = time.Minute     // after which a state that Redis has lost is not given back to it
	maxState    = 4096            // bytes; a state is a few hundred
)

// Worth is what this machine's word on a breaker is worth to the others.
type Worth int

// What it may be worth.
const (
	Shared Worth = iota // it counts for all
	Unsure              // not known yet: it is kept back, as while Redis is away
	Own                 // its own uplink is bad: it counts here alone, and is forgotten after
)

// Breakers is a [breaker.Store] shared by everybody who uses the same Redis and
// names the same API. Its clock is that of Redis. A state expires when nobody
// has changed it for a while; one that is lost is given back by whoever has seen
// it in the last minute, and is a closed breaker otherwise.
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
	worth   func(key string) Worth
	me      string // among the others

	mu      sync.Mutex
	entries map[string]*entry // guarded by mu
}

var _ breaker.Store = (*Breakers)(nil)

// entry is one breaker. busy is held by the one update that may be under way;
// the rest is guarded by Breakers.mu.
type entry struct {
	busy  chan struct{}
	asked time.Time // when its state was last wanted

	known  bool // shared has been read
	shared document
	seen   time.Time // when it was
	count  int       // of times that shared was set
	err    error     // of the last try to read it

	local *breaker.State // made while Redis was away; nil when there is none
	since time.Time      // of the first of those
	apart bool           // local comes from a time when the uplink was bad
	kept  kept           // why local is not written, though Redis is there

	others bool // somebody else heard of the last change
}

// document is what a key holds and what a change publishes.
type document struct {
	Version  int           `json:"v"`
	Breaker  string        `json:"breaker"`
	Revision uint64        `json:"rev"`            // changes with each write
	Voter    string        `json:"voter,omitzero"` // whose failures are counted, as long as it is closed
	State    breaker.State `json:"state"`
	raw      string
}

// Breakers returns the store, which works until the client is closed. openMax is
// the longest time a breaker stays open; states are kept for longer. worth tells
// what this machine's word on a breaker is worth, nil that it counts for all; it is
// called often.
func (c *Client) Breakers(openMax time.Duration, worth func(key string) Worth) *Breakers {
	if worth == nil {
		worth = func(string) Worth { return Shared }
	}
	b := &Breakers{
		c: c, ttl: max(2*openMax, shortestTTL), channel: c.Key("breakers"), worth: worth, me: rand.Text()[:10],
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
	worth := b.worth(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.err = err; err == nil {
		e.see(r.held, count, worth)
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
	if worth := b.worth(key); worth != Shared || b.keptBack(e) {
		_, err := b.read(ctx, key, e)
		return b.goOn(e, fn, worth == Own), err
	}
	next, err := b.change(ctx, key, e, fn)
	switch {
	case err == errKept:
		return b.keep(e, fn), nil
	case err != nil:
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
		e.see(r.held, count, Shared)
		from := r.held.State
		if e.local != nil {
			from = *e.local
		}
		b.mu.Unlock()
		next := fn(from, r.clock)
		if next != r.held.State {
			if b.mine(e, r.held, next) {
				return breaker.State{}, errKept
			}
			count = b.count(e)
			if r, err = b.swap(ctx, key, r.held, next); err != nil || !r.done {
				continue
			}
		}
		b.mu.Lock()
		e.see(r.held, count, Shared)
		e.local, e.err, e.kept = nil, nil, kept{}
		if r.done {
			e.others = r.heard > 1 // this machine hears it, too
		}
		b.mu.Unlock()
		return next, nil
	}
	return breaker.State{}, err
}

// goOn applies fn to the last state known, in memory.
func (b *Breakers) goOn(e *entry, fn func(breaker.State, time.Time) breaker.State, apart bool) breaker.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := fn(e.current(), b.c.now())
	if s == e.current() {
		return s
	}
	if e.local == nil {
		e.since, e.apart = time.Now(), false
	}
	e.local, e.apart = &s, e.apart || apart
	if e.kept.alone && s.Phase == breaker.Closed {
		e.local, e.kept = nil, kept{} // it got through
	}
	return e.current()
}

// see takes d for what Redis holds, unless it was overtaken on its way, and
// settles what becomes of local changes. count is that from before it was asked
// for. requires mu.
func (e *entry) see(d document, count int, worth Worth) {
	if e.count != count && d.Revision < e.shared.Revision {
		return
	}
	before, lost := e.shared, d.raw == "" && e.shared.raw != "" && time.Since(e.seen) < remembered
	e.shared, e.known, e.seen = d, true, time.Now()
	e.count++
	e.weigh(d)
	switch {
	case e.local == nil || worth == Unsure || e.kept.alone:
	case worth == Own:
		e.apart = true
	case e.apart || time.Since(e.since) > carry || e.local.Generation < d.State.Generation:
		e.local = nil
	}
	if e.local == nil {
		e.kept = kept{}
	}
	if lost && e.local == nil && worth == Shared {
		e.local, e.since, e.apart = &before.State, e.seen, false
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
// it. It returns the time, whether it set, what is held now, and how many heard of it
// (in a cluster: through the same node). Errors are
// returned as they are, not as those of a script. Not being allowed to publish
// is no error: others then see the change when they read.
var swapScript = NewScript("swap", `
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then return held end
held = held or ''
if #ARGV == 0 or ARGV[1] ~= held then return {us, 0, held, 0} end
local set = redis.pcall('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if set.err then return set end
local heard = redis.pcall('PUBLISH', ARGV[4], ARGV[2])
if type(heard) ~= 'number' then heard = 0 end
return {us, 1, ARGV[2], heard}
`)

type answer struct {
	done  bool
	held  document
	heard int64
	clock time.Time
}

func (b *Breakers) exchange(ctx context.Context, key string, args ...any) (answer, error) {
	list, err := b.c.Eval(ctx, swapScript, []string{b.c.Key("breaker", key)}, args...)
	if err != nil {
		return answer{}, err
	}
	if len(list) != 4 {
		return answer{}, explain(fmt.Errorf("answer of %d parts", len(list)))
	}
	us, _ := list[0].(int64) // the script's answer has these types
	done, _ := list[1].(int64)
	held, _ := list[2].(string)
	heard, _ := list[3].(int64)
	r := answer{done: done == 1, heard: heard, clock: time.UnixMicro(us).UTC()}
	if r.held, err = decode(held); err != nil {
		e := explain(fmt.Errorf("%s: %w", b.c.Key("breaker", key), err))
		b.c.complain(e)
		return answer{}, e
	}
	return r, nil
}

// swap puts next in the place of held.
func (b *Breakers) swap(ctx context.Context, key string, held document, next breaker.State) (answer, error) {
	raw, err := encode(key, held.Revision+1, b.voter(held, next), next)
	if err != nil {
		return answer{}, explain(err)
	}
	ttl := b.ttl
	if f := next.Force; f != (breaker.Force{}) {
		ttl = max(ttl, f.Until.Sub(f.At)+shortestTTL)
	}
	return b.exchange(ctx, key, held.raw, raw, ttl.Milliseconds(), b.channel)
}

func encode(key string, revision uint64, voter string, s breaker.State) (string, error) {
	raw, err := json.Marshal(document{Version: 1, Breaker: key, Revision: revision, Voter: voter, State: s})
	return string(raw), err
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
	d.raw = raw
	return d, nil
}
