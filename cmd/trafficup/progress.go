package main

import (
	"fmt"
	"time"

	"trafficup/internal/uploader"
)

// progress is how far a run is.
type progress struct {
	begin   time.Time
	serving time.Time // end of the first record that had to be sent; zero: none yet

	delivered, duplicate, refused, left int64 // records that ended; left to another run
	served                              int64 // of all these, those that had to be sent

	records     int64 // read; 0: not known
	read, total int64 // bytes of all files, as stored
	full        struct{ records, read int64 }

	paused string // by what; empty: it is not
}

// more counts a record that was read. Bytes come by the bufferful: when they grow,
// the records so far were in the bytes so far.
func (p *progress) more(read, total int64) {
	if read != p.read {
		p.full.records, p.full.read = p.records, p.read
	}
	p.records++
	p.read, p.total = read, total
}

// ended counts the end of a record.
func (p *progress) ended(b uploader.Bucket, now time.Time) {
	switch b {
	case uploader.Acked:
		p.delivered++
	case uploader.Duplicate:
		p.duplicate++
	case uploader.Invalids, uploader.Rejected, uploader.Conflict:
		p.refused++
	default:
		p.left++
	}
	switch b {
	case uploader.Duplicate, uploader.Invalids, uploader.Conflict:
		return
	}
	if p.served++; p.serving.IsZero() {
		p.serving = now
	}
}

func (p progress) done() int64 { return p.delivered + p.duplicate + p.refused + p.left }

// waiting is how many records were read and have no end yet. In a second reading of
// the files those come again that ended in the first.
func (p progress) waiting() int64 { return max(0, p.records-p.done()) }

// expected is how many records the whole input probably has: at least what was read.
func (p progress) expected() int64 {
	n := float64(p.records)
	for _, seen := range []struct{ records, read int64 }{p.full, {p.records, p.read}} {
		if seen.read > 0 {
			n = max(n, float64(seen.records)*float64(p.total)/float64(seen.read))
		}
	}
	return int64(n)
}

// line is progress in words.
func (p progress) line(now time.Time, dry bool) string {
	what := "delivered"
	if dry {
		what = "valid"
	}
	line := fmt.Sprintf("%d %s, %.0f/s", p.delivered, what, perSecond(p.delivered, now.Sub(p.begin)))
	if p.records > 0 {
		line += fmt.Sprintf(", %d waiting", p.waiting())
	}
	line += fmt.Sprintf(", %d refused", p.refused)
	if p.duplicate > 0 {
		line += fmt.Sprintf(", %d duplicate", p.duplicate)
	}
	if p.left > 0 {
		line += fmt.Sprintf(", %d left to another run", p.left)
	}
	if p.total > 0 {
		line += fmt.Sprintf(", %d%% of the input read", 100*p.records/max(1, p.expected()))
	}
	if p.paused != "" {
		line += "; " + p.paused
	}
	return line
}

// status is progress as an object.
func (p progress) status(now time.Time) any {
	return struct {
		Type      string  `json:"message_type"`
		Done      int64   `json:"done"`
		Rate      float64 `json:"rate"`
		Delivered int64   `json:"delivered"`
		Waiting   int64   `json:"waiting"`
		Refused   int64   `json:"refused"`
		Duplicate int64   `json:"duplicate"`
		Left      int64   `json:"left"`
		Read      int64   `json:"read_bytes"`
		Size      int64   `json:"total_bytes"`
		Paused    string  `json:"paused,omitzero"`
	}{"status", p.done(), perSecond(p.done(), now.Sub(p.begin)), p.delivered, p.waiting(), p.refused, p.duplicate, p.left, p.read, p.total, p.paused}
}

func perSecond(n int64, d time.Duration) float64 { return float64(n) / max(d.Seconds(), 0.001) }
