package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

const (
	magic      = "trupwal1"
	headerSize = 36 // bytes of a segment before its first frame
	headSize   = 8  // bytes of a frame before its payload
	suffix     = ".wal"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fileName is the name of a segment's file.
func fileName(seq uint64) string { return fmt.Sprintf("%016x%s", seq, suffix) }

// parseName is the reverse of fileName; ok is false for any other name.
func parseName(name string) (seq uint64, ok bool) {
	digits, _ := strings.CutSuffix(name, suffix)
	seq, err := strconv.ParseUint(digits, 16, 64)
	return seq, err == nil && 0 < seq && seq < 1<<62 && fileName(seq) == name // there is always a next one
}

// header is what a segment begins with.
type header struct {
	seq     uint64
	created int64 // unix seconds
	salt    [8]byte
}

func (h header) encode() []byte {
	b := append(make([]byte, 0, headerSize), magic...)
	b = binary.LittleEndian.AppendUint64(b, h.seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.created))
	b = append(b, h.salt[:]...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeHeader reads the header of a segment's bytes. If ok is false, its
// fields hold what stands there, zero where there is too little.
func decodeHeader(data []byte) (h header, ok bool) {
	if len(data) < headerSize {
		return header{}, false
	}
	h.seq = binary.LittleEndian.Uint64(data[8:])
	h.created = int64(binary.LittleEndian.Uint64(data[16:]))
	copy(h.salt[:], data[24:])
	sum := binary.LittleEndian.Uint32(data[32:])
	return h, string(data[:8]) == magic && sum == crc32.Checksum(data[:32], castagnoli)
}

// seed is the checksum that those of the frames go on from. With the salt in
// it neither a frame of another segment, quoted inside a payload, nor one that
// an old block of the disk holds passes for a frame of this one.
func (h header) seed() uint32 { return crc32.Checksum(h.salt[:], castagnoli) }

// seal fills in the checksum of a frame that has its length and payload.
func seal(frame []byte, seed uint32) {
	binary.LittleEndian.PutUint32(frame[4:], checksum(frame[:4], frame[headSize:], seed))
}

func checksum(length, payload []byte, seed uint32) uint32 {
	return crc32.Update(crc32.Update(seed, castagnoli, length), castagnoli, payload)
}

// plausible returns the length of the payload of the frame that data may begin
// with, 0 if it cannot.
func plausible(data []byte) int {
	if len(data) <= headSize {
		return 0
	}
	n := binary.LittleEndian.Uint32(data)
	if n > MaxFrame || int(n) > len(data)-headSize {
		return 0
	}
	return int(n)
}

// payload returns the payload of the frame data begins with, nil if it does
// not begin with a whole and sound one.
func payload(data []byte, seed uint32) []byte {
	n := plausible(data)
	if n == 0 {
		return nil
	}
	p := data[headSize : headSize+n]
	if checksum(data[:4], p, seed) != binary.LittleEndian.Uint32(data[4:]) {
		return nil
	}
	return p
}
