package sharedlimit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	batchEvery = 5 * time.Second
	sampleSize = 32 // latencies of a batch

	// An hour of eight nodes on two paths is 11,520 batches of about 200 bytes.
	streamEntries = 16000
	longestPath   = 200 // bytes of a name
	streamTTL     = 2 * time.Hour
	pageSize      = 1000
)

// Batch is what one node measured on a path in some seconds.
type Batch struct {
	At     time.Time // on Redis' clock
	Calls  int
	Sample []time.Duration // of these calls, taken at random
}

// Recorder gathers how long calls took and adds a sample of it to the stream of
// the API, in the background. Safe for concurrent use.
type Recorder struct {
	on    Redis
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	batches map[string]*Batch // guarded by mu; by path
	dropped int64             // guarded by mu
}

// NewRecorder returns a Recorder that adds to on. Close has to follow.
func NewRecorder(on Redis) *Recorder {
	ctx, stop := context.WithCancel(context.Background())
	r := &Recorder{on: on, stop: stop, ended: make(chan struct{}), batches: map[string]*Batch{}}
	go r.run(ctx)
	return r
}

// Add takes in one call on a path. It never waits for Redis.
func (r *Recorder) Add(path string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.batches[path]
	if b == nil {
		b = &Batch{Sample: make([]time.Duration, 0, sampleSize)}
		r.batches[path] = b
	}
	b.Calls++
	took = min(max(took, 0), time.Hour) // as parseBatch wants it
	if len(b.Sample) < sampleSize {
		b.Sample = append(b.Sample, took)
	} else if i := rand.IntN(b.Calls); i < sampleSize {
		b.Sample[i] = took // every call is in it with the same chance
	}
}

// Dropped is how many calls never came to the stream, as Redis did not answer.
func (r *Recorder) Dropped() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Close sends what is there, once, and ends the sending.
func (r *Recorder) Close() {
	r.stop()
	<-r.ended
}

func (r *Recorder) run(ctx context.Context) {
	defer close(r.ended)
	tick := time.NewTicker(batchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.send()
		case <-ctx.Done():
			r.send()
			return
		}
	}
}

// send adds the batches to the stream; those that do not get there are lost.
func (r *Recorder) send() {
	r.mu.Lock()
	batches := r.batches
	r.batches = map[string]*Batch{}
	r.mu.Unlock()
	if len(batches) == 0 {
		return
	}
	args := []any{streamEntries, streamTTL.Milliseconds()}
	calls := 0
	for path, b := range batches {
		args = append(args, path, b.text())
		calls += b.Calls
	}
	if _, err := r.on.Eval(context.Background(), addScript, latencyKeys(r.on), args...); err != nil {
		r.mu.Lock()
		r.dropped += int64(calls)
		r.mu.Unlock()
	}
}

// Reader follows the stream of an API. It is for one goroutine.
type Reader struct {
	on    Redis
	last  string // entry read last
	paths map[string][]Batch
}

// NewReader returns a Reader of what Recorders add to on.
func NewReader(on Redis) *Reader { return &Reader{on: on, paths: map[string][]Batch{}} }

// Read gets what is new and returns the batches of the last hour by path, valid
// until the next Read, and the time on Redis' clock. With an error they are what
// is known so far, and the time is zero. Several calls to Redis are made if there
// is much.
func (r *Reader) Read(ctx context.Context) (map[string][]Batch, time.Time, error) {
	for {
		list, err := r.on.Eval(ctx, readScript, latencyKeys(r.on), r.last, time.Hour.Milliseconds(), pageSize)
		if err != nil {
			return r.paths, time.Time{}, err
		}
		us, ok := int64(0), false
		if len(list) > 0 {
			us, ok = list[0].(int64)
		}
		if !ok || len(list)%3 != 1 {
			return r.paths, time.Time{}, fmt.Errorf("latencies on redis: answer of %d values", len(list))
		}
		for entry := range slices.Chunk(list[1:], 3) {
			r.take(entry)
		}
		if len(list) < 3*pageSize {
			now := time.UnixMicro(us)
			r.forget(now.Add(-time.Hour))
			return r.paths, now, nil
		}
	}
}

// take takes in an id, a path and a batch. An entry that cannot be read is of
// another version; the rest counts.
func (r *Reader) take(entry []any) {
	id, _ := entry[0].(string)
	path, _ := entry[1].(string)
	text, _ := entry[2].(string)
	r.last = id
	if b, ok := parseBatch(id, text); ok && path != "" && len(path) <= longestPath {
		r.paths[path] = append(r.paths[path], b)
	}
}

func (r *Reader) forget(before time.Time) {
	for path, list := range r.paths {
		n := 0
		for n < len(list) && list[n].At.Before(before) {
			n++
		}
		if r.paths[path] = list[n:]; n == len(list) {
			delete(r.paths, path)
		}
	}
}

func latencyKeys(on Redis) []string { return []string{on.Key("latency")} }

// text is the number of calls and then the sample, in us.
func (b *Batch) text() string {
	var s strings.Builder
	s.WriteString(strconv.Itoa(b.Calls))
	for _, d := range b.Sample {
		s.WriteByte(' ')
		s.WriteString(strconv.FormatInt(d.Microseconds(), 10))
	}
	return s.String()
}

// parseBatch reads an entry of the stream. Its id begins with the time in ms.
func parseBatch(id, text string) (Batch, bool) {
	ms, _, _ := strings.Cut(id, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	fields := strings.Fields(text)
	if err != nil || len(fields) < 2 || len(fields) > sampleSize+1 {
		return Batch{}, false
	}
	b := Batch{At: time.UnixMilli(at)}
	if b.Calls, err = strconv.Atoi(fields[0]); err != nil || b.Calls < len(fields)-1 {
		return Batch{}, false
	}
	for _, f := range fields[1:] {
		us, err := strconv.ParseInt(f, 10, 64)
		if err != nil || us < 0 || us > time.Hour.Microseconds() {
			return Batch{}, false
		}
		b.Sample = append(b.Sample, time.Duration(us)*time.Microsecond)
	}
	return b, true
}
