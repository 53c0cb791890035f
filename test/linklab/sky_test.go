package linklab

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Nothing passes in the spans that were asked for, each slot begins with a hiccup,
// and what lies between two changes is the same throughout.
func TestSky(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "length"))
		from := time.Duration(rapid.Int64Range(0, int64(length)).Draw(t, "from"))
		asked := Span{from, from + time.Duration(rapid.Int64Range(1, int64(10*time.Minute)).Draw(t, "span"))}
		s := NewSky(length, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), asked)
		changes := s.Changes()
		if !slices.IsSorted(changes) || changes[0] != 0 || !slices.Contains(changes, asked.From) || !slices.Contains(changes, asked.To) {
			t.Fatalf("changes %v, want those of %v among them", changes, asked)
		}
		for i, at := range changes {
			up, down := s.Netem(at)
			dark := slices.ContainsFunc(s.dark, func(d Span) bool { return d.From <= at && at < d.To })
			for _, args := range [][]string{up, down} {
				if text := strings.Join(args, " "); strings.HasSuffix(text, "loss 100%") != dark || !strings.Contains(text, "rate ") {
					t.Fatalf("dark is %v at %v: %s", dark, at, text)
				}
			}
			if i+1 < len(changes) {
				if later, _ := s.Netem(changes[i+1] - 1); !slices.Equal(up, later) {
					t.Fatalf("%q at %v, %q before %v", up, at, later, changes[i+1])
				}
			}
		}
	})
}

func TestSkyHiccup(t *testing.T) {
	s := Sky{slots: []slot{{20 * time.Millisecond, 10, 100}, {12 * time.Millisecond, 8, 50}}}
	for at, want := range map[time.Duration]string{
		time.Second:       "netem delay 20000us 4000us 25% distribution normal rate 10mbit limit 2000 loss gemodel 0.3% 30% 60% 0.1%",
		15 * time.Second:  "netem delay 57000us 4000us 25% distribution normal rate 8mbit limit 2000 loss 15%",
		100 * time.Second: "netem delay 12000us 4000us 25% distribution normal rate 8mbit limit 2000 loss gemodel 0.3% 30% 60% 0.1%",
	} {
		if up, _ := s.Netem(at); strings.Join(up, " ") != want {
			t.Errorf("at %v: %q, want %q", at, up, want)
		}
	}
}

func TestNeedless(t *testing.T) {
	e := Edge{Dark: Span{10 * time.Second, 60 * time.Second}}
	for _, c := range []struct {
		s    Switch
		want int
	}{
		{Switch{At: 5, From: "leo", To: "lte"}, 1},
		{Switch{At: 22, From: "leo", To: "lte"}, 0},
		{Switch{At: 61, From: "leo", To: "lte"}, 1},
		{Switch{At: 70, From: "lte", To: "leo"}, 0},
		{Switch{At: -1, To: "leo"}, 0},
	} {
		if got := e.Needless([]Switch{c.s}); got != c.want {
			t.Errorf("%+v: %d, want %d", c.s, got, c.want)
		}
	}
	if n := (Edge{}).Needless([]Switch{{At: 22, From: "leo", To: "lte"}}); n != 1 {
		t.Errorf("%d of a night without outage, want 1", n)
	}
}

func TestBytesOfASpan(t *testing.T) {
	r := EdgeRun{Carried: [2][]int{{1, 2, 4, 8}}}
	for _, c := range []struct{ from, to, want int }{{0, 2, 3}, {2, 9, 12}, {4, 9, 0}, {3, 2, 0}} {
		if got := r.Bytes(0, time.Duration(c.from)*time.Second, time.Duration(c.to)*time.Second); got != c.want {
			t.Errorf("from %d to %d: %d, want %d", c.from, c.to, got, c.want)
		}
	}
}
