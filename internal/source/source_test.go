package source_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"trafficup/internal/source"
)

// all reads text through stdin and writes down what comes: "line:raw" or "line!reason".
func all(t testing.TB, text string, o source.Options) (got []string, fault error) {
	t.Helper()
	o.Stdin = strings.NewReader(text)
	r, err := source.Open("-", o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		it, err := r.Next()
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		if it.Reject != nil {
			got = append(got, fmt.Sprintf("%d!%s", it.Line, it.Reject.Reason))
		} else {
			got = append(got, fmt.Sprintf("%d:%s", it.Line, it.Raw))
		}
	}
}

func TestSplit(t *testing.T) {
	const head = "spot_id,idempotency_key,title\n"
	row := func(n int) string {
		return fmt.Sprintf(`{"spot_id":"S%d","idempotency_key":"key-%d","payload":{"title":"t"}}`, n, n)
	}
	for _, tt := range []struct {
		name, format, in string
		want             []string
		fault            error
		says             string
	}{
		{name: "blank file", in: " \n\n", fault: source.ErrEmpty},
		{name: "only nuls", in: strings.Repeat("\x00", 200000), fault: source.ErrEmpty},
		{name: "header alone", in: head, fault: source.ErrEmpty},
		{name: "empty array", in: "[]", fault: source.ErrEmpty},
		{name: "ctrl-z", in: "{}\r\n\x1a", want: []string{"1:{}"}},
		{name: "ctrl-z behind an open line", in: "{}\x1a", want: []string{"1:{}"}},
		{name: "blanks around", in: "\n  {\"a\":1} \r\n\n\t{}\n", want: []string{`2:{"a":1}`, "4:{}"}},
		{name: "brackets in text cut", in: "{\"a\":\"}\"", want: []string{"1!cut off: the file ends inside the record"}, fault: source.ErrTruncated},
		{name: "whole but wrong is not cut", in: "{]", want: []string{"1:{]"}},
		{name: "not a format", in: "hello\nworld\n", want: []string{"1:hello", "2:world"}},
		{name: "array explicit ndjson", format: "ndjson", in: "[{}]", fault: source.ErrRefused},
		{name: "ndjson explicit array", format: "json", in: "{}", fault: source.ErrRefused},
		{name: "unknown format", format: "xml", in: "{}", fault: source.ErrRefused},
		{name: "zip", in: "PK\x03\x04aaaa", fault: source.ErrRefused, says: "zip"},

		{name: "array", in: "[{\"a\":\"],}\\\"\"} ,\n 1,\"x\", null]\n", want: []string{`1:{"a":"],}\""}`, "2:1", `2:"x"`, "2:null"}},
		{name: "array trailing comma", in: "[{},]", want: []string{"1:{}"}, fault: source.ErrRefused, says: "trailing comma"},
		{name: "array empty element", in: "[{},,{}]", want: []string{"1:{}", "1!empty element", "1:{}"}},
		{name: "array no comma", in: "[{}\n{}]", want: []string{"1:{}", "2!no comma before this element"}},
		{name: "array no end", in: "[{},{}", want: []string{"1:{}", "1:{}"}, fault: source.ErrTruncated},
		{name: "array cut", in: "[{},{\"a\"", want: []string{"1:{}", "1!cut off: the file ends inside the record"}, fault: source.ErrTruncated},
		{name: "array more", in: "[{}]\n{}", want: []string{"1:{}"}, fault: source.ErrRefused, says: "line 2"},
		{name: "array open quote", in: "[\n{\"a\":\"x},\n{\"b\":1}\n]", want: []string{"2!line end inside a text", `3:{"b":1}`}},
		{name: "array open brace", in: "[{\"a\":{\"b\":\"1\"},{\"c\":1}]", want: []string{"1!closing bracket is missing", `1:{"c":1}`}},

		{name: "csv", in: head + "S1,key-1,t\r\n\r\nS2,key-2,t", want: []string{"2:" + row(1), "4:" + row(2)}},
		{name: "tsv", in: strings.ReplaceAll(head+"S1,key-1,t\n", ",", "\t"), want: []string{"2:" + row(1)}},
		{name: "semicolons", in: strings.ReplaceAll(head, ",", ";"), fault: source.ErrRefused, says: "semicolons"},
		{name: "csv optional", in: "air_date,t,Station,spot_id,market,idempotency_key\n,,W,s,m,k\n", want: []string{`2:{"spot_id":"s","idempotency_key":"k","payload":{"t":""},"market":"m","station":"W"}`}},
		{name: "csv quotes", in: head + "S1,key-1,\"a\"\"b,\nc\"\nS2,key-2,t\n", want: []string{`2:{"spot_id":"S1","idempotency_key":"key-1","payload":{"title":"a\"b,\nc"}}`, "4:" + row(2)}},
		{name: "csv open quote at the end", in: head + "S1,key-1,\"a\nS2,key-2,t\n", want: []string{"2!quote is not closed before the end of the file", "3:" + row(2)}},
		{name: "csv cut in quote", in: head + "S1,key-1,\"a", want: []string{"2!quote is not closed before the end of the file"}, fault: source.ErrTruncated},
		{name: "csv cut in row", in: head + "S1,key-1", want: []string{"2!2 cells, the header has 3"}, fault: source.ErrTruncated},
		{name: "csv counts", in: head + "S1,key-1,t,u\nS1\nS2,key-2,t\n", want: []string{"2!4 cells, the header has 3", "3!1 cells, the header has 3", "4:" + row(2)}},
		{name: "csv no name", in: "spot_id,idempotency_key,t,\n", fault: source.ErrRefused, says: "column 4"},
		{name: "csv no payload", in: "spot_id,idempotency_key\n", fault: source.ErrRefused, says: "payload"},
		{name: "csv long s", in: "\u017fpot_id,idempotency_key,t\n", fault: source.ErrRefused, says: "spot_id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := all(t, tt.in, source.Options{Format: tt.format})
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if !errors.Is(err, tt.fault) || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("fault %v, want %v, %q", err, tt.fault, tt.says)
			}
		})
	}
}

