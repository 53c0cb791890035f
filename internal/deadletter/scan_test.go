package deadletter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"trafficup/internal/disk/disktest"
)

// put writes a file of letters: "reason key generation record" each, or a line
// as it is after "=".
func put(t testing.TB, d *disktest.Disk, name string, letters ...string) {
	t.Helper()
	var b bytes.Buffer
	for _, text := range letters {
		if raw, ok := strings.CutPrefix(text, "="); ok {
			b.WriteString(raw)
			continue
		}
		var l Letter
		var record string
		if _, err := fmt.Sscanf(text, "%s %s %d %s", &l.Reason, &l.Key, &l.Generation, &record); err != nil {
			t.Fatal(err)
		}
		l.Key = strings.TrimPrefix(l.Key, "-")
		l.SetRecord([]byte(`{"r":"` + record + `"}`))
		line, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
	}
	d.SetBytes(name, b.Bytes())
}

func TestSuperseded(t *testing.T) {
	for _, c := range []struct {
		name  string
		a, b  []string
		count []string // places of those that count
	}{
		{"other keys", []string{"unknown k1 0 x"}, []string{"unknown k2 0 x"}, []string{"a:1", "b:1"}},
		{"later file", []string{"unknown k1 0 x"}, []string{"exhausted k1 0 x"}, []string{"b:1"}},
		{"later line", []string{"unknown k1 0 x", "unknown k1 0 x"}, nil, []string{"a:2"}},
		{"higher generation in the earlier file", []string{"unknown k1 2 x"}, []string{"unknown k1 1 x"}, []string{"b:1"}},
		{"same key, mended record", []string{"rejected k1 2 x"}, []string{"rejected k1 0 y"}, []string{"a:1", "b:1"}},
		{"no key, same record", []string{"invalid - 0 x"}, []string{"invalid - 0 x", "invalid - 0 y"}, []string{"b:1", "b:2"}},
		{"conflict has another's key", []string{"exhausted k1 0 x", "conflict k1 0 y"}, []string{"conflict k1 0 z"}, []string{"a:1", "a:2", "b:1"}},
		{"conflict twice", []string{"conflict k1 0 y"}, []string{"conflict k1 1 y"}, []string{"b:1"}},
		{"invalid ones share a key", []string{"invalid k 0 x", "invalid k 0 y", "invalid k 0 z"}, nil, []string{"a:1", "a:2", "a:3"}},
		{"invalid again", []string{"invalid k 0 x", "invalid k 0 y"}, []string{"invalid k 0 x"}, []string{"a:2", "b:1"}},
		{"invalid has another's key", []string{"invalid k1 0 x"}, []string{"exhausted k1 0 y", "invalid k1 0 z"}, []string{"a:1", "b:1", "b:2"}},
		{"bad lines between", []string{"=junk\n", "unknown k1 0 x", "=\n"}, []string{"=junk\n", "unknown k1 0 x", "={\"v"}, []string{"b:2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := disktest.New()
			put(t, d, "a", c.a...)
			put(t, d, "b", c.b...)
			s := NewScanner(d.FS(), []string{"a", "b", "missing"})
			for range 2 { // the second time after a rewind
				var count []string
				all, missing := 0, 0
				for {
					e, err := s.Next()
					if err == io.EOF {
						break
					}
					if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTorn) {
						missing++
					}
					if err != nil {
						continue
					}
					if all++; !e.Superseded() {
						count = append(count, fmt.Sprintf("%s:%d", e.Ref.File, e.Ref.Line))
					}
				}
				if !slices.Equal(count, c.count) || missing != 1 {
					t.Errorf("%v count, want %v; %d files missing", count, c.count, missing)
				}
				s.Rewind()
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkScanner reads letters and reports what one costs in memory.
func BenchmarkScanner(b *testing.B) {
	d := disktest.New()
	const n = 50_000
	var lines bytes.Buffer
	for i := range n {
		l := numbered(i)
		l.Attempts = make([]Attempt, 5)
		line, err := l.Encode()
		if err != nil {
			b.Fatal(err)
		}
		lines.Write(line)
	}
	d.SetBytes("f", lines.Bytes())
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := NewScanner(d.FS(), []string{"f"})
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(s)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "heapB/letter")
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "letters/s")
}
