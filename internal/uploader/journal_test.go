package uploader

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// notebook is a Journal of plain maps. It writes late, as a disk does, and
// notes what came out of order.
type notebook struct {
	mu     sync.Mutex
	keys   map[string]Record
	spots  map[string]Record
	intent map[string]bool
	ended  map[string]string // bucket, by key
	left   int               // entries until the disk is full; 0: it never is
	wrong  []string
}

var errFull = errors.New("no space left on device")

func newNotebook() *notebook {
	return &notebook{keys: map[string]Record{}, spots: map[string]Record{}, intent: map[string]bool{}, ended: map[string]string{}}
}

func (n *notebook) Look(r *Record) Sighting {
	n.mu.Lock()
	defer n.mu.Unlock()
	if o, ok := n.keys[r.Key]; ok {
		if o.BodySum == r.BodySum && o.SpotID == r.SpotID {
			return Sighting{Sight: SightDuplicate, Place: o.Place}
		}
		return Sighting{Sight: SightSameKey, Place: o.Place}
	}
	n.keys[r.Key] = *r
	if r.Station != "" && r.AirDate != "" {
		spot := r.Station + r.AirDate + r.SpotID
		if o, ok := n.spots[spot]; ok {
			return Sighting{Sight: SightSameSpot, Place: o.Place}
		}
		n.spots[spot] = *r
	}
	return Sighting{}
}

// write is requires mu.
func (n *notebook) write() error {
	if n.left == 1 {
		return errFull
	}
	if n.left > 1 {
		n.left--
	}
	return nil
}

func (n *notebook) Intend(records []*Record) error {
	time.Sleep(time.Millisecond)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.write(); err != nil {
		return err
	}
	for _, r := range records {
		if n.intent[r.Key] {
			n.wrong = append(n.wrong, "two intents of "+r.Key)
		}
		n.intent[r.Key] = true
	}
	return nil
}

func (n *notebook) enter(key, bucket string, done func(error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.intent[key] {
		n.wrong = append(n.wrong, "no intent of "+key)
	}
	if n.ended[key] != "" {
		n.wrong = append(n.wrong, key+" goes on after its end")
	}
	err := n.write()
	if err == nil {
		n.ended[key] = bucket
	}
	if done != nil {
		time.AfterFunc(5*time.Millisecond, func() { done(err) })
	}
}

func (n *notebook) Answer(r *Record, a Attempted, done func(error)) {
	bucket := ""
	if a.Outcome.Class == ClassAcked {
		bucket = string(Acked)
	}
	n.enter(r.Key, bucket, done)
}

func (n *notebook) End(r *Record, e Ended, done func(error)) { n.enter(r.Key, string(e.Bucket), done) }

// Nothing is counted as handled that is not on disk: the journal that cannot be
// written stops the run, whatever it was about to write.
func TestFullLedgerStopsTheRun(t *testing.T) {
	for left := 1; left < 60; left += 3 {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(records(200), func(string, int) Outcome { return ok })
			b.journal.left = left
			s, err := b.run(context.Background())
			if !errors.Is(err, ErrLocal) || !errors.Is(err, errFull) || !s.Balanced() {
				t.Fatalf("left %d: %+v, %v", left, s, err)
			}
			acked := 0
			for _, bucket := range b.journal.ended {
				if bucket == string(Acked) {
					acked++
				}
			}
			if s.Acked != int64(acked) || s.Calls > int64(left+2*b.cfg.Concurrency+4*b.cfg.Concurrency) {
				t.Fatalf("left %d: %d calls, acked %d, in the journal %d", left, s.Calls, s.Acked, acked)
			}
		})
	}
}

// What an earlier run delivered is a duplicate and says so; what it may have
// sent is sent again and stays in doubt when it is not answered.
func TestEarlierRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(records(3), func(string, int) Outcome { return busy })
		j := &earlier{notebook: b.journal}
		b.cfg.MaxAttempts = 1
		s, err := b.runWith(context.Background(), j)
		if err != nil || s.Duplicate != 1 || s.AckedBefore != 1 || s.Exhausted != 2 || s.Calls != 2 {
			t.Fatalf("%+v, %v", s, err)
		}
		for _, l := range b.shelf.letters {
			if l.OutcomeUnknown != (l.Record.Key == "key-000001") {
				t.Errorf("letter of %s: unknown %v", l.Record.Key, l.OutcomeUnknown)
			}
		}
	})
}

// earlier knows the first record as acked, the second as sent.
type earlier struct{ *notebook }

func (e *earlier) Look(r *Record) Sighting {
	switch s := e.notebook.Look(r); r.Key {
	case "key-000000":
		return Sighting{Sight: SightDuplicate, Run: "before"}
	case "key-000001":
		return Sighting{Again: true}
	default:
		return s
	}
}