func TestTruncatedGzip(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for n := range 1000 {
		fmt.Fprintln(w, good(n))
	}
	w.Close()
	got, err := all(t, b.String()[:b.Len()/2], source.Options{})
	if !errors.Is(err, source.ErrTruncated) || !strings.Contains(err.Error(), "compressed") {
		t.Errorf("fault %v", err)
	}
	if len(got) < 100 || !strings.Contains(got[len(got)-1], "!cut off") {
		t.Errorf("%d items, the last %q", len(got), got[len(got)-1])
	}
}

// zeros gives n NULs without holding them.
type zeros int64

func (z *zeros) Read(p []byte) (int, error) {
	if *z <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), int64(*z))
	clear(p[:n])
	*z -= zeros(n)
	return int(n), nil
}

func TestNULsInBoundedMemory(t *testing.T) {
	z := zeros(500 << 20)
	r, err := source.Open("-", source.Options{Stdin: io.MultiReader(&z, strings.NewReader(good(1)+"\n"+good(2)+"\n"))})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if it, err := r.Next(); err != nil || it.Reject != nil {
			t.Fatalf("%+v %v", it, err)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapSys > 100<<20 {
		t.Errorf("heap of %d MiB", m.HeapSys>>20)
	}
}

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"b.csv", "a.ndjson.gz", "c.txt", ".d.json", "e.TSV.zst"} {
		os.WriteFile(filepath.Join(dir, n), nil, 0o600)
	}
	os.Mkdir(filepath.Join(dir, "f.json"), 0o700)
	files, errs := source.Expand([]string{"-", dir, filepath.Join(dir, "none"), filepath.Join(dir, "c.txt"), filepath.Join(dir, "f.json")})
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	if fmt.Sprint(names) != "[- a.ndjson.gz b.csv e.TSV.zst c.txt]" {
		t.Errorf("files %v", names)
	}
	if len(errs) != 2 || !errors.Is(errs[0], os.ErrNotExist) || !errors.Is(errs[1], source.ErrEmpty) {
		t.Errorf("errors %v", errs)
	}
}

// drain holds what must be true of any input.
func drain(t *testing.T, in []byte, o source.Options) {
	o.Stdin, o.MaxRecord = bytes.NewReader(in), 4096
	r, err := source.Open("-", o)
	if err != nil {
		if _, ok := errors.AsType[*source.FileError](err); !ok {
			t.Fatalf("%T", err)
		}
		return
	}
	defer r.Close()
	last := source.Position{Line: 1}
	for n := 0; ; n++ {
		it, err := r.Next()
		if err != nil {
			if _, ok := errors.AsType[*source.FileError](err); !ok && err != io.EOF {
				t.Fatalf("%T", err)
			}
			return
		}
		if n > len(in) {
			t.Fatal("more items than bytes")
		}
		if it.Line < last.Line || it.Offset < last.Offset {
			t.Fatalf("position %v after %v", it.Position, last)
		}
		last = it.Position
		if (it.Reject == nil) == (it.Raw == nil) || len(it.Raw) > 4096 {
			t.Fatalf("item %+v", it)
		}
		if it.Reject != nil && (len(it.Reject.Sample) > 1024 || it.Reject.Reason == "") {
			t.Fatalf("reject %+v", it.Reject)
		}
	}
}

func FuzzNDJSON(f *testing.F) {
	f.Add([]byte(good(1) + "\n" + good(2) + ",\n{"))
	f.Add([]byte("\x00\x00\xef\xbb\xbf{}\r\n\n\x1a"))
	f.Fuzz(func(t *testing.T, in []byte) {
		drain(t, in, source.Options{Format: "ndjson"})
		drain(t, in, source.Options{})
	})
}

func FuzzArray(f *testing.F) {
	f.Add([]byte("{}, {\"a\":[1]}\n,\"x\",,1]"))
	f.Add([]byte("{\"a\":\"\n,{},]\x00"))
	f.Fuzz(func(t *testing.T, in []byte) { drain(t, append([]byte("["), in...), source.Options{Format: "json"}) })
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("S1,key-1,\"a\nb\"\nS2,key-2,\"\"\"\nx,y\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		drain(t, append([]byte("spot_id,idempotency_key,t\n"), in...), source.Options{Format: "csv"})
		drain(t, in, source.Options{Format: "csv", DeriveKeys: true})
	})
}
