package netshape

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

func metricsOf(t testing.TB, s Status) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteMetrics(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// numbered gives each number of v a value of its own, from first on, and returns
// them by field.
func numbered(v any, first int64) map[string]int64 {
	given := map[string]int64{}
	for i, s := 0, reflect.ValueOf(v).Elem(); i < s.NumField(); i++ {
		n := first + int64(i)
		switch f := s.Field(i); f.Kind() {
		case reflect.Int64: // a time, in whole seconds
			f.SetInt(n * int64(time.Second))
		case reflect.Uint32, reflect.Uint64:
			f.SetUint(uint64(n))
		default:
			continue
		}
		given[s.Type().Field(i).Name] = n
	}
	return given
}

// shaped is the status of a machine with all there can be.
func shaped() Status {
	up := cakeAt("9mbit")
	up.Down = 50e6
	tins := make([]tc.Tin, 4)
	for i, name := range []string{"Bulk", "Best Effort", "Video", "Voice"} {
		numbered(&tins[i], int64(1000*(i+1)))
		tins[i].Name = name
	}
	root := QueueStatus{Kind: tc.KindCake, Rate: 9e6, Tins: tins}
	numbered(&root.Stats, 100)
	htb := QueueStatus{Kind: tc.KindHTB, Rate: 50e6, Tins: []tc.Tin{{Name: "Best Effort", Packets: 7}}}
	return Status{
		Rollbacks: 2, Pending: &Pending{ID: "x"},
		Interfaces: []InterfaceStatus{
			{Name: "eth1", Present: true, Up: true, Ours: true, Root: root, Ingress: &htb, Wanted: up.wanted(), Since: time.Unix(1700000000, 0), Drift: []string{"a", "b"}},
			{Name: "wwan0", Drift: []string{"the interface is gone"}, Wanted: up.wanted(), Since: time.Unix(1700000001, 0)},
			{Name: "lan0", Present: true, Root: QueueStatus{Kind: "noqueue"}},
		},
		Marks: MarksStatus{Present: true, Drift: "its rules are gone", Rules: []dscpmark.Rule{
			{Chain: dscpmark.ChainPost, Class: "bulk", Packets: 1, Bytes: 100},
			{Chain: dscpmark.ChainPost, Class: "bulk", Packets: 2, Bytes: 200},
			{Chain: dscpmark.ChainOut, Class: "bulk", Packets: 4, Bytes: 400},
			{Chain: dscpmark.ChainPost, Packets: 8, Bytes: 800},
		}},
	}
}

func TestMetrics(t *testing.T) {
	text := metricsOf(t, shaped())
	for _, line := range []string{
		`trafficup_netshape_rollbacks_total 2`,
		`trafficup_netshape_pending 1`,
		`trafficup_netshape_marks_present 1`,
		`trafficup_netshape_marks_drift 1`,
		`trafficup_netshape_class_packets_total{chain="mark_post",class="bulk"} 3`,
		`trafficup_netshape_class_bytes_total{chain="mark_post",class="bulk"} 300`,
		`trafficup_netshape_class_packets_total{chain="classify_out",class="bulk"} 4`,
		`trafficup_netshape_class_packets_total{chain="mark_post",class="-"} 8`,
		`trafficup_netshape_interface_present{interface="wwan0"} 0`,
		`trafficup_netshape_interface_up{interface="eth1"} 1`,
		`trafficup_netshape_shaped{interface="lan0"} 0`,
		`trafficup_netshape_drift{interface="eth1"} 2`,
		`trafficup_netshape_drift{interface="lan0"} 0`,
		`trafficup_netshape_wanted_up_bytes_per_second{interface="eth1"} 1125000`,
		`trafficup_netshape_wanted_down_bytes_per_second{interface="eth1"} 6250000`,
		`trafficup_netshape_applied_timestamp_seconds{interface="eth1"} 1700000000`,
		`trafficup_netshape_queue_info{interface="eth1",direction="up",kind="cake"} 1`,
		`trafficup_netshape_queue_info{interface="lan0",direction="up",kind="noqueue"} 1`,
		`trafficup_netshape_rate_bytes_per_second{interface="eth1",direction="down"} 6250000`,
		`trafficup_netshape_tin_sent_packets_total{interface="eth1",direction="down",tin="Best Effort"} 7`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	// What is not known is not there: zero would be an answer.
	for _, absent := range []string{
		`marked_packets_total{interface="eth1",direction="down"`, `tin_average_delay_seconds{interface="eth1",direction="down"`,
		`interface="wwan0",direction`, `wanted_up_bytes_per_second{interface="lan0"}`,
	} {
		if strings.Contains(text, absent) {
			t.Errorf("there is %s", absent)
		}
	}
	denied := shaped()
	denied.Denied = "no rights"
	if text := metricsOf(t, denied); strings.Contains(text, "marks_") || strings.Contains(text, "class_") {
		t.Error("tells of marks that could not be read")
	}
	wellFormed(t, text)
}

// Every number that the kernel tells of a queue and of a tin is told, once.
func TestMetricsAreComplete(t *testing.T) {
	var (
		root = QueueStatus{Kind: tc.KindCake, Tins: make([]tc.Tin, 1)}
		tin  = &root.Tins[0]
	)
	stats, fields := numbered(&root.Stats, 100), numbered(tin, 8000)
	text := metricsOf(t, Status{Interfaces: []InterfaceStatus{{Name: "eth1", Present: true, Root: root}}})
	if len(fields) != reflect.TypeFor[tc.Tin]().NumField()-1 || len(stats) != reflect.TypeFor[tc.Stats]().NumField() {
		t.Fatal("a field is of a type that this test does not know")
	}
	for of, given := range map[string]map[string]int64{`direction="up"}`: stats, `tin=""}`: fields} {
		for field, n := range given {
			value := float64(n)
			if field == "Threshold" {
				value /= 8
			}
			if c := strings.Count(text, of+" "+strconv.FormatFloat(value, 'f', -1, 64)+"\n"); c != 1 {
				t.Errorf("%s of %s is there %d times", field, of, c)
			}
		}
	}
}

var (
	headLine   = regexp.MustCompile(`^# (HELP|TYPE) (trafficup_netshape_[a-z_]+) (.+)$`)
	sampleLine = regexp.MustCompile(`^(trafficup_netshape_[a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)*\})? ([0-9.]+)$`)
)

// wellFormed holds text against the format: help, type, and then all samples of
// a metric, each metric and each sample once, and none without a sample.
func wellFormed(t interface{ Errorf(string, ...any) }, text string) {
	seen, samples := map[string]bool{}, 1
	name := ""
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for n := 0; n < len(lines); n++ {
		if m := headLine.FindStringSubmatch(lines[n]); m != nil {
			next := headLine.FindStringSubmatch(lines[min(n+1, len(lines)-1)])
			if m[1] != "HELP" || next == nil || next[1] != "TYPE" || next[2] != m[2] || seen[m[2]] || samples == 0 {
				t.Errorf("line %d: %s", n+1, lines[n])
			}
			if total := strings.HasSuffix(m[2], "_total"); next != nil && total != (next[3] == "counter") {
				t.Errorf("%s is a %s", m[2], next[3])
			}
			name, seen[m[2]], samples = m[2], true, 0
			n++
			continue
		}
		m := sampleLine.FindStringSubmatch(lines[n])
		if m == nil || m[1] != name || seen[m[1]+m[2]+"}"] {
			t.Errorf("line %d: %s", n+1, lines[n])
			continue
		}
		if _, err := strconv.ParseFloat(m[3], 64); err != nil {
			t.Errorf("line %d: %v", n+1, err)
		}
		seen[m[1]+m[2]+"}"], samples = true, samples+1
	}
}

// Whatever a status holds, what is written is in the format.
func TestMetricsOfAnything(t *testing.T) {
	names := rapid.SampledFrom([]string{"eth1", "wwan0", `a"b\c`, "eth1@up", "\xff"})
	numbers := rapid.SampledFrom([]uint64{0, 1, 500, math.MaxUint32, math.MaxUint64})
	queue := rapid.Custom(func(t *rapid.T) QueueStatus {
		q := QueueStatus{Kind: rapid.SampledFrom([]tc.Kind{"", "cake", "htb", "fq_codel", "mq"}).Draw(t, "kind"), Rate: numbers.Draw(t, "rate")}
		for i := range rapid.IntRange(0, 4).Draw(t, "tins") {
			q.Tins = append(q.Tins, tc.Tin{Name: fmt.Sprint("Tin ", i), Bytes: numbers.Draw(t, "bytes"), AvgDelay: time.Duration(numbers.Draw(t, "delay") >> 1)})
		}
		return q
	})
	rapid.Check(t, func(t *rapid.T) {
		var s Status
		for _, name := range rapid.SliceOfDistinct(names, rapid.ID).Draw(t, "names") {
			i := InterfaceStatus{Name: name, Present: rapid.Bool().Draw(t, "present"), Root: queue.Draw(t, "root")}
			if rapid.Bool().Draw(t, "ingress") {
				q := queue.Draw(t, "in")
				i.Ingress = &q
			}
			s.Interfaces = append(s.Interfaces, i)
		}
		for range rapid.IntRange(0, 5).Draw(t, "rules") {
			s.Marks.Rules = append(s.Marks.Rules, dscpmark.Rule{Chain: names.Draw(t, "chain"), Class: names.Draw(t, "class"), Bytes: 1})
		}
		var b bytes.Buffer
		if err := WriteMetrics(&b, s); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, b.String())
	})
}

// The judge of the format finds no fault, and none with names and units.
func TestMetricsForPromtool(t *testing.T) { checkMetrics(t, metricsOf(t, shaped())) }

// checkMetrics has promtool judge text.
func checkMetrics(t *testing.T, text string) { promtool(t, text, "check", "metrics") }

// promtool has it say nothing but that all is well.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("this needs promtool (Debian: prometheus)")
		}
		t.Skip("this needs promtool (Debian: prometheus)")
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil || args[1] == "metrics" && len(out) > 0 {
		t.Errorf("promtool %s: %v\n%s", args[0], err, out)
	}
}

