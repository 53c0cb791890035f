package wal

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trafficup/internal/disk/disktest"
)

var update = flag.Bool("update", false, "write the test vectors anew")

const vectors = "../../testdata/formats"

// maker makes the files of a vector.
type maker struct{ files [][]byte }

func salt(seq int) (s [8]byte) {
	copy(s[:], fmt.Sprintf("salt%04d", seq))
	return s
}

func (m *maker) segment() *maker {
	seq := len(m.files) + 1
	h := header{seq: uint64(seq), created: 1784246400 + int64(seq), salt: salt(seq)}
	m.files = append(m.files, h.encode())
	return m
}

// raw adds bytes to the last segment.
func (m *maker) raw(b ...byte) *maker {
	last := &m.files[len(m.files)-1]
	*last = append(*last, b...)
	return m
}

func (m *maker) frame(p string) *maker {
	return m.raw(sealed(p, header{salt: salt(len(m.files))}.seed())...)
}

// cut takes n bytes off the last segment.
func (m *maker) cut(n int) *maker {
	last := &m.files[len(m.files)-1]
	*last = (*last)[:len(*last)-n]
	return m
}

// gone takes the last segment's file away.
func (m *maker) gone() *maker {
	m.files[len(m.files)-1] = nil
	return m
}

// flip turns one bit of the last segment.
func (m *maker) flip(at int) *maker {
	m.files[len(m.files)-1][at] ^= 0x10
	return m
}

func sealed(p string, seed uint32) []byte {
	b := append([]byte{byte(len(p)), byte(len(p) >> 8), byte(len(p) >> 16), 0, 0, 0, 0, 0}, p...)
	seal(b, seed)
	return b
}

// made is what -update writes; it says of each what is expected with what the
// code answers, which has to be looked at before it is kept.
var made = map[string]*maker{
	"no-segment":      new(maker),
	"empty":           new(maker).segment(),
	"two-frames":      new(maker).segment().frame("first").frame("second"),
	"cut-in-head":     new(maker).segment().frame("first").frame("second").cut(9),
	"cut-in-payload":  new(maker).segment().frame("first").frame("second").cut(2),
	"nul-tail":        new(maker).segment().frame("first").raw(make([]byte, 50)...),
	"flipped-length":  new(maker).segment().frame("first").frame("second").frame("third").flip(headerSize + 13),
	"flipped-payload": new(maker).segment().frame("first").frame("second").frame("third").flip(headerSize + 23),
	"zero-length":     new(maker).segment().frame("first").frame("").frame("third"),
	"header-torn":     new(maker).segment().frame("first").segment().cut(10),
	"header-flipped":  new(maker).segment().frame("first").frame("second").flip(20),
	"salt-flipped":    new(maker).segment().frame("first").frame("second").flip(30).segment().frame("third"),
	"header-moved":    &maker{[][]byte{new(maker).segment().segment().frame("first").files[1]}},
	"quoted-frame": new(maker).segment().frame("first").
		frame("quote " + string(sealed("quoted", header{salt: salt(7)}.seed())) + " end").flip(headerSize + 22).frame("third"),
	"missing-segment":   new(maker).segment().frame("first").segment().gone().segment().frame("third"),
	"bad-tail-in-first": new(maker).segment().frame("first").frame("lost").cut(1).segment().frame("third"),
}

func TestVectors(t *testing.T) {
	if *update {
		for name, m := range made {
			if err := os.WriteFile(filepath.Join(vectors, "wal-"+name+".txt"), []byte(m.text(t)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	names, err := filepath.Glob(filepath.Join(vectors, "wal-*.txt"))
	if err != nil || len(names) < len(made) {
		t.Fatalf("%d vectors, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			want, dump, _ := strings.Cut(string(text), "\n\n")
			d := disktest.New()
			load(t, d, dump)
			got, rep := read(t, d.FS())
			if answer := expectation(got, rep); answer != want {
				t.Errorf("Read says\n%s\nwant\n%s", answer, want)
			}
			l, got, rep := open(t, Options{FS: d.FS()})
			done(t, l)
			if answer := expectation(got, rep); answer != want {
				t.Errorf("Open says\n%s\nwant\n%s", answer, want)
			}
			again, rep := read(t, d.FS())
			if len(rep.Torn) > 0 || !slices.Equal(again, got) {
				t.Errorf("after Open there are %q, %+v", again, rep)
			}
		})
	}
}

func (m *maker) text(t *testing.T) string {
	var dump strings.Builder
	for i, data := range m.files {
		if data == nil {
			continue
		}
		fmt.Fprintf(&dump, "file: %s\n", fileName(uint64(i+1)))
		for line := range slices.Chunk(data, 16) {
			fmt.Fprintf(&dump, "% x\n", line)
		}
	}
	d := disktest.New()
	load(t, d, dump.String())
	got, rep := read(t, d.FS())
	return expectation(got, rep) + "\n\n" + dump.String()
}

func expectation(frames []string, rep Report) string {
	lines := []string{fmt.Sprintf("expect: frames %d", rep.Frames)}
	for _, d := range rep.Torn {
		lines = append(lines, fmt.Sprintf("expect: torn %d %d", d.Offset, d.Bytes))
	}
	for _, d := range rep.Damaged {
		lines = append(lines, fmt.Sprintf("expect: damaged %d %d", d.Offset, d.Bytes))
	}
	for _, p := range frames {
		lines = append(lines, fmt.Sprintf("payload: %x", p))
	}
	return strings.Join(lines, "\n")
}

// load puts the files of a dump on a disk.
func load(t *testing.T, d *disktest.Disk, dump string) {
	t.Helper()
	for _, part := range strings.Split(dump, "file: ")[1:] {
		name, digits, _ := strings.Cut(part, "\n")
		data, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		if err != nil {
			t.Fatal(err)
		}
		d.SetBytes(filepath.Join(dir, name), data)
	}
}
