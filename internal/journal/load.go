package journal

import (
	"fmt"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/wal"
)

// load opens the log in dir and builds the index of what it holds since a time.
func load(dir string, o Options, now, since time.Time) (*loader, *wal.Log, wal.Report, error) {
	l := &loader{index: newIndex(), dates: dates{now: now, since: since}}
	if n := likely(o.FS, dir); n > 0 {
		l.index.keys.reserve(n)
		l.index.spots.reserve(n)
	}
	log, report, err := wal.Open(dir, wal.Options{FS: o.FS, Delay: commitDelay, Rand: o.Rand}, l.frame)
	if err != nil {
		return nil, nil, report, fmt.Errorf("ledger: %w", err)
	}
	return l, log, report, nil
}

// loader builds the index from the frames of the log.
type loader struct {
	index *index
	dates
	run   Run
	file  file
	bad   int
	fates [4]int
	// prior is the spot's claim before that of an entry, where both can have
	// been applied: a correction that was accepted.
	prior map[uint32]uint32
}

func (l *loader) count(f fate) int { return l.fates[f] }

// frame takes an entry in. It borrows the texts of the many, for speed: the
// index keeps none of them.
func (l *loader) frame(_ wal.Pos, frame []byte) error {
	r := reader{b: frame, borrow: true}
	switch r.kind() {
	case kindIntent:
		if i := r.intent(); !r.bad {
			l.intent(&i)
		}
	case kindAnswer:
		if a := r.answer(); !r.bad {
			l.answer(&a)
		}
	case kindEnd:
		if e := r.end(); !r.bad {
			l.end(&e)
		}
	case kindFile:
		r.borrow = false
		l.file = r.file()
	case kindRun:
		r.borrow = false
		l.run, l.file = r.run(), file{}
		l.see(l.run.Started)
	}
	if r.bad {
		l.bad++ // its sum is right: the program that wrote it was wrong; the rest is still true
	}
	return nil
}

func (l *loader) intent(i *Intent) {
	if l.forgotten(i.At) {
		return
	}
	if i.fileNumber == l.file.number {
		i.File = l.file.name
	}
	id := l.index.identify(i)
	if n, ok := l.index.byKey(id.key); ok {
		l.fates[l.index.at(n).fate()]--
	}
	if n, ok := l.index.bySpot(id.spot); ok {
		if e := l.index.at(n); e.key != id.key && e.fate() != free {
			if l.prior == nil {
				l.prior = map[uint32]uint32{}
			}
			l.prior[l.index.count] = n
		}
	}
	l.index.add(id, l.run.ID, i.File, i.Line, uint32(unknown), false)
	l.fates[unknown]++
}

func (l *loader) answer(a *Answer) {
	l.see(a.AnsweredAt)
	n, ok := l.index.byKey(l.index.hash(a.Key))
	if !ok {
		if a.Class == Acked && !l.forgotten(a.SentAt) {
			// Its intent is lost. That the key was acked is what counts.
			l.index.add(identity{key: l.index.hash(a.Key)}, l.run.ID, "", 0, uint32(acked), true)
			l.fates[acked]++
		}
		return
	}
	switch {
	case a.Class == Acked:
		l.set(n, acked)
	case l.index.at(n).fate() == acked:
	case a.Class == Rejected:
		l.set(n, free)
		l.index.at(n).where |= refused
	case a.Status != 0:
		l.set(n, open)
	case a.Wrote:
		l.set(n, unknown)
	}
}

func (l *loader) end(e *End) {
	n, ok := l.index.byKey(l.index.hash(e.Key))
	if !ok || l.index.at(n).fate() == acked {
		return
	}
	switch {
	case !e.Wrote:
		l.set(n, free)
	case e.Outcome == outcomeUnknown:
		l.set(n, unknown)
	}
}

// outcomeUnknown is the one outcome that says more than the answers before it.
const outcomeUnknown = "unknown"

func (l *loader) set(n uint32, f fate) {
	if earlier, ok := l.prior[n]; ok && f == free {
		l.index.spots.set(earlier, l.index.at(n).spot, l.index.spotOf)
	}
	l.fates[l.index.at(n).fate()]--
	l.fates[f]++
	l.index.setFate(n, f)
}

// Read calls visit with every entry in dir, oldest first: a Run, Intent, Answer
// or End. It changes nothing and may be used beside a running upload. bad counts
// frames that hold no entry.
func Read(fsys disk.FS, dir string, visit func(entry any) error) (report wal.Report, bad int, err error) {
	var run Run
	files := map[uint64]file{}
	report, err = wal.Read(fsys, dir, func(_ wal.Pos, frame []byte) error {
		entry, err := decode(frame)
		switch e := entry.(type) {
		case nil:
			if err != nil {
				bad++
			}
			return nil
		case file:
			files[e.number] = e
			return nil
		case Run:
			run = e
			clear(files)
			return visit(run)
		case Intent:
			f := files[e.fileNumber]
			e.File, e.FileSHA256 = f.name, f.sha256
			return visit(e)
		default:
			return visit(e)
		}
	})
	return report, bad, err
}