// The page for operators names each metric, and none that there is not.
func TestMetricsPage(t *testing.T) {
	page := string(must(os.ReadFile("../../docs/netshape-edge.md")))
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE trafficup_netshape_(\w+)`).FindAllStringSubmatch(metricsOf(t, shaped()), -1) {
		there[m[1]] = true
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("the page does not name %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`trafficup_netshape_(\w+)|`+"`(tin_[a-z_]+|[a-z_]+_total)`").FindAllStringSubmatch(page, -1) {
		if name := m[1] + m[2]; !there[name] {
			t.Errorf("the page names %s", name)
		}
	}
}

// The alerts of that page are in order, are raised by what they are for, and by
// nothing when all is well.
func TestAlerts(t *testing.T) {
	page := string(must(os.ReadFile("../../docs/netshape-edge.md")))
	_, rest, _ := strings.Cut(page, "```yaml\ngroups:")
	rules, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no rules on the page")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte("groups:"+rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", "--lint=all", "--lint-fatal", file)
	cases := must(os.ReadFile("testdata/alerts.yaml"))
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(string(cases), "alertname: "+m[1]+"\n") {
			t.Errorf("no case for %s", m[1])
		}
	}
	test := filepath.Join(dir, "alerts.yaml")
	if err := os.WriteFile(test, cases, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "test", "rules", test)
}
