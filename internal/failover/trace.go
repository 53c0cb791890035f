package failover

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// OutageFrom is how long an uplink of a recording has to fail without one good round
// for that to be an outage. What really was, nobody wrote down.
const OutageFrom = time.Minute

// Trace is a recording: what happened to uplinks, in the order of time.
type Trace struct {
	records []Record
	sorted  bool
}

// longestLine is of a recording.
const longestLine = 64 << 10

// Read adds the lines of a file. bad is called with the number of each line that says
// nothing, which is left out; n is how many said something.
func (t *Trace) Read(r io.Reader, bad func(line int, err error)) (n int, err error) {
	in := bufio.NewReaderSize(r, longestLine)
	for number := 1; ; number++ {
		line, err := in.ReadSlice('\n')
		long := false
		for errors.Is(err, bufio.ErrBufferFull) {
			long = true
			_, err = in.ReadSlice('\n')
		}
		switch record, fault := parseRecord(line); {
		case err != nil && !errors.Is(err, io.EOF):
			return n, err
		case long:
			bad(number, fmt.Errorf("longer than %d bytes", longestLine))
		case len(bytes.TrimSpace(line)) == 0: // a recording that went on after a crash
		case fault != nil:
			bad(number, fault)
		default:
			t.records, t.sorted = append(t.records, record), false
			n++
		}
		if err != nil {
			return n, nil
		}
	}
}

// Uplinks are the names that the recording has, in the order of their appearance.
func (t *Trace) Uplinks() (names []string) {
	t.sort()
	for _, r := range t.records {
		if !slices.Contains(names, r.Uplink) {
			names = append(names, r.Uplink)
		}
	}
	return names
}

// Span is the time from the first round to after the last.
func (t *Trace) Span() (begin time.Time, length time.Duration) {
	t.sort()
	if len(t.records) == 0 {
		return begin, 0
	}
	begin = t.records[0].At
	return begin, t.records[len(t.records)-1].At.Sub(begin) + last
}

// last is for how long the last round holds, before nothing was recorded any more.
const last = time.Second

func (t *Trace) sort() {
	if !t.sorted {
		slices.SortStableFunc(t.records, func(a, b Record) int { return a.At.Compare(b.At) })
		t.sorted = true
	}
}

// Paths are the uplinks of these names. Of one that the recording does not have
// nothing is ever known.
func (t *Trace) Paths(names []string) []Path {
	begin, _ := t.Span()
	runs := t.runs()
	paths := make([]Path, len(names))
	for i, name := range names {
		p := &recorded{}
		for _, r := range t.records {
			if r.Uplink == name {
				p.rounds = append(p.rounds, r.round(begin))
			}
		}
		p.within(runs)
		paths[i] = p
	}
	return paths
}

// runs are the times in which somebody recorded. One who is silent for much longer
// than usual did not run, which is no outage.
func (t *Trace) runs() (runs []span) {
	begin, _ := t.Span()
	pauses := make([]time.Duration, 0, len(t.records))
	for i, r := range t.records[min(1, len(t.records)):] {
		if d := r.At.Sub(t.records[i].At); d > 0 {
			pauses = append(pauses, d)
		}
	}
	slices.Sort(pauses)
	silence := 15 * time.Second
	if n := len(pauses); n > 0 {
		silence = max(silence, 10*pauses[n/2])
	}
	for _, r := range t.records {
		at := r.At.Sub(begin)
		if n := len(runs) - 1; n >= 0 && at-runs[n].to+last <= silence {
			runs[n].to = at + last
			continue
		}
		runs = append(runs, span{from: at, to: at + last})
	}
	return runs
}

// recorded is a [Path] of a recording: between two rounds what the first one saw
// holds. It answers for moments in their order only.
type recorded struct {
	rounds  []Round
	known   []span // in which there was a round before
	outages []span
	now     int // index of the last round that is known
	run     int // of known
	outage  int // of outages
}

// within finds when something is known, and the outages.
func (p *recorded) within(runs []span) {
	for _, run := range runs {
		i, _ := slices.BinarySearchFunc(p.rounds, run.from, func(r Round, t time.Duration) int { return int(r.At - t) })
		if i == len(p.rounds) || p.rounds[i].At >= run.to {
			continue
		}
		p.known = append(p.known, span{from: p.rounds[i].At, to: run.to})
		failing := time.Duration(-1)
		end := func(t time.Duration) {
			if failing >= 0 && t-failing >= OutageFrom {
				p.outages = append(p.outages, span{failing, t, true})
			}
			failing = -1
		}
		for ; i < len(p.rounds) && p.rounds[i].At < run.to; i++ {
			if r := p.rounds[i]; r.OK {
				end(r.At)
			} else if failing < 0 {
				failing = r.At
			}
		}
		end(run.to)
	}
}

// Known is the first moment from t on of which something is known.
func (p *recorded) Known(t time.Duration) (from time.Duration, ok bool) {
	for p.run < len(p.known) && p.known[p.run].to <= t {
		p.run++
	}
	if p.run == len(p.known) {
		return 0, false
	}
	return max(t, p.known[p.run].from), true
}

// At is the last round up to t.
func (p *recorded) At(t time.Duration) Round {
	for p.now+1 < len(p.rounds) && p.rounds[p.now+1].At <= t {
		p.now++
	}
	r := p.rounds[p.now]
	r.At = t
	return r
}

// Outage is the time without a good round that t lies in.
func (p *recorded) Outage(t time.Duration) (start time.Duration, ok bool) {
	for p.outage < len(p.outages) && p.outages[p.outage].to <= t {
		p.outage++
	}
	if p.outage == len(p.outages) || p.outages[p.outage].from > t {
		return 0, false
	}
	return p.outages[p.outage].from, true
}
