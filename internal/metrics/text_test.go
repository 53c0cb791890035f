package metrics

import (
	"bufio"
	"strings"
	"testing"
	"time"
)

func TestWrite(t *testing.T) {
	list := []Metric[time.Duration]{
		Counter("waits_total", "How often.", func(time.Duration) float64 { return 1e12 }),
		Gauge("wait_seconds", "How long.", Seconds),
	}
	var got strings.Builder
	b := bufio.NewWriter(&got)
	Write(b, "x_", list, []Labelled[time.Duration]{{Labels("who", "a\"b\\c\nd\xff", "and", "z"), 1500 * time.Millisecond}})
	Write(b, "y_", list[1:], One(time.Minute))
	Write(b, "z_", list, nil)
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `# HELP x_waits_total How often.
# TYPE x_waits_total counter
x_waits_total{who="a\"b\\c\nd?",and="z"} 1000000000000
# HELP x_wait_seconds How long.
# TYPE x_wait_seconds gauge
x_wait_seconds{who="a\"b\\c\nd?",and="z"} 1.5
# HELP y_wait_seconds How long.
# TYPE y_wait_seconds gauge
y_wait_seconds 60
`
	if got.String() != want {
		t.Errorf("%s\nwant\n%s", got.String(), want)
	}
}
