package deadletter

import (
	"testing"
	"time"
)

func TestFilter(t *testing.T) {
	noon := time.Date(2026, 7, 17, 12, 0, 0, 0, time.UTC)
	l := Letter{Reason: "rejected", Details: Details{
		SpotID: "SP-1", Key: "key-1", Status: 422, Run: "20260717T030000Z-abc123",
		Attempts: []Attempt{{At: noon.Add(-time.Hour)}, {At: noon}},
	}}
	l.SetRecord([]byte(`{"spot_id":"SP-1","station":"WXYZ-FM"}`))
	unsent := l
	unsent.Attempts = nil
	unsent.SetRecord([]byte("{\n\"station\":\"WXYZ-FM\"}"))
	nothing := Letter{}
	nothing.SetRecord([]byte("{"))
	for _, c := range []struct {
		name string
		f    Filter
		l    Letter
		want bool
	}{
		{"all", Filter{}, l, true},
		{"reason", Filter{Reasons: []string{"invalid", "rejected"}}, l, true},
		{"other reason", Filter{Reasons: []string{"invalid"}}, l, false},
		{"status", Filter{Statuses: []int{503, 422}}, l, true},
		{"other status", Filter{Statuses: []int{503}}, l, false},
		{"station", Filter{Station: "WXYZ-FM"}, l, true},
		{"station of raw bytes", Filter{Station: "WXYZ-FM"}, unsent, true},
		{"other station", Filter{Station: "WXYZ"}, l, false},
		{"station of nothing", Filter{Station: "WXYZ"}, nothing, false},
		{"key", Filter{Key: "key-1"}, l, true},
		{"other key", Filter{Key: "key-2"}, l, false},
		{"spot", Filter{SpotID: "SP-1"}, l, true},
		{"other spot", Filter{SpotID: "SP-2"}, l, false},
		{"since its last attempt", Filter{Since: noon}, l, true},
		{"since a second later", Filter{Since: noon.Add(time.Second)}, l, false},
		{"before its last attempt", Filter{Before: noon}, l, false},
		{"before a second later", Filter{Before: noon.Add(time.Second)}, l, true},
		{"since its run", Filter{Since: noon.Add(-9 * time.Hour)}, unsent, true},
		{"after its run", Filter{Since: noon.Add(-8 * time.Hour)}, unsent, false},
		{"no time at all", Filter{Since: time.Unix(0, 0)}, nothing, false},
		{"all of it", Filter{Reasons: []string{"rejected"}, Statuses: []int{422}, Station: "WXYZ-FM", Key: "key-1", SpotID: "SP-1", Since: noon}, l, true},
		{"all but one", Filter{Reasons: []string{"rejected"}, Statuses: []int{422}, Station: "WXYZ-FM", Key: "key-1", SpotID: "SP-2", Since: noon}, l, false},
	} {
		if got := c.f.Match(c.l); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestFirstSent(t *testing.T) {
	run := time.Date(2026, 7, 17, 3, 0, 0, 0, time.UTC)
	day := func(n int) Attempt { return Attempt{At: run.AddDate(0, 0, n)} }
	for _, c := range []struct {
		name     string
		attempts []Attempt
		want     time.Time
		ok       bool
	}{
		{"never sent", nil, time.Time{}, false},
		{"in order", []Attempt{day(1), day(2)}, run.AddDate(0, 0, 1), true},
		{"clock set back", []Attempt{day(5), day(2), day(3)}, run.AddDate(0, 0, 2), true},
		{"attempt without a time", []Attempt{{}}, run, true},
	} {
		l := Letter{Details: Details{Run: "20260717T030000Z-abc123", Attempts: c.attempts}}
		if at, ok := l.FirstSent(); !at.Equal(c.want) || ok != c.ok {
			t.Errorf("%s: %v, %v", c.name, at, ok)
		}
	}
}
