package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trafficup/internal/disk/disktest"
)

// sample returns a disk with a log of segments of at most three frames each.
func sample(t *testing.T, frames []string) *disktest.Disk {
	t.Helper()
	d := disktest.New()
	l, _, _ := open(t, Options{FS: d.FS(), SegmentSize: headerSize + 3*18, Rand: salts(1)})
	put(t, l, frames...)
	done(t, l)
	return d
}

func path(seq uint64) string { return dir + "/" + fileName(seq) }

// reopen opens a log that was tampered with, appends to it, and returns what is
// in it then beside what it held before.
func reopen(t *testing.T, d *disktest.Disk) (before, after []string, rep Report) {
	t.Helper()
	l, before, rep := open(t, Options{FS: d.FS(), SegmentSize: 1 << 20, Rand: salts(2)})
	put(t, l, "appended")
	done(t, l)
	after, _ = read(t, d.FS())
	return before, after, rep
}

func TestCutAtEveryByte(t *testing.T) {
	all := numbered(5)
	whole, _ := sample(t, all).Bytes(path(2))
	for size := range len(whole) {
		d := sample(t, all)
		d.SetBytes(path(2), whole[:size])
		kept := 3 + max(0, size-headerSize)/18
		torn := size < headerSize || (size-headerSize)%18 != 0

		got, rep := read(t, d.FS())
		equal(t, got, all[:kept])
		if len(rep.Damaged) > 0 || (len(rep.Torn) > 0) != torn {
			t.Fatalf("cut to %d: %+v", size, rep)
		}
		before, after, rep := reopen(t, d)
		equal(t, before, all[:kept])
		equal(t, after, append(all[:kept:kept], "appended"))
		if len(rep.Damaged) > 0 || (len(rep.Torn) > 0) != torn {
			t.Fatalf("cut to %d: %+v", size, rep)
		}
		_, rep = read(t, d.FS())
		clean(t, rep)
		if names := len(d.Names()); names != 2 {
			t.Fatalf("cut to %d: %d files", size, names)
		}
	}
}

func TestEveryBitFlip(t *testing.T) {
	all := numbered(6)
	for _, seq := range []uint64{1, 2} {
		whole, _ := sample(t, all).Bytes(path(seq))
		for bit := range 8 * len(whole) {
			d := sample(t, all)
			data := slices.Clone(whole)
			data[bit/8] ^= 1 << (bit % 8)
			d.SetBytes(path(seq), data)
			want := slices.Clone(all)
			first := 3 * int(seq-1)
			switch at := bit / 8; {
			case at >= headerSize: // the frame it is in
				n := first + (at-headerSize)/18
				want = slices.Delete(want, n, n+1)
			case at >= 24 && at < 32: // the salt: no frame can be told from junk
				want = slices.Delete(want, first, first+3)
			}
			got, rep := read(t, d.FS())
			equal(t, got, want)
			if len(rep.Torn)+len(rep.Damaged) != 1 {
				t.Fatalf("segment %d, bit %d: %+v", seq, bit, rep)
			}
			before, after, _ := reopen(t, d)
			equal(t, before, want)
			equal(t, after, append(want, "appended"))
		}
	}
}

// TestTails puts things behind the last good frame of either segment.
func TestTails(t *testing.T) {
	all := numbered(6)
	frame := func(n int) []byte {
		b := make([]byte, headSize+n)
		binary.LittleEndian.PutUint32(b, uint32(n))
		seal(b, 12345) // sound, but not here
		return b
	}
	for name, tail := range map[string][]byte{
		"one zero":         {0},
		"zeros":            make([]byte, 5000),
		"head only":        frame(10)[:headSize],
		"another's frames": bytes.Repeat(frame(10), 3),
		"a length too far": {255, 255, 255, 255, 0, 0, 0, 0, 0},
	} {
		for _, seq := range []uint64{1, 2} {
			t.Run(fmt.Sprint(name, " in segment ", seq), func(t *testing.T) {
				d := sample(t, all)
				whole, _ := d.Bytes(path(seq))
				d.SetBytes(path(seq), append(slices.Clone(whole), tail...))
				want := Damage{path(seq), int64(len(whole)), int64(len(tail)), badFrame}
				before, after, rep := reopen(t, d)
				equal(t, before, all)
				equal(t, after, append(all[:6:6], "appended"))
				found := rep.Torn
				if seq == 1 {
					found = rep.Damaged
				}
				if len(rep.Torn)+len(rep.Damaged) != 1 || !slices.Contains(found, want) {
					t.Fatalf("report is %+v, want %+v", rep, want)
				}
				left, _ := d.Bytes(path(1))
				if seq == 1 && len(left) != len(whole)+len(tail) {
					t.Fatal("the damaged segment was changed")
				}
			})
		}
	}
}

