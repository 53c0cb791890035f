package uploader

import (
	"hash/maphash"
	"math/bits"
)

// seen remembers every key and every spot of a run in about 40 bytes a record,
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
	files  []string
}

type entry struct {
	key, spot     uint64 // spot 0: the record has no station or air_date
	content, line uint32
	file          uint32
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
		file:    s.file(r.Place.File),
	}
	if r.Station != "" && r.AirDate != "" {
		e.spot = s.hash(r.Station, r.AirDate, r.SpotID) | 1
	}
	if first, ok := s.find(&s.keys, func(o entry) bool { return o.key == e.key }, e.key); ok {
		if first.content == e.content {
			return sameRecord, s.place(first)
		}
		return sameKey, s.place(first)
	}
	twin, doubled := entry{}, false
	if e.spot != 0 {
		twin, doubled = s.find(&s.spots, func(o entry) bool { return o.spot == e.spot }, e.spot)
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

func (s *seen) find(ix *index, same func(entry) bool, hash uint64) (entry, bool) {
	for n := range ix.probe(hash) {
		if e := s.entry(n); same(e) {
			return e, true
		}
	}
	return entry{}, false
}

func (s *seen) entry(n uint32) entry { return s.chunks[n/chunkSize][n%chunkSize] }

func (s *seen) place(e entry) Place { return Place{File: s.files[e.file], Line: int64(e.line)} }

// file numbers file names; files are read one after the other.
func (s *seen) file(name string) uint32 {
	if len(s.files) == 0 || s.files[len(s.files)-1] != name {
		s.files = append(s.files, name)
	}
	return uint32(len(s.files) - 1)
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

// index is an open-addressing table of entry numbers plus one; 0 is free.
type index struct {
	slots []uint32
	used  int
}

func (x *index) start(hash uint64) int {
	hi, _ := bits.Mul64(hash, uint64(len(x.slots)))
	return int(hi)
}

// probe yields the entries that may carry hash.
func (x *index) probe(hash uint64) func(yield func(uint32) bool) {
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

func (x *index) insert(n uint32, hash uint64, hashOf func(uint32) uint64) {
	// Growing by half at a load of 0.8 keeps the table small; doubling would
	// leave it a third full after every growth.
	if 5*(x.used+1) > 4*len(x.slots) {
		old := x.slots
		x.slots = make([]uint32, max(64, len(old)+len(old)/2))
		for _, slot := range old {
			if slot != 0 {
				x.put(slot, hashOf(slot-1))
			}
		}
	}
	x.put(n+1, hash)
	x.used++
}

func (x *index) put(slot uint32, hash uint64) {
	i := x.start(hash)
	for x.slots[i] != 0 {
		i = (i + 1) % len(x.slots)
	}
	x.slots[i] = slot
}
