package uploader

import (
	"hash/maphash"
	"math/bits"
	"sort"
)

// seen remembers every key and every spot of a run in about 36 bytes a record,
// whatever their length: chunks of fixed entries, which never move, and two
// open-addressing indexes of 32-bit entry numbers.
//
// A key is known by a 64-bit hash and its content by another 32 bits, so
// taking two different records for the same one needs a 96-bit collision, and
// a 64-bit one only holds a record as a conflict for a person to look at.
//
// It is used by the reader alone and is not safe for concurrent use.
type seen struct {
	seed   maphash.Seed
	chunks [][]entry
	count  uint32
	keys   index
	spots  index
	files  []fileStart // in the order of their first entries
}

type entry struct {
	key, spot     uint64 // spot 0: the record has no station or air_date
	content, line uint32
}

// fileStart says that entries from first on were read from name: files are
// read one after the other, so an entry need not carry its own.
type fileStart struct {
	name  string
	first uint32
}

const chunkSize = 1 << 14

type sighting int

const (
	unseen     sighting = iota
	sameRecord          // same key, same content
	sameKey             // same key, other content
	sameSpot            // same station, air_date and spot_id, other key
)

func newSeen() *seen { return &seen{seed: maphash.MakeSeed()} }

// add remembers r unless it repeats or contradicts an earlier record, which it
// then names.
func (s *seen) add(r Record) (sighting, Place) {
	e := entry{
		key:     s.hash(r.Key),
		content: uint32(s.hash(r.Station, r.AirDate, r.SpotID, r.Market, string(r.Body))),
		line:    uint32(min(r.Place.Line, 1<<32-1)),
	}
	if r.Station != "" && r.AirDate != "" {
		e.spot = s.hash(r.Station, r.AirDate, r.SpotID) | 1
	}
	if n, ok := s.find(&s.keys, func(o entry) bool { return o.key == e.key }, e.key); ok {
		if s.entry(n).content == e.content {
			return sameRecord, s.place(n)
		}
		return sameKey, s.place(n)
	}
	twin, doubled := uint32(0), false
	if e.spot != 0 {
		twin, doubled = s.find(&s.spots, func(o entry) bool { return o.spot == e.spot }, e.spot)
	}
	if f := r.Place.File; len(s.files) == 0 || s.files[len(s.files)-1].name != f {
		s.files = append(s.files, fileStart{f, s.count})
	}
	if s.count%chunkSize == 0 {
		s.chunks = append(s.chunks, make([]entry, chunkSize))
	}
	s.chunks[s.count/chunkSize][s.count%chunkSize] = e
	s.keys.insert(s.count, e.key, func(n uint32) uint64 { return s.entry(n).key })
	if e.spot != 0 && !doubled {
		s.spots.insert(s.count, e.spot, func(n uint32) uint64 { return s.entry(n).spot })
	}
	s.count++
	if doubled {
		return sameSpot, s.place(twin)
	}
	return unseen, Place{}
}

func (s *seen) find(ix *index, same func(entry) bool, hash uint64) (uint32, bool) {
	for n := range ix.probe(hash) {
		if same(s.entry(n)) {
			return n, true
		}
	}
	return 0, false
}

func (s *seen) entry(n uint32) entry { return s.chunks[n/chunkSize][n%chunkSize] }

func (s *seen) place(n uint32) Place {
	after := sort.Search(len(s.files), func(i int) bool { return s.files[i].first > n })
	return Place{File: s.files[after-1].name, Line: int64(s.entry(n).line)}
}

func (s *seen) hash(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, p := range parts {
		// The length keeps ("ab","c") apart from ("a","bc").
		maphash.WriteComparable(&h, len(p))
		h.WriteString(p)
	}
	return h.Sum64()
}

// index finds entries by hash. It is cut into tables by the first byte of the
// hash, so that growing copies a small part at a time.
type index [256]table

func (x *index) probe(hash uint64) func(yield func(uint32) bool) { return x[hash>>56].probe(hash << 8) }

func (x *index) insert(n uint32, hash uint64, hashOf func(uint32) uint64) {
	x[hash>>56].insert(n, hash<<8, func(n uint32) uint64 { return hashOf(n) << 8 })
}

// table is an open-addressing table of entry numbers plus one; 0 is free.
type table struct {
	slots []uint32
	used  int
}

func (x *table) start(hash uint64) int {
	hi, _ := bits.Mul64(hash, uint64(len(x.slots)))
	return int(hi)
}

// probe yields the entries that may carry hash.
func (x *table) probe(hash uint64) func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		if len(x.slots) == 0 {
			return
		}
		for i := x.start(hash); x.slots[i] != 0; i = (i + 1) % len(x.slots) {
			if !yield(x.slots[i] - 1) {
				return
			}
		}
	}
}

func (x *table) insert(n uint32, hash uint64, hashOf func(uint32) uint64) {
	// Growing by a quarter at a load of 0.85 keeps the table small; doubling
	// would leave it half empty after every growth.
	if 20*(x.used+1) > 17*len(x.slots) {
		old := x.slots
		x.slots = make([]uint32, max(16, len(old)+len(old)/4))
		for _, slot := range old {
			if slot != 0 {
				x.put(slot, hashOf(slot-1))
			}
		}
	}
	x.put(n+1, hash)
	x.used++
}

func (x *table) put(slot uint32, hash uint64) {
	i := x.start(hash)
	for x.slots[i] != 0 {
		i = (i + 1) % len(x.slots)
	}
	x.slots[i] = slot
}
