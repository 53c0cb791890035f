package deadletter

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"trafficup/internal/disk/disktest"
)

// A crash leaves any part of a last letter; another program's file is no letter
// at all, however it ends.
func TestTornLastLine(t *testing.T) {
	l := Letter{Reason: "unknown"}
	l.SetRecord([]byte(`{"a":"b"}`))
	line, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		end  string
		want error
	}{
		"whole letter, no line end": {string(line[:len(line)-1]), nil},
		"lost block":                {string(make([]byte, 600)), ErrTorn},
		"lost middle":               {string(line[:20]) + string(make([]byte, 40)), ErrTorn},
		"other text":                {`{"spot_id":"SP-1"}`, ErrFormat},
		"other text, line end":      {"{\"v\":1}\n", ErrFormat},
	}
	for n := 1; n < len(line)-1; n++ {
		cases[string(line[:n])] = struct {
			end  string
			want error
		}{string(line[:n]), ErrTorn}
	}
	for name, c := range cases {
		d := disktest.New()
		d.SetBytes("f", append(bytes.Clone(line), c.end...))
		r, err := OpenReader(d.FS(), "f")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Next(); err != nil {
			t.Fatalf("%s: first letter: %v", name, err)
		}
		_, err = r.Next()
		if !errors.Is(err, c.want) || errors.Is(err, ErrTorn) && errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("%s: after the end: %v", name, err)
		}
		r.Close()
	}
}

func TestPending(t *testing.T) {
	d := disktest.New()
	if files, err := Pending(d.FS(), "none"); len(files) != 0 || err != nil {
		t.Errorf("missing directory: %v, %v", files, err)
	}
	for _, name := range []string{"d/b.ndjson", "d/a.ndjson", "d/a.ndjson.tmp", "d/notes", "d/archive/c.ndjson", "d/x.ndjson/y"} {
		d.SetBytes(name, nil)
	}
	files, err := Pending(d.FS(), "d")
	if want := []string{"d/a.ndjson", "d/b.ndjson"}; err != nil || !slices.Equal(files, want) {
		t.Errorf("%v, %v; want %v", files, err, want)
	}
}
