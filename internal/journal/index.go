package journal

import (
	"hash/maphash"
	"math/bits"
	"sort"
	"strings"
)

// index remembers every key and every spot of the live runs and of this one in
// about 36 bytes a record, whatever their length: chunks of fixed entries, which
// never move, and two open-addressing tables of 32-bit entry numbers.
//
// A key is known by a 64-bit hash and its content by another 32 bits, so taking
// two different records for the same one needs a 96-bit collision, and a 64-bit
// one only holds a record as a conflict for a person to look at. The hashes are
// seeded anew in each process: nobody can prepare a collision.
type index struct {
	seed   maphash.Seed
	chunks [][]entry
	count  uint32
	keys   tables
	spots  tables
	files  []fileStart // in the order of their first entries
}

type entry struct {
	key, spot uint64 // spot 0: the record has no station or air_date
	content   uint32 // 0: lost, matches any
	where     uint32 // line, refused, met in this run, fate
}

// fate is what is known of a record's way to the server.
type fate uint32

const (
	free    fate = iota // nothing of it was applied
	open                // it was answered without success, and may have been applied
	unknown             // sent or about to be, and not answered
	acked
	fateMask = 3
	met      = 1 << 2 // in this run
	refused  = 1 << 3 // by the server, for good
	lineBits = 4
	maxLine  = 1<<(32-lineBits) - 1
)

func (e entry) fate() fate  { return fate(e.where & fateMask) }
func (e entry) met() bool   { return e.where&met != 0 }
func (e entry) line() int64 { return int64(e.where >> lineBits) }

// fileStart says that entries from first on were read from a file in a run:
// files are read one after the other, so an entry need not carry its own.
type fileStart struct {
	run, name string
	first     uint32
}

const chunkSize = 1 << 14

func newIndex() *index { return &index{seed: maphash.MakeSeed()} }

// identity is what the index knows a record by.
type identity struct {
	key, spot uint64
	content   uint32
}

func (x *index) identify(i *Intent) identity {
	id := identity{key: x.hash(i.Key), content: uint32(x.hash(i.Station, i.AirDate, i.SpotID, i.Market, string(i.Body[:]))) | 1}
	if i.Station != "" && i.AirDate != "" {
		id.spot = x.hash(i.Station, i.AirDate, i.SpotID) | 1
	}
	return id
}

// add appends an entry and makes it the one its key is found by; its spot, too,
// unless that is to stay with an earlier entry.
func (x *index) add(id identity, run, file string, line int64, mark uint32, keepSpot bool) {
	if n := len(x.files); n == 0 || x.files[n-1].name != file || x.files[n-1].run != run {
		// Cloned: the text may be part of something large.
		x.files = append(x.files, fileStart{strings.Clone(run), strings.Clone(file), x.count})
	}
	if x.count%chunkSize == 0 {
		x.chunks = append(x.chunks, make([]entry, chunkSize))
	}
	where := uint32(min(line, maxLine))<<lineBits | mark
	*x.at(x.count) = entry{id.key, id.spot, id.content, where}
	x.keys.set(x.count, id.key, x.keyOf)
	if id.spot != 0 && !keepSpot {
		x.spots.set(x.count, id.spot, x.spotOf)
	}
	x.count++
}

func (x *index) keyOf(n uint32) uint64  { return x.at(n).key }
func (x *index) spotOf(n uint32) uint64 { return x.at(n).spot }

// byKey and bySpot return the entry's number.
func (x *index) byKey(key uint64) (uint32, bool) {
	return x.keys.find(key, x.keyOf)
}

func (x *index) bySpot(spot uint64) (uint32, bool) {
	if spot == 0 {
		return 0, false
	}
	return x.spots.find(spot, x.spotOf)
}

func (x *index) at(n uint32) *entry { return &x.chunks[n/chunkSize][n%chunkSize] }

func (x *index) setFate(n uint32, f fate) {
	e := x.at(n)
	e.where = e.where&^fateMask | uint32(f)
}

// place names where an entry was read.
func (x *index) place(n uint32) (run, file string, line int64) {
	after := sort.Search(len(x.files), func(i int) bool { return x.files[i].first > n })
	f := x.files[after-1]
	return f.run, f.name, x.at(n).line()
}

func (x *index) hash(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	for _, p := range parts {
		// The length keeps ("ab","c") apart from ("a","bc").
		maphash.WriteComparable(&h, len(p))
		h.WriteString(p)
	}
	return h.Sum64()
}

// tables find entries by hash. They are cut by the first byte of the hash, so
// that growing copies a small part at a time.
type tables [256]table

func (t *tables) find(hash uint64, hashOf func(uint32) uint64) (uint32, bool) {
	return t[hash>>56].find(hash, hashOf)
}

func (t *tables) set(n uint32, hash uint64, hashOf func(uint32) uint64) {
	t[hash>>56].set(n, hash, hashOf)
}

// reserve makes room for n entries in all.
func (t *tables) reserve(n int) {
	for i := range t {
		t[i].rebuild(n/len(t)*6/5, uint(bits.Len(uint(n))), nil)
	}
}

// table is an open-addressing table. A slot holds an entry number plus one in
// its low bits, as many as the numbers need, and above them a tag: bits of the
// hash, which save most looks at other entries, far apart in memory. 0 is free.
type table struct {
	slots   []uint32
	used    int
	numBits uint
}

// start is where the search begins: the byte that chose the table is spent.
func (t *table) start(hash uint64) int {
	hi, _ := bits.Mul64(hash<<8, uint64(len(t.slots)))
	return int(hi)
}

func (t *table) find(hash uint64, hashOf func(uint32) uint64) (uint32, bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	slot := t.slots[t.slot(hash, hashOf)]
	return t.number(slot), slot != 0
}

// number is the entry in a slot that is not free.
func (t *table) number(slot uint32) uint32 { return slot&(1<<t.numBits-1) - 1 }

// set makes n the entry found by hash, in the place of an earlier one.
func (t *table) set(n uint32, hash uint64, hashOf func(uint32) uint64) {
	// Growing by a quarter at a load of 0.85 keeps the table small; doubling
	// would leave it half empty after every growth.
	if size, need := len(t.slots), uint(bits.Len32(n+1)); 20*(t.used+1) > 17*size {
		t.rebuild(max(16, size+size/4), max(need, t.numBits), hashOf)
	} else if need > t.numBits {
		t.rebuild(size, need, hashOf)
	}
	i := t.slot(hash, hashOf)
	if t.slots[i] == 0 {
		t.used++
	}
	t.slots[i] = uint32(hash)<<t.numBits | (n + 1)
}

func (t *table) rebuild(size int, numBits uint, hashOf func(uint32) uint64) {
	old := *t
	t.slots, t.numBits = make([]uint32, size), numBits
	for _, slot := range old.slots {
		if slot == 0 {
			continue
		}
		n := old.number(slot)
		hash := hashOf(n)
		i := t.start(hash) // all are different: a free slot will do
		for t.slots[i] != 0 {
			i = (i + 1) % size
		}
		t.slots[i] = uint32(hash)<<numBits | (n + 1)
	}
}

// slot is the one that holds hash, or the free one it goes into.
func (t *table) slot(hash uint64, hashOf func(uint32) uint64) int {
	tag := uint32(hash) << t.numBits >> t.numBits
	i := t.start(hash)
	for ; t.slots[i] != 0; i = (i + 1) % len(t.slots) {
		if t.slots[i]>>t.numBits == tag && hashOf(t.number(t.slots[i])) == hash {
			break
		}
	}
	return i
}
