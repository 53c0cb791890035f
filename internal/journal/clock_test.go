package journal

import (
	"testing"
	"time"
)

// runAt opens the ledger at a time, enters records and their acks, and returns what
// was found.
func runAt(t *testing.T, dir, id string, started time.Time, acks ...*Intent) State {
	t.Helper()
	j, s, err := Open(dir, Options{KeyTTL: ttl}, Run{ID: id, Started: started})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range acks {
		intend(t, j, i)
		a := answer(i.Key, Acked, 201)
		a.SentAt, a.AnsweredAt = i.At, i.At.Add(time.Second)
		wait(t, func(d func(error)) { j.Answer(a, d) })
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// ackAt is a record that is sent at a time.
func ackAt(key int, at time.Time) *Intent {
	i := spot(key, key, key, key)
	i.At = at
	return i
}

// Clocks that are wrong for a while, and how many acks the last run knows of. The
// life of a key is 30 days.
func TestClockThatWasWrong(t *testing.T) {
	day := func(n int) time.Time { return began.AddDate(0, 0, n) }
	epoch, ahead := time.Unix(3, 0), began.AddDate(10, 0, 0)
	type step struct {
		at    time.Time
		acks  []time.Time
		knows int
		leap  bool
	}
	for name, steps := range map[string][]step{
		"never": {{day(0), []time.Time{day(0)}, 0, false}, {day(20), []time.Time{day(20)}, 1, false}, {day(29), nil, 2, false},
			{day(31), nil, 1, false}, {day(49), nil, 1, false}, {day(51), nil, 0, false}},
		"starts in 1970, is set in the run": {
			{epoch, []time.Time{epoch, day(0)}, 0, false}, {day(1), nil, 2, false}, {day(29), nil, 2, false}, {day(31), nil, 0, false}},
		"a run in 1970, with nothing before": {
			{epoch, []time.Time{epoch}, 0, false}, {day(0), nil, 1, true}, {day(29), nil, 1, false}, {day(31), nil, 0, false}},
		"a run in 1970 after others": {
			{day(0), []time.Time{day(0)}, 0, false}, {epoch, []time.Time{epoch}, 1, false}, {day(1), nil, 2, false}, {day(29), nil, 2, false}, {day(31), nil, 0, false}},
		"a run ten years ahead": {
			{day(0), []time.Time{day(0)}, 0, false}, {ahead, []time.Time{ahead}, 1, true}, {day(1), []time.Time{day(1)}, 2, false},
			{day(29), nil, 3, false}, {day(32), nil, 1, false}},
		"many runs ten years ahead": {
			{day(0), []time.Time{day(0)}, 0, false}, {ahead, []time.Time{ahead}, 1, true}, {ahead.AddDate(0, 0, 29), nil, 2, false}, {ahead.AddDate(0, 0, 31), nil, 0, false}},
		"a machine that stood still for long": {
			{day(0), []time.Time{day(0)}, 0, false}, {day(500), []time.Time{day(500)}, 1, true}, {day(529), nil, 2, false}, {day(531), nil, 0, false}},
		"a machine that stood still for a while": {{day(0), []time.Time{day(0)}, 0, false}, {day(100), nil, 0, false}},
		"is set back in the run": {
			{day(10), []time.Time{day(10), day(-80)}, 0, false}, {day(11), nil, 2, false}, {day(41), nil, 0, false}},
		"leaps and leaps": {
			{epoch, []time.Time{epoch}, 0, false}, {epoch.AddDate(20, 0, 0), []time.Time{epoch.AddDate(20, 0, 0)}, 1, true}, {day(0), nil, 2, true},
			{day(29), nil, 2, false}, {day(31), nil, 0, false}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, key := t.TempDir(), 0
			for n, s := range steps {
				var acks []*Intent
				for _, at := range s.acks {
					key++
					acks = append(acks, ackAt(key, at))
				}
				found := runAt(t, dir, string(rune('a'+n)), s.at, acks...)
				if found.Acked != s.knows || (found.Leap > 0) != s.leap {
					t.Fatalf("run %d at %s knows of %d acks, a leap of %s; want %d, %v", n, s.at, found.Acked, found.Leap, s.knows, s.leap)
				}
			}
		})
	}
}
