package source_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/source"
)

// seen is what a reader gave.
type seen struct {
	records, cutOff int
	end             error // nil: the file was whole
}

func readAll(t *testing.T, r *source.Reader) (s seen) {
	t.Helper()
	for {
		it, err := r.Next()
		switch {
		case err == io.EOF:
			return s
		case err != nil:
			s.end = err
			return s
		case it.Reject == nil:
			s.records++
		case it.Reject.CutOff:
			s.cutOff++
		default:
			t.Fatalf("line %d: %s", it.Line, it.Reject.Reason)
		}
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A file that changes while it is read, its first record read already.
func TestFileChangesUnderTheReader(t *testing.T) {
	var b strings.Builder
	const total = 3000 // more than any buffer
	for n := range total {
		fmt.Fprintln(&b, good(n))
	}
	text := b.String()
	half := int64(strings.LastIndexByte(text[:len(text)/2], '\n') + 1)
	truncate := func(size int64) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, path string)
		whole  bool
		lost   bool // records are missing
		cutOff int
		says   string
	}{
		{"appended to", func(t *testing.T, path string) { appendTo(t, path, good(1)+"\n") }, false, false, 0, "still being written"},
		{"half a record more", func(t *testing.T, path string) { appendTo(t, path, good(1)[:9]) }, false, false, 0, "still being written"},
		{"cut between records", truncate(half), false, true, 0, "still being written"},
		{"cut in a record", truncate(half + 9), false, true, 1, "cut off"},
		{"replaced by rename", func(t *testing.T, path string) {
			if err := errors.Join(os.WriteFile(path+".new", []byte(good(1)), 0o600), os.Rename(path+".new", path)); err != nil {
				t.Fatal(err)
			}
		}, true, false, 0, ""},
		{"removed", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, true, false, 0, ""},
		{"touched", func(t *testing.T, path string) {
			if err := os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}, true, false, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.ndjson")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := source.Open(path, source.Options{Settle: time.Hour}) // whole: no wait
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if len(r.SHA256()) != 64 {
				t.Errorf("sum %q", r.SHA256())
			}
			if it, err := r.Next(); err != nil || it.Reject != nil {
				t.Fatalf("%v %v", it, err)
			}
			tt.change(t, path)
			got := readAll(t, r)
			if (got.records < total-1) != tt.lost || got.cutOff != tt.cutOff {
				t.Errorf("%+v", got)
			}
			if tt.whole {
				if got.end != nil {
					t.Errorf("end: %v, want none", got.end)
				}
				return
			}
			f, ok := errors.AsType[*source.FileError](got.end)
			if !ok || !errors.Is(f, source.ErrTruncated) || !strings.Contains(f.Reason, tt.says) || f.File != path {
				t.Errorf("end: %v, want %q", got.end, tt.says)
			}
		})
	}
}

// INP-15: the last record is half there when the file is opened.
func TestSettleWaitsForTheWriter(t *testing.T) {
	first, last := good(1)+"\n", good(2)+"\n"
	for _, tt := range []struct {
		name   string
		settle time.Duration
		writer func(t *testing.T, path string) // acts after a second
		waits  time.Duration
		want   seen
	}{
		{"at once", 0, nil, 0, seen{1, 1, source.ErrTruncated}},
		{"completed", 3 * time.Second, func(t *testing.T, path string) { appendTo(t, path, last[9:]) }, time.Second, seen{2, 0, nil}},
		{"completed and more", 3 * time.Second, func(t *testing.T, path string) { appendTo(t, path, last[9:]+good(3)+"\n") }, time.Second, seen{3, 0, nil}},
		{"grown, still open", 3 * time.Second, func(t *testing.T, path string) { appendTo(t, path, last[9:20]) }, 4 * time.Second, seen{1, 1, source.ErrTruncated}},
		{"whole without a line end", 3 * time.Second, func(t *testing.T, path string) { appendTo(t, path, last[9:len(last)-1]) }, 4 * time.Second, seen{2, 0, nil}},
		{"left alone", 3 * time.Second, func(*testing.T, string) {}, 3 * time.Second, seen{1, 1, source.ErrTruncated}},
		{"replaced by rename", 3 * time.Second, func(t *testing.T, path string) {
			if err := errors.Join(os.WriteFile(path+".new", []byte(first+last), 0o600), os.Rename(path+".new", path)); err != nil {
				t.Fatal(err)
			}
		}, time.Second, seen{2, 0, nil}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.ndjson")
			if err := os.WriteFile(path, []byte(first+last[:9]), 0o600); err != nil {
				t.Fatal(err)
			}
			// The file's time is real, that of the bubble is long past: the file
			// is from the future, as after a clock step.
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				if tt.writer != nil {
					time.AfterFunc(time.Second, func() { tt.writer(t, path) })
				}
				r, err := source.Open(path, source.Options{Settle: tt.settle})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if d := time.Since(start); d < tt.waits || d > tt.waits+100*time.Millisecond {
					t.Errorf("waited %s, want %s", d, tt.waits)
				}
				got := readAll(t, r)
				if !errors.Is(got.end, tt.want.end) || got.records != tt.want.records || got.cutOff != tt.want.cutOff {
					t.Errorf("%+v, want %+v", got, tt.want)
				}
			})
		})
	}
}

// A stopped run reads what is there; a file that is gone is missing as ever.
func TestSettleEndsEarly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.ndjson")
	if err := os.WriteFile(path, []byte(good(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		start := time.Now()
		r, err := source.Open(path, source.Options{Settle: time.Hour, Stop: stop})
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("waited %s", d)
		}
		if got := readAll(t, r); got != (seen{records: 1}) {
			t.Errorf("%+v", got)
		}
		r.Close()
		time.AfterFunc(time.Second, func() { os.Remove(path) })
		if _, err := source.Open(path, source.Options{Settle: time.Hour}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("removed while waiting: %v", err)
		}
	})
}