func TestDamagedMiddleOfTheLastSegment(t *testing.T) {
	all := numbered(6)
	d := sample(t, all)
	data, _ := d.Bytes(path(2))
	clear(data[headerSize+10 : headerSize+20]) // in the first frame and the second
	d.SetBytes(path(2), data[:len(data)-1])
	want := all[:3:3]
	before, after, rep := reopen(t, d)
	equal(t, before, want)
	equal(t, after, append(want, "appended"))
	if len(rep.Torn) != 1 || rep.Torn[0].Offset != headerSize {
		t.Fatalf("nothing good is left behind it, so all of it is torn: %+v", rep)
	}

	d.SetBytes(path(2), data) // now the third frame is good
	want = append(want, all[5])
	before, after, rep = reopen(t, d)
	equal(t, before, want)
	equal(t, after, append(want, "appended"))
	if len(rep.Torn) != 0 || len(rep.Damaged) != 1 || rep.Damaged[0] != (Damage{path(2), headerSize, 36, badFrame}) {
		t.Fatalf("report is %+v", rep)
	}
	if len(d.Names()) != 2 {
		t.Fatalf("appended elsewhere: %v", d.Names())
	}
}

func TestHeaderOfTheLastSegment(t *testing.T) {
	all := numbered(6)
	good, _ := sample(t, all).Bytes(path(2))
	for _, c := range []struct {
		name  string
		data  []byte
		torn  bool
		want  []string
		files int
	}{
		{"empty file", nil, true, all[:3], 2},
		{"zeros of a header", make([]byte, headerSize), true, all[:3], 2},
		{"zeros of a page", make([]byte, 4096), false, all[:3], 3},
		{"another segment's", func() []byte { b, _ := sample(t, all).Bytes(path(1)); return b }(), false, all[:3], 3},
		{"magic gone, frames there", append(make([]byte, 8), good[8:]...), false, all, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := sample(t, all)
			d.SetBytes(path(2), c.data)
			before, after, rep := reopen(t, d)
			equal(t, before, c.want)
			equal(t, after, append(c.want[:len(c.want):len(c.want)], "appended"))
			if len(rep.Torn)+len(rep.Damaged) != 1 || (len(rep.Torn) == 1) != c.torn {
				t.Fatalf("report is %+v", rep)
			}
			if len(d.Names()) != c.files {
				t.Fatalf("files are %v", d.Names())
			}
		})
	}
}

// TestFinder holds the search by prefix sums against a plain one.
func TestFinder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint32().Draw(t, "seed")
		var data []byte
		for range rapid.IntRange(0, 6).Draw(t, "parts") {
			junk := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 255}), 0, 40).Draw(t, "junk")
			data = append(data, junk...)
			if rapid.Bool().Draw(t, "frame") {
				p := rapid.SliceOfN(rapid.Byte(), 1, 3000).Draw(t, "payload")
				f := append(binary.LittleEndian.AppendUint32(nil, uint32(len(p))), 0, 0, 0, 0)
				f = append(f, p...)
				seal(f, seed)
				data = append(data, f...)
			}
		}
		f := finder{data: data, seed: seed}
		for pos := 0; pos < len(data); pos++ {
			want := pos
			for want < len(data) && payload(data[want:], seed) == nil {
				want++
			}
			pos = f.next(pos)
			if pos != want {
				t.Fatalf("found %d, want %d", pos, want)
			}
		}
	})
}
