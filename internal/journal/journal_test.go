package journal

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"trafficup/internal/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var began = time.Date(2026, 7, 17, 0, 0, 0, 0, time.UTC)

const ttl = 30 * 24 * time.Hour

// ledger opens the n-th run in dir, a day after the one before.
func ledger(t testing.TB, dir string, n int) (*Journal, State) {
	t.Helper()
	j, s, err := Open(dir, Options{KeyTTL: ttl}, Run{ID: fmt.Sprint("run-", n), Command: "upload", Version: "v1", URLs: []string{"https://api.test/v1/logs"}, Started: began.AddDate(0, 0, n)})
	if err != nil {
		t.Fatal(err)
	}
	return j, s
}

// spot is a record: its key, its spot and its body are told by three numbers.
func spot(key, id, body, line int) *Intent {
	return &Intent{
		At: began, Key: fmt.Sprint("key-", key), SpotID: fmt.Sprint("S", id), Market: "501", Station: "WXYZ", AirDate: "2026-07-17",
		File: "night.ndjson", FileSHA256: "ab", Line: int64(line), Offset: int64(100 * line), Body: sha256.Sum256([]byte{byte(body)}),
	}
}

func intend(t testing.TB, j *Journal, i *Intent) {
	t.Helper()
	if err := j.Intend([]Intent{*i}); err != nil {
		t.Fatal(err)
	}
}

