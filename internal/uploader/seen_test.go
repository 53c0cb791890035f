package uploader

import (
	"fmt"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"trafficup/internal/envelope"
)

// seen answers as a plain map of everything would.
func TestSeenMatchesAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSeen()
		type known struct {
			content string
			place   Place
		}
		keys, spots := map[string]known{}, map[string]Place{}
		for i := range rapid.IntRange(0, 400).Draw(t, "records") {
			r := Record{
				Record: envelope.Record{
					Key: fmt.Sprint("key-", rapid.IntRange(0, 300).Draw(t, "key")), SpotID: fmt.Sprint("S", rapid.IntRange(0, 300).Draw(t, "spot")),
					Station: "WXYZ", AirDate: "2026-07-17", Body: []byte(fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "body"))),
				},
				Place: Place{File: fmt.Sprint("file", i/50), Line: int64(i + 1)},
			}
			content := r.SpotID + string(r.Body)
			want, place := unseen, Place{}
			if k, ok := keys[r.Key]; ok {
				want, place = sameKey, k.place
				if k.content == content {
					want = sameRecord
				}
			} else {
				keys[r.Key] = known{content, r.Place}
				if p, ok := spots[r.SpotID]; ok {
					want, place = sameSpot, p
				} else {
					spots[r.SpotID] = r.Place
				}
			}
			if got, at := s.add(r); got != want || at != place {
				t.Fatalf("record %d: %v at %v, want %v at %v", i, got, at, want, place)
			}
		}
	})
}

// The bytes per record hold the program's bound on a night of millions.
func TestSeenIsSmall(t *testing.T) {
	const n = 300_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := newSeen()
	for i := range n {
		s.add(Record{Record: envelope.Record{Key: fmt.Sprint("key-", i), SpotID: fmt.Sprint(i), Station: "WXYZ", AirDate: "2026-07-17"}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := float64(after.HeapAlloc-before.HeapAlloc) / n; per > 40 {
		t.Errorf("%.1f bytes a record, want at most 40", per)
	}
	runtime.KeepAlive(s)
}
