package main

import (
	"testing"
	"time"

	"trafficup/internal/uploader"
)

func TestProgressLine(t *testing.T) {
	begin := time.Date(2026, 7, 17, 1, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		ends    map[uploader.Bucket]int
		records int
		total   int64
		dry     bool
		want    string
	}{
		{nil, 34, 3400, false, "0 delivered, 0/s, 34 waiting, 0 refused, 100% of the input read"},
		{map[uploader.Bucket]int{uploader.Acked: 50, uploader.Rejected: 1, uploader.Invalids: 2, uploader.Conflict: 3}, 100, 20_000, false,
			"50 delivered, 5/s, 44 waiting, 6 refused, 50% of the input read"},
		{map[uploader.Bucket]int{uploader.Duplicate: 90, uploader.Deferred: 1, uploader.Unknown: 2}, 100, 0, false,
			"0 delivered, 0/s, 7 waiting, 0 refused, 90 duplicate, 3 left to another run"},
		{map[uploader.Bucket]int{uploader.Acked: 7}, 0, 0, false, "7 delivered, 1/s, 0 refused"}, // a replay
		{map[uploader.Bucket]int{uploader.Acked: 10}, 10, 1000, true, "10 valid, 1/s, 0 waiting, 0 refused, 100% of the input read"},
	} {
		p := progress{begin: begin}
		for n := range c.records {
			p.more(int64(n+1)*100, c.total)
		}
		for b, n := range c.ends {
			for range n {
				p.ended(b, begin)
			}
		}
		if got := p.line(begin.Add(10*time.Second), c.dry); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
