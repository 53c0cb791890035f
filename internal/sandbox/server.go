package sandbox

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Options tune a [Server]. The zero value is for very large runs.
type Options struct {
	// Trace keeps every applied key as text, for [Server.Applied]. Without it
	// the server holds 32 bytes for each key, however long the key.
	Trace bool
}

// Stats are counts since the server was made.
type Stats struct {
	Requests    int64         `json:"requests"`
	Applied     int64         `json:"applied"`       // writes, so with forgotten keys more than records
	Duplicates  int64         `json:"duplicates"`    // same key and body again; answered, not applied
	Conflicts   int64         `json:"conflicts"`     // same key with another body
	Lost        int64         `json:"lost"`          // handled, then closed without an answer
	Resets      int64         `json:"resets"`        // cut before anything was applied
	GoneClients int64         `json:"gone_clients"`  // gave up before the call was handled; nothing applied
	MaxInFlight int64         `json:"max_in_flight"` // most calls inside the handler at once
	ByStatus    map[int]int64 `json:"by_status"`     // answers written
}

// Server is the stand-in API. It answers at every path. It is safe for
// concurrent use and needs no closing.
type Server struct {
	scenario Scenario
	limits   []*rate.Limiter // one for each rule; nil where the rule is no limit
	ledger   ledger
	inFlight atomic.Int64

	mu    sync.Mutex
	stats Stats          // guarded by mu
	start time.Time      // guarded by mu; of the first call
	trace map[string]int // guarded by mu; nil when off
}

// New returns a server that follows s and traces applied keys.
func New(s Scenario) *Server { return NewWith(s, Options{Trace: true}) }

// NewWith returns a server that follows s.
func NewWith(s Scenario, o Options) *Server {
	srv := &Server{scenario: s, limits: make([]*rate.Limiter, len(s.rules))}
	srv.ledger = ledger{keys: map[keyHash]entry{}, forget: s.forgetKeys}
	srv.stats.ByStatus = map[int]int64{}
	if o.Trace {
		srv.trace = map[string]int{}
	}
	for i, r := range s.rules {
		if r.verb == verbLimit {
			srv.limits[i] = rate.NewLimiter(r.perSecond(), r.burst)
		}
	}
	return srv
}

func (r rule) perSecond() rate.Limit {
	seconds := map[string]float64{"second": 1, "minute": 60, "hour": 3600}[r.per]
	return rate.Limit(float64(r.rate) / seconds)
}

// Stats returns the counts so far.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.stats
	c.ByStatus = maps.Clone(c.ByStatus)
	return c
}

// Applied returns every applied key and how often it was applied, or nil
// without Options.Trace.
func (s *Server) Applied() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.trace)
}

// Hits returns how many calls carried the key, applied or not.
func (s *Server) Hits(key string) int { return int(s.ledger.get(hashKey(key)).hits) }

// TimesApplied returns how often the key was applied; it needs no trace.
func (s *Server) TimesApplied(key string) int { return int(s.ledger.get(hashKey(key)).applied) }

// call is one request as the rules see it.
type call struct {
	key     string // "" when missing
	hash    keyHash
	attempt uint64 // calls with this key so far, this one included
	number  uint64 // calls of all keys so far, this one included
	now     time.Time
	elapsed time.Duration // since the first call
}

// arrive counts the call in.
func (s *Server) arrive(r *http.Request) call {
	c := call{key: keyOf(r), now: time.Now()}
	flying := s.inFlight.Add(1)
	s.mu.Lock()
	if s.stats.Requests++; s.stats.Requests == 1 {
		s.start = c.now
	}
	c.number = uint64(s.stats.Requests)
	c.elapsed = max(0, c.now.Sub(s.start))
	s.stats.MaxInFlight = max(s.stats.MaxInFlight, flying)
	s.mu.Unlock()
	if c.key == "" {
		c.attempt = c.number
		return c
	}
	c.hash = hashKey(c.key)
	c.attempt = uint64(s.ledger.hit(c.hash))
	return c
}

// keyOf returns the key, taken out of the quotes of the draft standard's
// string form if it has them, so that both forms name the same write.
func keyOf(r *http.Request) string {
	key := r.Header.Get("Idempotency-Key")
	if len(key) >= 2 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		key = key[1 : len(key)-1]
	}
	return key
}

// count adds to one of the counters of Stats.
func (s *Server) count(add func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.stats)
}
