package journal

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var benchRecords = flag.Int("ledger", 300_000, "records in the ledger that BenchmarkOpen opens")

// BenchmarkOpen opens a ledger full of acked records: what a run costs before
// its first record, in time, in memory and on the disk.
func BenchmarkOpen(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(15)) // as the program does
	dir := b.TempDir()
	j, _ := ledger(b, dir, 0)
	batch := make([]Intent, 0, 1000)
	for n := range *benchRecords {
		i := spot(n, n, n, n+1)
		i.Key, i.SpotID = fmt.Sprintf("6f1c2a90-%012d", n), fmt.Sprintf("SP-2026-0717-%07d", n)
		batch = append(batch, *i)
		if len(batch) < cap(batch) && n < *benchRecords-1 {
			continue
		}
		if err := j.Intend(batch); err != nil {
			b.Fatal(err)
		}
		for _, i := range batch {
			j.Answer(Answer{Key: i.Key, Attempt: 1, SentAt: began, AnsweredAt: began, Status: 201, Class: Acked, Wrote: true, Path: "primary", Receipt: "rcpt-00112233445566778899"}, nil)
		}
		batch = batch[:0]
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	j = nil
	debug.FreeOSMemory()
	before := heap()
	for b.Loop() {
		var s State
		j, s = ledger(b, dir, 1)
		b.StopTimer()
		if s.Acked != *benchRecords {
			b.Fatalf("%+v", s)
		}
		b.ReportMetric(float64(heap()-before)/float64(*benchRecords), "heap-B/record")
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(peak(b), "peak-MiB")
	b.ReportMetric(float64(*benchRecords)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(size(b, dir))/float64(*benchRecords), "disk-B/record")
}

// peak is the most memory the process ever had, in MiB: VmHWM.
func peak(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // not Linux
	}
	for line := range strings.Lines(string(status)) {
		var kB float64
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kB); err == nil {
			return kB / 1024
		}
	}
	b.Fatal("no VmHWM in /proc/self/status")
	return 0
}

func size(b *testing.B, dir string) (n int64) {
	files, err := filepath.Glob(dir + "/*.wal")
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			b.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// BenchmarkRecord is a record's way through the ledger when so many wait for
// the disk at once: each for its intent, none for its answer.
func BenchmarkRecord(b *testing.B) {
	for _, waiters := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("waiters=", waiters), func(b *testing.B) {
			j, _ := ledger(b, b.TempDir(), 0)
			var n atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range waiters {
				wg.Go(func() {
					for k := n.Add(1); k <= int64(b.N); k = n.Add(1) {
						i := spot(int(k), int(k), 1, 1)
						intend(b, j, i)
						j.Answer(answer(i.Key, Acked, 201), nil)
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			if err := j.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkBatch is a record's way as an upload takes it: intents in batches,
// answers not waited for.
func BenchmarkBatch(b *testing.B) {
	j, _ := ledger(b, b.TempDir(), 0)
	batch := make([]Intent, 32)
	for n := 0; n < b.N; n += len(batch) {
		for k := range batch {
			batch[k] = *spot(n+k, n+k, 1, 1)
			j.Look(&batch[k])
		}
		if err := j.Intend(batch); err != nil {
			b.Fatal(err)
		}
		for k := range batch {
			j.Answer(answer(batch[k].Key, Acked, 201), nil)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}
