package metrics

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Metric is one number that every T has.
type Metric[T any] struct {
	name, kind, help string
	value            func(T) float64
}

// Counter is a number that only grows, or begins anew; its name ends in _total.
func Counter[T any](name, help string, value func(T) float64) Metric[T] {
	return Metric[T]{name, "counter", help, value}
}

// Gauge is a number that stands as it is now.
func Gauge[T any](name, help string, value func(T) float64) Metric[T] {
	return Metric[T]{name, "gauge", help, value}
}

// Labelled is something that has metrics, with the labels that tell it from others.
type Labelled[T any] struct {
	Labels string // see [Labels]
	Of     T
}

// One is a list of a single thing, which needs no label.
func One[T any](of T) []Labelled[T] { return []Labelled[T]{{"", of}} }

// Write writes all metrics of all things, under names that begin with prefix, and
// nothing of no thing. No two things may have the same labels. What b cannot be given
// it tells when it is flushed.
func Write[T any](b *bufio.Writer, prefix string, metrics []Metric[T], things []Labelled[T]) {
	if len(things) == 0 {
		return
	}
	for _, m := range metrics {
		name := prefix + m.name
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, m.help, name, m.kind)
		for _, t := range things {
			braces := ""
			if t.Labels != "" {
				braces = "{" + t.Labels + "}"
			}
			fmt.Fprintf(b, "%s%s %s\n", name, braces, strconv.FormatFloat(m.value(t.Of), 'f', -1, 64))
		}
	}
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Labels are written for pairs of name and value.
func Labels(pairs ...string) string {
	var list []string
	for p := range slices.Chunk(pairs, 2) {
		list = append(list, fmt.Sprintf(`%s="%s"`, p[0], escapes.Replace(strings.ToValidUTF8(p[1], "?"))))
	}
	return strings.Join(list, ",")
}

// Yes is 1 for what holds, else 0.
func Yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Seconds is d in seconds.
func Seconds(d time.Duration) float64 { return float64(d) / float64(time.Second) }
