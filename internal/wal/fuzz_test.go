package wal

import (
	"slices"
	"testing"

	"trafficup/internal/disk/disktest"
)

// FuzzSegment reads any bytes as a segment, as the last and as an earlier one.
// Every byte is accounted for, and Open makes a sound log of it.
func FuzzSegment(f *testing.F) {
	for _, m := range made {
		for _, data := range m.files {
			f.Add(data, false)
			f.Add(data, true)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, more bool) {
		d := disktest.New()
		d.SetBytes(path(1), data)
		if more {
			h := header{seq: 2}
			d.SetBytes(path(2), h.encode())
		}
		got, rep := read(t, d.FS())
		sum := rep.Bytes + headSize*rep.Frames
		for _, part := range append(slices.Clone(rep.Torn), rep.Damaged...) {
			if part.Offset < 0 || part.Bytes < 0 || part.Offset+part.Bytes > int64(len(data)) {
				t.Fatalf("%+v of %d bytes", part, len(data))
			}
			sum += part.Bytes
		}
		if _, sound := decodeHeader(data); sound && data[8] == 1 && sum+headerSize < int64(len(data)) || sum > int64(len(data)) {
			t.Fatalf("%d of %d bytes are accounted for: %+v", sum, len(data), rep)
		}
		l, opened, _ := open(t, Options{FS: d.FS()})
		put(t, l, "appended")
		done(t, l)
		equal(t, opened, got)
		after, rep := read(t, d.FS())
		equal(t, after, append(got, "appended"))
		if len(rep.Torn) > 0 {
			t.Fatalf("torn after Open: %+v", rep)
		}
	})
}