func wait(t testing.TB, enter func(done func(error))) {
	t.Helper()
	done := make(chan error, 1)
	enter(func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func answer(key string, c Class, status int) Answer {
	return Answer{Key: key, Attempt: 1, SentAt: began, AnsweredAt: began.Add(80 * time.Millisecond), Status: status, Class: c, Wrote: true, Path: "primary", Receipt: "r-1", Problem: "p"}
}

// What one run learns of a record decides what the next makes of it, of its
// copy, of another content under its key and of its spot under another key.
func TestFates(t *testing.T) {
	for name, c := range map[string]struct {
		tell                      func(*Journal) // after the intent
		same, other, twin         Verdict
		again                     bool
		unknownBefore, ackedThere int
	}{
		"acked":     {func(j *Journal) { wait(t, func(d func(error)) { j.Answer(answer("key-1", Acked, 201), d) }) }, Duplicate, SameKey, SameSpot, false, 0, 1},
		"no answer": {func(*Journal) {}, New, SameKey, SameSpot, true, 1, 0},
		"timeout":   {func(j *Journal) { j.Answer(answer("key-1", Retry, 0), nil) }, New, SameKey, SameSpot, true, 1, 0},
		"busy":      {func(j *Journal) { j.Answer(answer("key-1", Retry, 503), nil) }, New, SameKey, SameSpot, true, 0, 0},
		"rejected":  {func(j *Journal) { j.Answer(answer("key-1", Rejected, 422), nil) }, New, New, New, false, 0, 0},
		"withdrawn": {func(j *Journal) { j.End(End{Key: "key-1", At: began, Outcome: "halted"}, nil) }, New, New, New, false, 0, 0},
		"exhausted": {func(j *Journal) {
			j.Answer(answer("key-1", Retry, 503), nil)
			j.End(End{Key: "key-1", At: began, Outcome: "exhausted", Wrote: true}, nil)
		}, New, SameKey, SameSpot, true, 0, 0},
		"unknown": {func(j *Journal) {
			j.Answer(answer("key-1", Retry, 503), nil)
			j.End(End{Key: "key-1", At: began, Outcome: "unknown", Wrote: true}, nil)
		}, New, SameKey, SameSpot, true, 1, 0},
		"acked at second": {func(j *Journal) { j.Answer(answer("key-1", Retry, 0), nil); j.Answer(answer("key-1", Acked, 201), nil) }, Duplicate, SameKey, SameSpot, false, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j, _ := ledger(t, dir, 0)
			if s := j.Look(spot(1, 1, 1, 7)); s.Verdict != New || s.Again {
				t.Fatalf("at first: %+v", s)
			}
			intend(t, j, spot(1, 1, 1, 7))
			c.tell(j)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			for what, ask := range map[string]struct {
				record *Intent
				want   Verdict
			}{"the same": {spot(1, 1, 1, 3), c.same}, "other content": {spot(1, 1, 2, 3), c.other}, "other key": {spot(2, 1, 1, 3), c.twin}} {
				// A Look changes what a run knows, so each has a run of its own.
				j, s := ledger(t, dir, 1)
				if s.Unknown != c.unknownBefore || s.Acked != c.ackedThere || s.Last.ID == "" || s.Bad != 0 {
					t.Errorf("found %+v", s)
				}
				if j.Unknown("key-1") != (c.unknownBefore == 1) || j.Acked("key-1") != (c.ackedThere == 1) {
					t.Errorf("unknown %v, acked %v", j.Unknown("key-1"), j.Acked("key-1"))
				}
				got := j.Look(ask.record)
				if got.Verdict != ask.want || got.Verdict != New && (got.Run != "run-0" || got.File != "night.ndjson" || got.Line != 7) {
					t.Errorf("%s: %+v, want %v", what, got, ask.want)
				}
				if what == "the same" && (got.Again != c.again || got.Refused != (name == "rejected")) {
					t.Errorf("again: %v, want %v; refused: %v", got.Again, c.again, got.Refused)
				}
				if j.Unknown("key-1") && what == "the same" {
					t.Error("a record that was met is still said to be missing")
				}
				// Whatever it was before, in this run the first stands.
				if second := j.Look(ask.record); second.Verdict != Duplicate && ask.want != SameKey {
					t.Errorf("%s, a second time: %+v", what, second)
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// tell enters a run in which records are sent and answered, or not.
func tell(t *testing.T, dir string, day int, records ...any) {
	t.Helper()
	j, _ := ledger(t, dir, day)
	for _, r := range records {
		switch r := r.(type) {
		case *Intent:
			j.Look(r)
			intend(t, j, r)
		case Answer:
			j.Answer(r, nil)
		case End:
			j.End(r, nil)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// A correction that was accepted holds the spot from then on, unless nothing of
// it was applied; and it may go on being sent, whoever held the spot before.
func TestCorrections(t *testing.T) {
	busy, no := func(k string) Answer { return answer(k, Retry, 503) }, func(k string) Answer { return answer(k, Rejected, 422) }
	yes := func(k string) Answer { return answer(k, Acked, 201) }
	first, second, third := spot(1, 1, 1, 1), spot(2, 1, 2, 2), spot(3, 1, 3, 3)
	for name, c := range map[string]struct {
		told      []any
		verdict   [3]Verdict // of each of them, in a run of its own
		again     [3]bool
		overtaken [3]bool
	}{
		"acked, correction acked":    {[]any{first, yes("key-1"), second, yes("key-2")}, [3]Verdict{Duplicate, Duplicate, SameSpot}, [3]bool{}, [3]bool{true, false, false}},
		"acked, correction unknown":  {[]any{first, yes("key-1"), second}, [3]Verdict{Duplicate, New, SameSpot}, [3]bool{false, true, false}, [3]bool{true, false, false}},
		"acked, correction rejected": {[]any{first, yes("key-1"), second, no("key-2")}, [3]Verdict{Duplicate, SameSpot, SameSpot}, [3]bool{}, [3]bool{}},
		"busy, correction acked":     {[]any{first, busy("key-1"), second, yes("key-2")}, [3]Verdict{SameSpot, Duplicate, SameSpot}, [3]bool{true, false, false}, [3]bool{true, false, false}},
		"rejected, mended rejected":  {[]any{first, no("key-1"), second, no("key-2")}, [3]Verdict{New, New, New}, [3]bool{}, [3]bool{true, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tell(t, dir, 0, c.told...)
			for n, i := range []*Intent{first, second, third} {
				j, _ := ledger(t, dir, 1)
				if got := j.Overtaken(i); got != c.overtaken[n] {
					t.Errorf("record %d: overtaken %v", n+1, got)
				}
				if got := j.Look(i); got.Verdict != c.verdict[n] || got.Again != c.again[n] {
					t.Errorf("record %d: %+v, want %v, again %v", n+1, got, c.verdict[n], c.again[n])
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// In one run the index answers as plain maps would.
func TestIndexMatchesMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := Memory()
		type known struct{ id, body, line int }
		keys, spots := map[int]known{}, map[int]int{}
		for n := range rapid.IntRange(0, 400).Draw(t, "records") {
			key, id, body := rapid.IntRange(0, 300).Draw(t, "key"), rapid.IntRange(0, 300).Draw(t, "id"), rapid.IntRange(0, 1).Draw(t, "body")
			want, line := New, 0
			if k, ok := keys[key]; ok {
				want, line = SameKey, k.line
				if k.id == id && k.body == body {
					want = Duplicate
				}
			} else {
				keys[key] = known{id, body, n + 1}
				if l, ok := spots[id]; ok {
					want, line = SameSpot, l
				} else {
					spots[id] = n + 1
				}
			}
			got := j.Look(spot(key, id, body, n+1))
			if got.Verdict != want || got.Line != int64(line) || want != New && got.File != "night.ndjson" || got.Run != "" {
				t.Fatalf("record %d: %+v, want %v at %d", n, got, want, line)
			}
		}
	})
}

// Entries older than the life of a key are forgotten, younger ones are not.
func TestKeysAreForgotten(t *testing.T) {
	dir := t.TempDir()
	j, _ := ledger(t, dir, 0)
	intend(t, j, spot(1, 1, 1, 1))
	wait(t, func(d func(error)) { j.Answer(answer("key-1", Acked, 201), d) })
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for day, want := range map[int]int{29: 1, 30: 1, 31: 0} {
		j, s := ledger(t, dir, day)
		if s.Acked != want {
			t.Errorf("day %d: %d acked, want %d", day, s.Acked, want)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An ack whose intent was lost still keeps its record from being sent.
func TestAckWithoutIntent(t *testing.T) {
	dir := t.TempDir()
	j, _ := ledger(t, dir, 0)
	wait(t, func(d func(error)) { j.Answer(answer("key-1", Acked, 201), d) })
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, s := ledger(t, dir, 1)
	defer j.Close()
	if got := j.Look(spot(1, 1, 1, 1)); got.Verdict != Duplicate || s.Acked != 1 {
		t.Errorf("%+v, %+v", got, s)
	}
}

// All that was entered comes out again, as evidence.
func TestReadReturnsWhatWasEntered(t *testing.T) {
	dir := t.TempDir()
	j, _ := ledger(t, dir, 0)
	first, second := spot(1, 1, 1, 1), spot(2, 2, 2, 9)
	second.File, second.FileSHA256 = "other.csv", ""
	if err := j.Intend([]Intent{*first, *second}); err != nil {
		t.Fatal(err)
	}
	end := End{Key: "key-2", At: began.Add(time.Second), Outcome: "deferred", Reason: "deadline reached", Wrote: true}
	j.Answer(answer("key-1", Acked, 201), nil)
	wait(t, func(d func(error)) { j.End(end, d) })
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	var got []any
	report, bad, err := Read(disk.OS{}, dir, func(e any) error {
		if i, ok := e.(Intent); ok {
			i.fileNumber = 0
			e = i
		}
		got = append(got, e)
		return nil
	})
	want := []any{
		Run{ID: "run-0", Command: "upload", Version: "v1", URLs: []string{"https://api.test/v1/logs"}, Started: began},
		*first, *second, answer("key-1", Acked, 201), end,
	}
	if err != nil || bad != 0 || report.Frames != 7 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, %d bad, %v\n%+v\nwant\n%+v", report, bad, err, got, want)
	}
}

// The bytes per record hold the bound of 10 million keys in 400 MiB.
func TestIndexIsSmall(t *testing.T) {
	const n = 300_000
	before := heap()
	j := Memory()
	for i := range n {
		j.Look(spot(i, i, 1, i))
	}
	if per := float64(heap()-before) / n; per > 40 {
		t.Errorf("%.1f bytes a record, want at most 40", per)
	}
	runtime.KeepAlive(j)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func FuzzDecode(f *testing.F) {
	f.Add(Run{ID: "r", URLs: []string{"u"}, Started: began}.encode(nil))
	f.Add(file{1, "a", "b"}.encode(nil))
	f.Add(spot(1, 1, 1, 1).encode(nil))
	f.Add(answer("k", Acked, 201).encode(nil))
	f.Add(End{Key: "k", Outcome: "halted"}.encode(nil))
	f.Fuzz(func(t *testing.T, frame []byte) {
		entry, err := decode(frame)
		if err != nil || entry == nil {
			return
		}
		// What was read can be written and is read the same.
		type encoder interface{ encode([]byte) []byte }
		again, err := decode(entry.(encoder).encode(nil))
		if a, ok := entry.(Answer); ok && (len(a.Receipt) > maxText || len(a.Problem) > maxText) {
			return
		}
		if e, ok := entry.(End); ok && len(e.Reason) > maxText {
			return
		}
		if err != nil || fmt.Sprint(again) != fmt.Sprint(entry) {
			t.Fatalf("%+v became %+v, %v", entry, again, err)
		}
	})
}
