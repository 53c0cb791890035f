package journal

import (
	"cmp"
	"slices"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/wal"
)

// Stock is what a ledger holds.
type Stock struct {
	wal.Report
	Bad         int         // good frames that hold no entry
	Acked       int         // records acked and not forgotten yet
	Unknown     int         // records with an intent and no answer; those in flight are among them
	UnknownFrom []FileCount // where these were read, most first
	Runs        []Run       // oldest first
	index       *index
}

// Took reports whether the key was acked and is not forgotten yet.
func (s Stock) Took(key string) bool {
	if s.index == nil {
		return false
	}
	n, ok := s.index.byKey(s.index.hash(key))
	return ok && s.index.at(n).fate() == acked
}

// FileCount counts records by the file they were read from.
type FileCount struct {
	File    string `json:"file"`
	Records int    `json:"records"`
}

// Survey takes stock of the ledger in dir, as a run would find it that forgets
// what was sent before since. It changes nothing and may be used beside a
// running upload. A missing directory is an empty ledger.
func Survey(fsys disk.FS, dir string, since time.Time) (Stock, error) {
	var s Stock
	l := loader{index: newIndex(), dates: dates{now: time.Now(), since: since}}
	report, err := wal.Read(fsys, dir, func(p wal.Pos, frame []byte) error {
		err := l.frame(p, frame)
		if n := len(s.Runs); l.run.ID != "" && (n == 0 || s.Runs[n-1].ID != l.run.ID) {
			s.Runs = append(s.Runs, l.run)
		}
		return err
	})
	s.Report, s.Bad, s.Acked, s.Unknown = report, l.bad, l.count(acked), l.count(unknown)
	s.UnknownFrom, s.index = l.index.unknownFrom(), l.index
	return s, err
}

func (x *index) unknownFrom() []FileCount {
	records := map[string]int{}
	for n := range x.count {
		e := x.at(n)
		if newest, _ := x.byKey(e.key); newest == n && e.fate() == unknown {
			_, file, _ := x.place(n)
			records[file]++
		}
	}
	var counts []FileCount
	for file, n := range records {
		counts = append(counts, FileCount{file, n})
	}
	slices.SortFunc(counts, func(a, b FileCount) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), cmp.Compare(a.File, b.File))
	})
	return counts
}
