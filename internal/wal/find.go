package wal

import (
	"encoding/binary"
	"hash/crc32"
)

// finder looks for the next good frame behind a bad spot. Every byte may be the
// first of one, and numbers inside payloads look like lengths; a checksum over
// a megabyte for each would take hours on a bad day. So the checksums of all
// prefixes are computed once, and that of any frame is had from two of them:
// for a CRC, crc(a‖b) = shift(crc(a), len(b)) ^ crc(b).
type finder struct {
	data []byte
	seed uint32
	from int      // where sums begins
	sums []uint32 // sums[i] is the checksum of data[from:from+i]; made by the first next
}

// next returns where the first good frame at or behind pos begins, len(data) if
// there is none. pos must not be less than at the call before.
func (f *finder) next(pos int) int {
	if f.sums == nil {
		f.from, f.sums = pos, prefixSums(f.data[pos:])
	}
	for ; pos < len(f.data); pos++ {
		n := plausible(f.data[pos:])
		if n == 0 {
			continue
		}
		head := crc32.Update(f.seed, castagnoli, f.data[pos:pos+4])
		begin := pos + headSize - f.from
		sum := shift(head^f.sums[begin], n) ^ f.sums[begin+n]
		if sum == binary.LittleEndian.Uint32(f.data[pos+4:]) {
			return pos
		}
	}
	return len(f.data)
}

func prefixSums(data []byte) []uint32 {
	sums := make([]uint32, 1, len(data)+1)
	c := ^uint32(0)
	for _, b := range data {
		c = castagnoli[byte(c)^b] ^ c>>8
		sums = append(sums, ^c)
	}
	return sums
}

// powers[k] is x to the power of 8·2^k modulo the polynomial: the factor by
// which 2^k bytes that follow move a checksum.
var powers = func() (p [21]uint32) { // enough for MaxFrame
	p[0] = 1 << (31 - 8)
	for k := 1; k < len(p); k++ {
		p[k] = times(p[k-1], p[k-1])
	}
	return p
}()

// shift returns the part that a checksum has in that of n bytes more.
func shift(sum uint32, n int) uint32 {
	for k := 0; n > 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			sum = times(sum, powers[k])
		}
	}
	return sum
}

// times multiplies two polynomials over GF(2) modulo the one of CRC-32C. As in
// the checksums the highest bit is the lowest power.
func times(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a>>31 != 0 {
			product ^= b
		}
		b = b>>1 ^ -(b&1)&crc32.Castagnoli
	}
	return product
}
