package netshape

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// Each class is there once, whatever the families and directions; none comes last.
func TestClassesOf(t *testing.T) {
	rules := []dscpmark.Rule{
		{Chain: dscpmark.ChainOut, Class: "bulk", Packets: 5, Bytes: 500},
		{Chain: dscpmark.ChainOut, Class: "bulk"},
		{Chain: dscpmark.ChainOut, Packets: 7, Bytes: 70},
		{Chain: dscpmark.ChainFwd, Class: "bulk", Packets: 1, Bytes: 100},
		{Chain: dscpmark.ChainFwd, Class: "bulk", Packets: 1, Bytes: 50},
		{Chain: dscpmark.ChainFwd, Class: "urgent"},
		{Chain: dscpmark.ChainFwd, Packets: 2, Bytes: 20},
		{Chain: dscpmark.ChainPost, Class: "bulk", Packets: 4, Bytes: 400},
		{Chain: dscpmark.ChainPost, Class: "bulk", Packets: 3, Bytes: 250},
		{Chain: dscpmark.ChainPost, Class: "urgent"},
	}
	want := []ClassStatus{
		{"bulk", Count{7, 650}, Count{5, 500}, Count{2, 150}},
		{Class: "urgent"},
		{NoClass, Count{9, 90}, Count{7, 70}, Count{2, 20}},
	}
	if got := classesOf(rules); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := classesOf(nil); got != nil {
		t.Error(got)
	}
}

// keysOf are all keys of what v is in JSON.
func keysOf(t *testing.T, v any) (keys []string) {
	t.Helper()
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, v := range v {
				keys = append(keys, k)
				walk(v)
			}
		case []any:
			for _, v := range v {
				walk(v)
			}
		}
	}
	var tree any
	if err := json.Unmarshal(must(json.Marshal(v)), &tree); err != nil {
		t.Fatal(err)
	}
	walk(tree)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Keys of JSON are in lower case with words apart, and say the unit of times and
// rates; nothing of a queue's encoding is among them.
func TestStatusKeys(t *testing.T) {
	none := must(Parse(Spec{Name: "eth1", Kind: None}))
	q := QueueStatus{Kind: "cake", Tins: []tc.Tin{{}}}
	all := keysOf(t, []any{
		Status{Interfaces: []InterfaceStatus{{Wanted: none.wanted(), Ingress: &q, Root: q, Since: time.Now(), Autorate: &AutorateStatus{Lowered: time.Now()}}}, Marks: MarksStatus{Classes: []ClassStatus{{}}}},
		Reading{Delay: Millis{1}, Idle: Millis{1}, Assumed: Millis{1}, Carries: 1, Next: 1, TooHigh: "x", Look: "x", Error: "x"}, Measured{Proposed: 1},
	})
	for _, k := range all {
		if !regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`).MatchString(k) {
			t.Errorf("key %s", k)
		}
		if regexp.MustCompile(`(^|_)(rate|up|down|sent|delay|idle|next|loaded|jitter|target|interval|threshold|backlog|memory)$`).MatchString(k) && k != "up" {
			t.Errorf("key %s has no unit", k)
		}
	}
	page := string(must(os.ReadFile("../../docs/netshape.md")))
	for _, k := range slices.DeleteFunc(all, func(k string) bool { return k == "next_bit_s" || k == "look" }) { // of watch --autorate, which has no JSON of readings
		if !strings.Contains(page, "`"+k+"`") {
			t.Errorf("the page does not name %s", k)
		}
	}
	for _, k := range []string{"delay_ms", "rate_bit_s", "sent_bit_s", "avg_delay_ms", "threshold_bit_s", "up_bit_s", "proposed_bit_s", "backlog_bytes"} {
		if !slices.Contains(all, k) {
			t.Errorf("no key %s", k)
		}
	}
}

// What is written is read as the same.
func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 40 * ms: "40", 403_141 * time.Microsecond: "403.141", 999: "0", -1500 * time.Microsecond: "-1.5"} {
		text := string(must(json.Marshal(Millis{d})))
		var back Millis
		if err := json.Unmarshal([]byte(text), &back); err != nil || text != want || back.Duration != d.Truncate(time.Microsecond) {
			t.Errorf("%v: %s, %v, %v", d, text, back, err)
		}
	}
	if err := json.Unmarshal([]byte(`"40ms"`), &Millis{}); err == nil {
		t.Error("it takes words")
	}
}

// A tin's times are in JSON as milliseconds, all of them.
func TestTinInJSON(t *testing.T) {
	var tin tc.Tin
	numbered(&tin, 1000)
	var got map[string]any
	if err := json.Unmarshal(must(json.Marshal(tin)), &got); err != nil {
		t.Fatal(err)
	}
	if got["avg_delay_ms"] != float64(tin.AvgDelay.Milliseconds()) || got["threshold_bit_s"] != float64(tin.Threshold) || len(got) != reflect.TypeFor[tc.Tin]().NumField() {
		t.Error(got)
	}
}

// Status says since when the rate is lower, and what was applied.
func TestStatusOfAutorate(t *testing.T) {
	gauged(t, func(t *testing.T, b box, k *busyKernel, _ Gauge) {
		is := func(want *AutorateStatus) {
			t.Helper()
			got := must(b.Status("eth1")).Interfaces[0].Autorate
			if (got == nil) != (want == nil) || got != nil && (got.Min != want.Min || got.Applied != want.Applied || !got.Lowered.Equal(want.Lowered)) {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		steer := func(rate uint64) {
			t.Helper()
			must(b.steer(t.Context(), "eth1", 2e6, rate))
		}
		is(nil)
		steer(9e6)
		is(&AutorateStatus{Min: 2e6, Applied: 9e6})
		time.Sleep(time.Second)
		since := time.Now()
		steer(4e6)
		is(&AutorateStatus{2e6, 9e6, since})
		time.Sleep(20 * time.Second)
		steer(3e6)
		is(&AutorateStatus{2e6, 9e6, since})
		steer(9e6)
		is(&AutorateStatus{Min: 2e6, Applied: 9e6})
		must(b.steer(t.Context(), "eth1", 0, 0))
		is(nil)
		steer(4e6)
		time.Sleep(steeredFor + time.Second)
		is(nil)
	})
}
