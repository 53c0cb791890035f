// Package uploader delivers a stream of records: one reader, a bounded
// queue, workers, records parked while they wait, and a summary that balances.
//
// A record is in exactly one place at a time: the reader's hand, the queue, a
// worker, or the parked heap. The admission window bounds all of them together,
// so memory does not grow with the input. A worker holds its permit only while
// a request is in flight; a record that has to wait is parked and its worker
// serves another.
//
// The package declares the parts it needs (Feed, Journal, Sender, Breaker, Gate,
// Budget, Limiter, DeadLetters, Observer) and imports none of their
// implementations.
package uploader

import (
	"context"
	"time"

	"trafficup/internal/envelope"
)

// Place says where a record was read.
type Place struct {
	File   string `json:"file"`
	Line   int64  `json:"line"`   // physical, from 1
	Offset int64  `json:"offset"` // bytes into the decompressed stream
	SHA256 string `json:"sha256"` // of the file as stored; empty for stdin
}

// Record is one valid record on its way.
type Record struct {
	envelope.Record
	Place      Place
	BodySum    [32]byte // SHA-256 of Body; the run computes it
	Generation int      // how often it has been replayed
	Ref        int64    // the feed's own mark, handed back in the event of the record's end; 0: none
	Before     []Try    // attempts of earlier generations, oldest first
}

// Item is what a Feed yields: a record, a reject, or the fault of a whole file.
type Item struct {
	Record  Record
	Invalid *Invalid
	Fault   error // a file that could not be read to its end; reading goes on with the next
}

// Invalid is a record that must not be sent.
type Invalid struct {
	SpotID, Key string // as far as they could be read
	Member      string
	Reason      string
	Offset      int64  // of the fault inside the record, -1 when unknown
	Raw         []byte // the record, or a sample of one that is too long
	Place       Place
	Generation  int
}

// Feed yields the input. Next returns io.EOF at the end and is called from one
// goroutine. What it returns belongs to the caller.
type Feed interface {
	Next(ctx context.Context) (Item, error)
}

// Verdict is what an answer says about the path it came by, not about the record.
type Verdict int

// The three verdicts. A neutral one neither heals nor harms the path.
const (
	VerdictOK Verdict = iota
	VerdictFail
	VerdictNeutral
)

// Class is what an answer means for the record.
type Class int

// The classes of an answer.
const (
	ClassAcked    Class = iota
	ClassRetry          // same key, same bytes, later
	ClassRejected       // this record, for good
	ClassAuth           // the login, not the record: the run stops
	ClassConfig         // the configuration, not the record: the run stops
)

// Outcome is the end of one attempt.
type Outcome struct {
	Class         Class
	Verdict       Verdict
	Status        int // 0 when no answer came
	Receipt       string
	Problem       string
	RetryAfter    time.Duration
	HasRetryAfter bool
	Throttled     bool // 429, or 503 with Retry-After
	Renewed       bool // 401, and there is another token now: the record goes again
	NoToken       bool // there is none now; RetryAfter says when to ask again
	Local         bool // this machine has run out of something; nothing was sent
	NoNetwork     bool // this machine has no network; nothing was sent
	Wrote         bool // the request may have reached the server
	Err           error
	Duration      time.Duration
	Link          *Link // what the kernel says of the connection; nil: nothing
}

// Link is what was measured of the connection an answer came by: the counts
// since the answer before it.
type Link struct {
	RTT, RTTVar, MinRTT         time.Duration
	Segments, Retransmits, Lost uint64
}

// Attempt is one request to be made.
type Attempt struct {
	Key     string
	Body    []byte
	Number  int // from 1
	Timeout time.Duration
}

// Sender makes one attempt and writes at most one request.
type Sender interface {
	Send(ctx context.Context, a Attempt) Outcome
}

// Sight is what a Journal makes of a record.
type Sight int

// The sights.
const (
	SightNew       Sight = iota // to be sent, again perhaps
	SightDuplicate              // met in this run, or acked by an earlier one
	SightSameKey                // its key stands for other content
	SightSameSpot               // its station, air_date and spot_id came under another key
)

// Sighting is what a Journal knows of a record, and by which earlier one.
type Sighting struct {
	Sight   Sight
	Place   Place  // file and line of the earlier record
	Run     string // in which it was met; empty: this one
	Again   bool   // an earlier run may have sent the record
	Refused bool   // an earlier run had it rejected, with this content
}

// Attempted is one attempt that was made.
type Attempted struct {
	Number          int // from 1
	SentAt, EndedAt time.Time
	Path            string
	Outcome         Outcome
	Cut             bool          // the run's deadline ended it: no news of the path
	RateWait        time.Duration // that this side's limits held it back before
	GateWait        time.Duration // that the server asked for before
}

// Ended is how a record ended that was not acked.
type Ended struct {
	Bucket Bucket
	Reason string
	Wrote  bool // a request for it may have reached the server, in this run or earlier
}

// Journal is the memory of all runs. Look is called by one goroutine, Intend by
// another, Answer and End by many. A record is intended before it is sent, and
// handled when done was called without error; done may be called by any
// goroutine, and must not block.
type Journal interface {
	Look(*Record) Sighting
	Intend([]*Record) error // returns when the intents are on disk
	Answer(r *Record, a Attempted, done func(error))
	End(r *Record, e Ended, done func(error))
}

// Breaker judges a path. Allow returns done, to be called once with the
// verdict, or the time at which to ask again.
type Breaker interface {
	Allow(now time.Time) (done func(Verdict, time.Time), retryAt time.Time, ok bool)
}

