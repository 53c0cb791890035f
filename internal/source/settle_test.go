package source

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestAge(t *testing.T) {
	now := time.Date(2026, 7, 17, 0, 3, 11, 0, time.UTC)
	for _, tt := range []struct {
		mtime time.Time
		want  time.Duration
	}{
		{now, 0},
		{now.Add(-time.Second), time.Second},
		{now.Add(-3 * time.Second), 3 * time.Second},
		{now.Add(-time.Hour), 3 * time.Second},
		{time.Unix(0, 0), 3 * time.Second},
		{time.Time{}, 3 * time.Second},
		{now.Add(time.Nanosecond), 0},
		{now.Add(time.Hour), 0},
		{now.AddDate(1000, 0, 0), 0},
	} {
		if got := age(tt.mtime, now, 3*time.Second); got != tt.want {
			t.Errorf("age of a file of %s: %s, want %s", tt.mtime, got, tt.want)
		}
	}
}

// waited runs settle in a bubble on a file that looks as file says after so
// much time, and returns how long it took.
func waited(t *testing.T, quiet, stopAfter time.Duration, file func(start time.Time, after time.Duration) look) (d time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var stop chan struct{}
		if stopAfter > 0 {
			stop = make(chan struct{})
			time.AfterFunc(stopAfter, func() { close(stop) })
		}
		settle(func() look { return file(start, time.Since(start)) }, quiet, stop)
		d = time.Since(start)
	})
	return d
}

func TestSettle(t *testing.T) {
	const quiet = 3 * time.Second
	type at = func(start time.Time, after time.Duration) look
	alone := func(since time.Duration) at {
		return func(start time.Time, _ time.Duration) look { return look{1, start.Add(since), true} }
	}
	// changing is a file that changes until some time; its end stays open.
	changing := func(until time.Duration) at {
		return func(start time.Time, after time.Duration) look {
			after = min(after, until)
			return look{int64(after), start.Add(after), true}
		}
	}
	for _, tt := range []struct {
		name string
		file at
		stop time.Duration
		want time.Duration
	}{
		{"whole", func(start time.Time, _ time.Duration) look { return look{1, start, false} }, 0, 0},
		{"long ago", alone(-time.Hour), 0, 0},
		{"just long enough ago", alone(-quiet), 0, 0},
		{"a second ago", alone(-time.Second), 0, 2 * time.Second},
		{"between two looks", alone(-2950 * time.Millisecond), 0, 50 * time.Millisecond},
		{"now", alone(0), 0, quiet},
		{"from the future", alone(time.Hour), 0, quiet},
		{"completed", func(start time.Time, after time.Duration) look {
			return look{int64(after), start, after < 1250*time.Millisecond}
		}, 0, 1300 * time.Millisecond},
		{"written for a second", changing(time.Second), 0, time.Second + quiet},
		{"written for ever", changing(time.Hour), 0, 10 * quiet},
		{"rewritten for ever in one size", func(start time.Time, after time.Duration) look {
			return look{1, start.Add(after), true}
		}, 0, 10 * quiet},
		{"written for ever under one time", func(start time.Time, after time.Duration) look {
			return look{int64(after), start, true}
		}, 0, 10 * quiet},
		{"file time set back while waiting", func(start time.Time, after time.Duration) look {
			if after < time.Second {
				return look{1, start, true}
			}
			return look{2, start.Add(-time.Hour), true}
		}, 0, time.Second + quiet},
		{"gone", func(start time.Time, after time.Duration) look {
			if after < 700*time.Millisecond {
				return look{1, start, true}
			}
			return look{}
		}, 0, 700 * time.Millisecond},
		{"stopped", changing(time.Hour), 550 * time.Millisecond, 550 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := waited(t, quiet, tt.stop, tt.file); got != tt.want {
				t.Errorf("waited %s, want %s", got, tt.want)
			}
		})
	}
}

// Whatever a writer does, the wait is bounded, and a file still open at its end
// had been left alone, unless the bound was reached.
func TestSettleOfAnyWriter(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		quiet := rapid.Int64Range(1, int64(5*time.Second)).Draw(r, "quiet")
		pauses := rapid.SliceOfN(rapid.Int64Range(0, 2*quiet), 0, 40).Draw(r, "pauses")
		complete := rapid.Bool().Draw(r, "complete")
		var lastWrite time.Duration
		got := waited(t, time.Duration(quiet), 0, func(start time.Time, after time.Duration) look {
			var sum time.Duration
			n := 0
			for n < len(pauses) && sum+time.Duration(pauses[n]) <= after {
				sum += time.Duration(pauses[n])
				n++
			}
			lastWrite = sum
			return look{int64(n), start.Add(sum), !complete || n < len(pauses)}
		})
		switch q := time.Duration(quiet); {
		case got > maxPatience*q:
			r.Fatalf("waited %s", got)
		case complete && len(pauses) == 0 && got != 0:
			r.Fatalf("waited %s for a whole file", got)
		case !complete && got < maxPatience*q && got-lastWrite < q:
			r.Fatalf("read %s after a change, want %s", got-lastWrite, q)
		}
	})
}

func TestLookAt(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name, text string
		open       bool
	}{
		{"whole", "{}\n", false},
		{"cut", "{}\n{", true},
		{"one byte", "{", true},
		{"empty", "", false},
		{"gzip", "\x1f\x8b\x08xxx", false},
		{"zstd", "\x28\xb5\x2f\xfdxxx", false},
		{"xz", "\xfd7zXZ\x00xxx", false},
	} {
		path := filepath.Join(dir, tt.name)
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lookAt(path); got.open != tt.open {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	for _, name := range []string{dir, filepath.Join(dir, "none"), os.DevNull} {
		if got := lookAt(name); got != (look{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
