package deadletter

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/disk/disktest"
)

func text(t *testing.T, d *disktest.Disk, name string) string {
	t.Helper()
	data, ok := d.Bytes(name)
	if !ok {
		return "none"
	}
	return string(data)
}

func lineOf(t *testing.T, letter string) string {
	t.Helper()
	d := disktest.New()
	put(t, d, "f", letter)
	return text(t, d, "f")
}

func TestSettle(t *testing.T) {
	a, b := lineOf(t, "unknown k1 0 x"), lineOf(t, "unknown k2 0 x")
	torn := a[:len(a)/2]
	long := strings.Repeat("x", maxLetter+200_000) + "\n"
	for _, c := range []struct {
		name, file, archive string
		done                []int64
		left, archived      string
	}{
		{"one of two", a + b, "none", []int64{2}, a, b},
		{"all", a + b, "none", []int64{1, 2}, "none", a + b},
		{"none", a + b, "none", nil, a + b, ""},
		{"archive is there", a + b, a, []int64{2}, a, a + b},
		{"archive is torn", a + b, a + torn, []int64{2}, a, a + b},
		{"archive is a lost block", a + b, a + "\x00\x00", []int64{2}, a, a + b},
		{"archive has no line end", a + b, a[:len(a)-1], []int64{2}, a, a + b},
		{"archive of another kind", a + b, "junk", []int64{2}, a, "junk\n" + b},
		{"archive with a long line", a + b, long + long[:len(long)-1], []int64{2}, a, long + long + b},
		{"blank lines", "\n" + a + "\n\n" + b, "none", []int64{5}, a, b},
		{"unreadable lines stay", "junk\n" + a + long + b, "none", []int64{1, 2, 3, 4}, "junk\n" + long, a + b},
		{"no line end", a + b[:len(b)-1], "none", []int64{2}, a, b},
		{"no line end, stays", a + b[:len(b)-1], "none", []int64{1}, b[:len(b)-1], a},
		{"torn tail", a + torn, "none", []int64{1}, "none", a + torn},
		{"torn tail, another stays", a + b + torn, "none", []int64{1}, b + torn, a},
		{"torn tail, archived before a crash", a + torn, a + torn, []int64{1}, "none", a + a + torn},
		{"nothing at all", "\n", "none", nil, "none", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := disktest.New()
			d.SetBytes("d/f", []byte(c.file))
			if c.archive != "none" {
				d.SetBytes("d/archive/f", []byte(c.archive))
			}
			done := map[int64]bool{}
			for _, n := range c.done {
				done[n] = true
			}
			if err := Settle(d.FS(), "d/f", done, nil); err != nil {
				t.Fatal(err)
			}
			d.PowerCut(rand.New(rand.NewPCG(1, 2)))
			if got := text(t, d, "d/f"); got != c.left {
				t.Errorf("left is %.200q, want %.200q", got, c.left)
			}
			if got := text(t, d, "d/archive/f"); got != c.archived {
				t.Errorf("archived is %.200q, want %.200q", got, c.archived)
			}
			if _, ok := d.Bytes("d/f.tmp"); ok {
				t.Error("the temporary file is left")
			}
		})
	}
}

func TestSettleWithNote(t *testing.T) {
	d := disktest.New()
	put(t, d, "f", "rejected k1 0 x", "rejected k2 0 x")
	note := &Note{At: time.Date(2026, 7, 17, 12, 0, 0, 0, time.UTC), Why: `paid by "hand"`}
	if err := Settle(d.FS(), "f", map[int64]bool{1: true}, note); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(d.FS(), "archive/f")
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.Next()
	if err != nil || l.Dropped == nil || *l.Dropped != *note || string(l.Record()) != `{"r":"x"}` {
		t.Errorf("%+v, %v", l, err)
	}
	if !strings.Contains(text(t, d, "archive/f"), `"dropped":{"at":"2026-07-17T12:00:00Z","why":"paid by \"hand\""}`) {
		t.Errorf("the archive is %s", text(t, d, "archive/f"))
	}
	if left := text(t, d, "f"); strings.Contains(left, "dropped") {
		t.Errorf("left is %s", left)
	}
}

