package uploader

import (
	"container/heap"
	"time"
)

// schedule hands records to the workers: those whose wait is over first, then
// new ones. It owns the heap of parked records and is the only one to touch it.
// It returns, closing ready, when the reader is done and no record is left.
func (r *run) schedule() {
	defer close(r.ready)
	var (
		waiting parkedHeap
		next    *job // a new record, waiting for a worker
		fresh   = r.intent
		out     int // records with a worker
		stopped = r.stopping.Done()
		lastNew time.Time
		timer   = time.NewTimer(time.Hour)
	)
	defer timer.Stop()
	for fresh != nil || next != nil || len(waiting) > 0 || out > 0 {
		now := time.Now()
		var (
			offer *job
			to    chan *job
			wake  time.Duration = time.Hour
		)
		// With the retry budget empty new records come slowly: burning through
		// the input would turn an outage into dead letters.
		gap := time.Duration(0)
		if next != nil {
			gap = r.intakeGap(lastNew, now)
		}
		switch due := len(waiting) > 0 && !waiting[0].due.After(now); {
		case due && (next == nil || gap > 0 || !r.hopeless(waiting[0], now)):
			offer, to = waiting[0], r.ready
		case next != nil && gap > 0:
			wake = gap
		case next != nil:
			offer, to = next, r.ready
		}
		if offer == nil && len(waiting) > 0 {
			wake = min(wake, waiting[0].due.Sub(now))
		}
		in := fresh
		if next != nil {
			in = nil
		}
		timer.Reset(wake)
		select {
		case to <- offer:
			out++
			if offer == next {
				next, lastNew = nil, now
			} else {
				heap.Pop(&waiting)
			}
		case j, ok := <-in:
			if !ok {
				fresh = nil
				continue
			}
			next = j
		case j := <-r.parked:
			out--
			if j != nil {
				heap.Push(&waiting, j)
			}
		case <-timer.C:
		case <-stopped:
			// From here on nothing new starts: what waits is put down.
			stopped = nil
			for _, j := range waiting {
				r.putDown(j)
			}
			waiting = nil
			if next != nil {
				r.putDown(next)
				next = nil
			}
		}
		if stopped == nil {
			if next != nil {
				r.putDown(next)
				next = nil
			}
			for _, j := range waiting {
				r.putDown(j)
			}
			waiting = nil
		}
	}
}

// hopeless reports whether a record that failed before has to stand back for a
// new one: shortly before the deadline the new one is the better use of the time.
func (r *run) hopeless(j *job, now time.Time) bool {
	return j.failures > 1 && !r.cfg.Deadline.IsZero() && r.cfg.Deadline.Sub(now) < r.cfg.NearEnd
}

// putDown ends a record that was waiting when the run stopped.
func (r *run) putDown(j *job) {
	b, problem := r.stopBucket()
	r.finish(j, b, problem, time.Time{})
}

func (r *run) intakeGap(last, now time.Time) time.Duration {
	for _, p := range r.parts.Paths {
		if p.Budget.Remaining() >= 1 {
			return 0
		}
	}
	return last.Add(r.cfg.IntakeGap).Sub(now)
}

// parkedHeap orders waiting records by the end of their wait.
type parkedHeap []*job

func (h parkedHeap) Len() int           { return len(h) }
func (h parkedHeap) Less(a, b int) bool { return h[a].due.Before(h[b].due) }
func (h parkedHeap) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *parkedHeap) Push(x any)        { *h = append(*h, x.(*job)) }
func (h *parkedHeap) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return j
}