// Gate closes a path for everyone until a time the server named.
type Gate interface {
	Close(until, now time.Time)
	Delay(now time.Time, u float64) time.Duration
}

// Budget bounds retries by successes.
type Budget interface {
	Spend() bool
	Earn()
	Remaining() float64
}

// Limiter holds the configured rate. Wait returns ctx's error, or its own when
// the wait would pass ctx's deadline.
type Limiter interface {
	Wait(ctx context.Context) error
}

// Permits bounds the requests in flight on a path by what it bears. Acquire
// returns ctx's error when that ends first; Release hears what came of it, and
// whether the gate was closed meanwhile.
type Permits interface {
	Acquire(ctx context.Context) error
	Release(a Attempted, gated bool)
}

// Path is one way to the API.
type Path struct {
	Name    string
	Sender  Sender
	Breaker Breaker
	Gate    Gate
	Budget  Budget
	Rate    Limiter // configured; nil: none
	Limiter Limiter // what the path's server bears; nil: whatever comes
	Permits Permits // nil: as many as there are workers
}

// Chooser orders the paths for the next request, by their index, and hears what
// came of it. Order leaves out a path that must not be used, as one that is closed;
// trial tells that the first is only to be tried, and another would be preferred:
// Closed returns the window of maintenance that closes it at now.
type Chooser interface {
	Order(now time.Time, u float64) (order []int, trial bool)
	Closed(path int, now time.Time) (from, to time.Time, ok bool)
	Refused(path int, retryAt, now time.Time) // by its breaker
	Done(path int, v Verdict, bytes int, now time.Time)
}

// Hold keeps a run from starting anything, by whatever path, for as long as it
// likes. why is the same for as long as it lasts. It is asked often, by many
// goroutines, and returns at once.
type Hold interface {
	Held(now time.Time) (why string, held bool)
}

// Waits computes how long a record waits after its n-th failure; u is uniform
// in [0, 1).
type Waits interface {
	Wait(failures int, u float64) time.Duration
}

// DeadLetters keeps what could not be delivered. Write returns once the letter
// is on disk; an error stops the run.
type DeadLetters interface {
	Write(Letter) error
}

// Letter is one record that was not delivered, and why.
type Letter struct {
	Reason         Bucket
	Invalid        *Invalid // set for BucketInvalid
	Record         *Record  // set for all others
	Status         int
	Problem        string
	History        []Try
	OutcomeUnknown bool
	NotBefore      time.Time
}

// Try is one attempt in a record's history.
type Try struct {
	At     time.Time `json:"at"`
	Path   string    `json:"path"`
	Status int       `json:"status"`
	Error  string    `json:"error,omitzero"`
	WaitMS int64     `json:"wait_ms"`
}

// Bucket is where a record ends; the buckets of a run add up to what was read.
type Bucket string

// The buckets.
const (
	Acked     Bucket = "acked"
	Duplicate Bucket = "duplicate"
	Invalids  Bucket = "invalid"
	Rejected  Bucket = "rejected"
	Conflict  Bucket = "conflict"
	Exhausted Bucket = "exhausted"
	Deferred  Bucket = "deferred"
	Halted    Bucket = "halted"
	Unknown   Bucket = "unknown"
)

// Event is something worth a log line.
type Event struct {
	At      time.Time
	Level   Level
	SpotID  string // empty when no record is meant
	Message string
	Bucket  Bucket // set when a record reached its end
	Line    int64
	File    string
	Key     string
	Path    string
	Attempt int
	Status  int
	Wait    time.Duration
	Ref     int64 // of the record, as its feed set it
}

// Level is the gravity of an Event.
type Level int

// The levels of the audit log.
const (
	Debug Level = iota
	Info
	Warning
	Error
	Critical
)

// Observer hears of every event. It is called from many goroutines and must
// return at once.
type Observer interface {
	Event(Event)
}

// Config bounds a run. Zero values are not defaulted: the command decides.
type Config struct {
	Concurrency       int
	QueueSize         int
	MaxAttempts       int           // calls for one record
	MaxThrottles      int           // of these, answers that were a throttle only, on top of MaxAttempts
	RequestTimeout    time.Duration // one attempt
	RetryAfterCap     time.Duration // longer waits defer the record
	HaltAfter         time.Duration // all paths open that long: halt
	Ramp              time.Duration // at the start, between twice as many requests in flight and as many again; 0: none
	IntakeGap         time.Duration // between new records while the retry budget is empty
	Deadline          time.Time     // zero: none
	Reserve           time.Duration // of the time to the deadline, for winding down
	NearEnd           time.Duration // so long before the deadline new records go before hopeless retries
	PoisonStop        int           // rejections alike in a row that stop the run; 0: none do
	Waits             Waits
	AcceptCorrections bool // send a spot again under another key
}

// Parts are what a run works with.
type Parts struct {
	Feed        Feed
	Journal     Journal
	Paths       []Path  // in order of preference
	Chooser     Chooser // nil: the first whose breaker lets a request through
	Hold        Hold    // nil: nothing holds the run
	Limiter     Limiter // nil: unlimited
	DeadLetters DeadLetters
	Observer    Observer
	Meter       func(Attempted) // hears of every attempt; nil: nobody
	// Waited hears of waits on a path that the end of the run cut short, so that
	// no attempt tells of them; nil: nobody.
	Waited func(path string, rateWait, gateWait time.Duration)
	// Skew is what times by this machine's clock lack to be the right ones, for
	// people; nil: nothing.
	Skew func() time.Duration
	Rand func() float64 // uniform [0, 1), safe for concurrent use
}