// Superseded letters go with the one that counts, wherever it stands; a file
// with a torn tail alone goes too.
func TestScannerSettle(t *testing.T) {
	d := disktest.New()
	put(t, d, "a", "unknown k1 0 x", "unknown k2 0 x")
	put(t, d, "b", "unknown k1 1 x", "=junk\n")
	put(t, d, "c", `={"v":1,"rea`)
	put(t, d, "e", "=junk\n")
	s := NewScanner(d.FS(), []string{"a", "b", "c", "e", "missing"})
	moved, err := s.Settle(map[Ref]bool{{"b", 1}: true}, nil)
	if err != nil || moved != 2 {
		t.Fatalf("%d moved, %v", moved, err)
	}
	want := map[string]string{
		"a": lineOf(t, "unknown k2 0 x"), "archive/a": lineOf(t, "unknown k1 0 x"),
		"b": "junk\n", "archive/b": lineOf(t, "unknown k1 1 x"),
		"archive/c": `{"v":1,"rea`, "e": "junk\n",
	}
	got := map[string]string{}
	for _, name := range d.Names() {
		got[name] = text(t, d, name)
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// However often letters are settled and dropped, an archive holds letters alone,
// one a line; what was torn comes last.
func TestArchiveHoldsLettersAlone(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := disktest.New()
		var letters []string
		for n := range rapid.IntRange(1, 6).Draw(r, "letters") {
			letters = append(letters, fmt.Sprintf("unknown k%d 0 x", n))
		}
		count, torn := len(letters), rapid.SampledFrom([]string{"", `{"v":1,"rea`, "\x00\x00"}).Draw(r, "torn")
		put(t, d, "d/f", append(letters, "="+torn)...)
		for {
			file, ok := d.Bytes("d/f")
			if !ok {
				break
			}
			done := map[int64]bool{1: true}
			for n := range bytes.Count(file, []byte("\n")) {
				done[int64(n)+1] = rapid.Bool().Draw(r, "done")
			}
			var note *Note
			if rapid.Bool().Draw(r, "dropped") {
				note = &Note{Why: "x"}
			}
			if err := Settle(d.FS(), "d/f", done, note); err != nil {
				r.Fatal(err)
			}
		}
		archive := text(t, d, "d/archive/f")
		if torn != "" {
			var ok bool
			if archive, ok = strings.CutSuffix(archive, torn); !ok {
				r.Fatalf("%q does not end with %q", archive, torn)
			}
		}
		lines := strings.SplitAfter(archive, "\n")
		for _, line := range lines[:len(lines)-1] {
			if _, err := decode([]byte(line)); err != nil {
				r.Fatalf("%q: %v", line, err)
			}
		}
		if len(lines) != count+1 || lines[count] != "" {
			r.Fatalf("%d letters are archived as %q", count, archive)
		}
	})
}

// A crash or a power cut at every operation of a settle, and again while it is
// repeated: every letter is in the file or in the archive, and in the end those
// that were done are in the archive alone.
func TestSettleSurvivesCrashes(t *testing.T) {
	letters := []string{"unknown k0 0 x", "unknown k1 0 " + strings.Repeat("y", 1500), "unknown k2 0 x", "unknown k3 0 " + strings.Repeat("z", 700)}
	for _, all := range []bool{false, true} {
		done := []string{"k1", "k3"}
		if all {
			done = []string{"k0", "k1", "k2", "k3"}
		}
		for _, power := range []bool{false, true} {
			for seed := range uint64(3) {
				last := int64(0)
				for at := int64(1); last == 0; at++ {
					d := disktest.New()
					put(t, d, "d/f", letters...)
					put(t, d, "d/archive/f", "unknown old 0 x")
					r := rand.New(rand.NewPCG(seed, uint64(at)))
					for crash := range int64(3) {
						stop, n := at+crash, int64(0)
						d.Hook(func(disktest.Op) error {
							if n++; n == stop && power {
								d.PowerCut(r)
							} else if n == stop {
								d.Kill()
							}
							return nil
						})
						_ = settleKeys(d, done)
						if n < stop && crash == 0 {
							last = at
						}
						d.Hook(nil)
						check(t, d, at, done, false)
					}
					// A removal that no sync made durable may be undone.
					d.PowerCut(r)
					if err := settleKeys(d, done); err != nil {
						t.Fatalf("crash at %d: settled again: %v", at, err)
					}
					d.PowerCut(r)
					check(t, d, at, done, true)
				}
			}
		}
	}
}

