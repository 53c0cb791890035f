package deadletter

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/disk"
)

func TestLetterKeepsExactBytes(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		raw := rapid.OneOf(
			rapid.Just([]byte(`{ "spot_id":"S1", "payload" : {"t":"<\u2028é&>"} }`)),
			rapid.Just([]byte("{\n\"a\":\"b\"}")),
			rapid.Just([]byte(`{"a":1,"a":2}`)),
			rapid.SliceOfN(rapid.Byte(), 1, 200),
		).Draw(t, "raw")
		when := time.Unix(1784246400, 0).UTC()
		in := Letter{Reason: "rejected", Details: Details{SpotID: "S1", Key: "key-0001", Status: 422, Problem: string(raw),
			Attempts: []Attempt{{At: when, Path: "primary", Status: 422}}, NotBefore: &when, Generation: 2}}
		in.SetRecord(raw)
		w := NewWriter(disk.OS{}, filepath.Join(dir, "letters"+string(rune('a'+n%26))+time.Now().Format("150405.000000000")))
		if err := w.Write(in); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(in); err != nil {
			t.Fatal(err)
		}
		w.Close()
		r, err := OpenReader(disk.OS{}, w.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for range 2 {
			out, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Record(), raw) {
				t.Fatalf("record came back as %q, want %q", out.Record(), raw)
			}
			if out.Generation != 2 || !out.NotBefore.Equal(when) || out.Reason != "rejected" {
				t.Fatalf("letter came back as %+v", out)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("after the last letter: %v", err)
		}
	})
}

func TestReaderGoesOnAfterABadLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letters")
	good := Letter{Reason: "exhausted"}
	good.SetRecord([]byte(`{"a":"b"}`))
	line, err := good.Encode()
	if err != nil {
		t.Fatal(err)
	}
	long := bytes.Repeat([]byte("x"), maxLetter+10)
	content := bytes.Join([][]byte{line, []byte("junk\n{\"v\":2}\n\n"), long, []byte("\n"), line, line[:len(line)/2]}, nil)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(disk.OS{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var ok, bad, torn int
	for {
		_, err := r.Next()
		if err == io.EOF {
			break
		}
		switch {
		case err == nil:
			ok++
		case errors.Is(err, ErrFormat):
			bad++
		case errors.Is(err, ErrTorn):
			torn++
		default:
			t.Fatal(err)
		}
	}
	if ok != 2 || bad != 3 || torn != 1 {
		t.Fatalf("%d letters, %d bad lines and %d torn, want 2, 3 and 1", ok, bad, torn)
	}
	if r.Line() != 7 {
		t.Fatalf("last line is %d, want 7: lines are physical", r.Line())
	}
}

func TestWriterIsPrivateAndNeverReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letters")
	w := NewWriter(disk.OS{}, path)
	l := Letter{Reason: "invalid"}
	l.SetRecord([]byte("x"))
	if err := w.Write(l); err != nil {
		t.Fatal(err)
	}
	w.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Fatalf("mode is %v", info.Mode())
	}
	if err := NewWriter(disk.OS{}, path).Write(l); !errors.Is(err, os.ErrExist) {
		t.Fatalf("writing over another run's letters: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	l := Letter{Reason: "unknown"}
	l.SetRecord([]byte(`{"a":"b"}`))
	line, _ := l.Encode()
	f.Add(line)
	f.Add([]byte(`{"v":1,"envelope":null}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		l, err := decode(line)
		if err != nil {
			return
		}
		again, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := decode(again)
		if err != nil {
			t.Fatalf("%q does not read back: %v", again, err)
		}
		if !bytes.Equal(back.Record(), l.Record()) {
			t.Fatalf("record changed: %q, %q", back.Record(), l.Record())
		}
	})
}
