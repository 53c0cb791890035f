package journal

import (
	"fmt"
	"path/filepath"
	"testing"

	"trafficup/internal/disk"
)

// The survey counts each key once, as it stands last, and forgets what is old.
func TestSurvey(t *testing.T) {
	dir := t.TempDir()
	for run := range 3 {
		j, _ := ledger(t, dir, run)
		for key := range 10 {
			i := spot(key, key, 1, key+1)
			i.At = began.AddDate(0, 0, run)
			if key >= 6 {
				i.File = "other.ndjson"
			}
			intend(t, j, i)
			if key < 2*run { // acked: none, 0 and 1, 0 to 3
				j.Answer(answer(i.Key, Acked, 201), nil)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		days, acked, unknown int
		from                 string
	}{
		{0, 4, 6, "[{other.ndjson 4} {night.ndjson 2}]"},
		{3, 0, 0, "[]"},
	} {
		s, err := Survey(disk.OS{}, dir, began.AddDate(0, 0, c.days))
		if err != nil || s.Acked != c.acked || s.Unknown != c.unknown || fmt.Sprint(s.UnknownFrom) != c.from || len(s.Runs) != 3 || s.Segments != 1 || s.Bad != 0 {
			t.Errorf("since day %d: %+v, %v", c.days, s, err)
		}
	}
}

func TestSurveyOfNothing(t *testing.T) {
	s, err := Survey(disk.OS{}, filepath.Join(t.TempDir(), "ledger"), began)
	if err != nil || s.Segments != 0 || len(s.Runs) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