// settleKeys settles as a replay does: by what is there now.
func settleKeys(d *disktest.Disk, keys []string) error {
	if _, ok := d.Bytes("d/f"); !ok {
		return nil
	}
	s := NewScanner(d.FS(), []string{"d/f"})
	done := map[Ref]bool{}
	for {
		e, err := s.Next()
		if err != nil {
			break
		}
		if slices.Contains(keys, e.Key) {
			done[e.Ref] = true
		}
	}
	_, err := s.Settle(done, nil)
	return err
}

func check(t *testing.T, d *disktest.Disk, at int64, done []string, settled bool) {
	t.Helper()
	file, torn := keysIn(t, d, "d/f")
	archive, _ := keysIn(t, d, "d/archive/f")
	if torn || archive["old"] != 1 {
		t.Fatalf("crash at %d: the file holds %v, torn %v; the archive %v", at, file, torn, archive)
	}
	for _, key := range []string{"k0", "k1", "k2", "k3"} {
		isDone := slices.Contains(done, key)
		if file[key] == 0 && archive[key] == 0 || !isDone && file[key] != 1 || settled && isDone && (file[key] != 0 || archive[key] == 0) {
			t.Fatalf("crash at %d: %s is in the file %d times, in the archive %d times", at, key, file[key], archive[key])
		}
	}
}

// An error leaves the file as it is.
func TestSettleErrors(t *testing.T) {
	for at := int64(1); ; at++ {
		d := disktest.New()
		put(t, d, "d/f", "unknown k0 0 x", "unknown k1 0 x")
		before := text(t, d, "d/f")
		hit := disktest.Kind("")
		n := int64(0)
		d.Hook(func(op disktest.Op) error {
			if n++; n == at {
				hit = op.Kind
				return bytes.ErrTooLarge
			}
			return nil
		})
		err := Settle(d.FS(), "d/f", map[int64]bool{1: true}, nil)
		if hit == "" {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		after := text(t, d, "d/f")
		if err == nil || after != before && hit != disktest.SyncDir {
			t.Fatalf("%s failed as operation %d: %v; left is %q", hit, at, err, after)
		}
	}
}

// A full disk may be met again and again: the archive does not grow with it.
func TestSettleOnAFullDisk(t *testing.T) {
	a, b := lineOf(t, "unknown k1 0 x"), lineOf(t, "unknown k2 0 x")
	d := disktest.New()
	d.SetBytes("f", []byte(a+b))
	d.Limit(int64(2*len(a) + len(b) + 10))
	for range 3 {
		if err := Settle(d.FS(), "f", map[int64]bool{1: true}, nil); err == nil {
			t.Fatal("settled without room")
		}
		if got := text(t, d, "archive/f"); got != "" {
			t.Fatalf("the archive holds %q", got)
		}
	}
	d.Limit(0)
	if err := Settle(d.FS(), "f", map[int64]bool{1: true}, nil); err != nil || text(t, d, "f") != b || text(t, d, "archive/f") != a {
		t.Fatalf("%v, %q and %q", err, text(t, d, "f"), text(t, d, "archive/f"))
	}
}

// The same record uploaded again and again leaves one letter that counts; the
// others go with the next replay, whatever becomes of that one.
func TestSettleTakesWhatIsSuperseded(t *testing.T) {
	d := disktest.New()
	put(t, d, "a", "invalid k 0 x")
	put(t, d, "b", "invalid k 0 x")
	s := NewScanner(d.FS(), []string{"a", "b"})
	if moved, err := s.Settle(nil, nil); moved != 1 || err != nil || text(t, d, "a") != "none" || text(t, d, "b") == "none" {
		t.Fatalf("%d moved, %v", moved, err)
	}
	put(t, d, "a", "invalid k 0 x")
	s = NewScanner(d.FS(), []string{"a", "b"})
	if moved, err := s.Settle(nil, &Note{Why: "other"}); moved != 0 || err != nil {
		t.Fatalf("%d dropped with others, %v", moved, err)
	}
}
