package wal

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"trafficup/internal/disk"
)

const benchPayload = 100 // bytes, 108 with the frame's head

func benchLog(b *testing.B, delay time.Duration) *Log {
	b.Helper()
	l, _, err := Open(b.TempDir(), Options{Delay: delay}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(benchPayload + headSize)
	b.ReportAllocs()
	b.ResetTimer()
	return l
}

func report(b *testing.B, l *Log) {
	b.Helper()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkAppend lets each of the waiters wait for its frame before the next.
func BenchmarkAppend(b *testing.B) {
	for _, waiters := range []int{1, 8, 64} {
		for _, delay := range []time.Duration{0, time.Millisecond} {
			b.Run(fmt.Sprintf("waiters=%d/delay=%v", waiters, delay), func(b *testing.B) {
				l := benchLog(b, delay)
				var wg sync.WaitGroup
				for w := range waiters {
					wg.Go(func() {
						p := make([]byte, benchPayload)
						ready := make(chan error, 1)
						for i := w; i < b.N; i += waiters {
							if err := l.Append(p, func(err error) { ready <- err }); err != nil {
								b.Error(err)
								return
							}
							if err := <-ready; err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
				report(b, l)
			})
		}
	}
}

// BenchmarkAppendQueue never waits for the disk, with 4096 on their way to it.
func BenchmarkAppendQueue(b *testing.B) {
	l := benchLog(b, 0)
	p := make([]byte, benchPayload)
	room := make(chan struct{}, 4096)
	free := func(error) { <-room }
	for range b.N {
		room <- struct{}{}
		if err := l.Append(p, free); err != nil {
			b.Fatal(err)
		}
	}
	report(b, l)
}

// BenchmarkRead reads a log of 100,000 frames.
func BenchmarkRead(b *testing.B) {
	const frames = 100_000
	where := b.TempDir()
	l, _, err := Open(where, Options{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	for range frames {
		if err := l.Append(make([]byte, benchPayload), nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(frames * (benchPayload + headSize))
	b.ReportAllocs()
	for b.Loop() {
		rep, err := Read(disk.OS{}, where, func(Pos, []byte) error { return nil })
		if err != nil || rep.Frames != frames {
			b.Fatalf("%+v, %v", rep, err)
		}
	}
	b.ReportMetric(frames*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkFind goes through 8 MiB without a good frame: text, and the worst,
// in which every byte begins a plausible length.
func BenchmarkFind(b *testing.B) {
	text := make([]byte, 8<<20)
	for i := range text {
		text[i] = "a line of text, "[i%16]
	}
	worst := make([]byte, 8<<20)
	for i := 0; i < len(worst); i += 4 {
		binary.LittleEndian.PutUint32(worst[i:], 0x00010000)
	}
	for name, data := range map[string][]byte{"text": text, "worst": worst} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				f := finder{data: data}
				if at := f.next(0); at != len(data) {
					b.Fatalf("found one at %d", at)
				}
			}
		})
	}
}
