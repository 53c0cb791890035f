package tc

import (
	"encoding/binary"
	"iter"
)

// attrs is a list of netlink attributes: a header of length and type in the
// machine's byte order, a value, and zeros up to a multiple of four.
type attrs []byte

const attrHeader = 4

func (a *attrs) add(typ uint16, value []byte) {
	b := binary.NativeEndian.AppendUint16(*a, uint16(attrHeader+len(value)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	*a = b
}

func (a *attrs) u32(typ uint16, v uint32) { a.add(typ, binary.NativeEndian.AppendUint32(nil, v)) }

func (a *attrs) u64(typ uint16, v uint64) { a.add(typ, binary.NativeEndian.AppendUint64(nil, v)) }

func (a *attrs) flag(typ uint16, on bool) { a.u32(typ, bit(on)) }

func (a *attrs) text(typ uint16, s string) { a.add(typ, append([]byte(s), 0)) }

func bit(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

// value is the content of an attribute.
type value []byte

// num is the number that v is, of whatever size; 0 when it is none.
func (v value) num() uint64 {
	switch len(v) {
	case 1:
		return uint64(v[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(v))
	case 4:
		return uint64(binary.NativeEndian.Uint32(v))
	case 8:
		return binary.NativeEndian.Uint64(v)
	}
	return 0
}

func (v value) u32() uint32 { return uint32(v.num()) }

// text is v up to its first zero.
func (v value) text() string {
	for i, c := range v {
		if c == 0 {
			return string(v[:i])
		}
	}
	return string(v)
}

// words reads v as numbers of 32 bits, and zeros when it is shorter than n of
// them: an older kernel knows fewer.
func (v value) words(n int) []uint32 {
	w := make([]uint32, n)
	for i := range min(n, len(v)/4) {
		w[i] = binary.NativeEndian.Uint32(v[4*i:])
	}
	return w
}

// all yields the attributes of a list up to the first that is cut short. The
// upper two bits of a type only say how its value is written.
func all(list []byte) iter.Seq2[uint16, value] {
	return func(yield func(uint16, value) bool) {
		for len(list) >= attrHeader {
			n := int(binary.NativeEndian.Uint16(list))
			if n < attrHeader || n > len(list) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(list[2:])&0x3fff, value(list[attrHeader:n])) {
				return
			}
			list = list[min((n+3)&^3, len(list)):]
		}
	}
}

// words adds a struct of 32-bit numbers.
func (a *attrs) words(typ uint16, words ...uint32) {
	var b []byte
	for _, w := range words {
		b = binary.NativeEndian.AppendUint32(b, w)
	}
	a.add(typ, b)
}

// nativeBytes is the number whose bytes in memory are b.
func nativeBytes(b ...byte) uint32 { return binary.NativeEndian.Uint32(b) }
