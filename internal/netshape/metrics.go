package netshape

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"trafficup/internal/tc"
)

// WriteMetrics writes s as metrics in the text format of Prometheus. Names begin
// with trafficup_netshape_ and stay as they are; sizes are in bytes, rates in bytes
// per second, times in seconds. Counters are the kernel's: they begin anew with a
// queue or a table. What cannot be known, such as the delays of a queue that does
// not measure them or the marks without rights, is left out and not zero. Each
// interface may be in s once.
func WriteMetrics(w io.Writer, s Status) error {
	b := bufio.NewWriter(w)
	write(b, machineMetrics, []labelled[Status]{{"", s}})
	if s.Denied == "" {
		write(b, marksMetrics, []labelled[MarksStatus]{{"", s.Marks}})
		write(b, classMetrics, classCounts(s.Marks))
	}
	var (
		interfaces, wanted  []labelled[InterfaceStatus]
		queues, smartQueues []labelled[QueueStatus]
		tins, cakeTins      []labelled[tc.Tin]
	)
	for _, i := range s.Interfaces {
		one := labelled[InterfaceStatus]{labels("interface", i.Name), i}
		interfaces = append(interfaces, one)
		if i.Wanted != nil {
			wanted = append(wanted, one)
		}
		for _, q := range i.queues() {
			queues = append(queues, q)
			if q.of.Kind == tc.KindCake || q.of.Kind == tc.KindFqCodel {
				smartQueues = append(smartQueues, q)
			}
			for _, t := range q.of.Tins {
				tin := labelled[tc.Tin]{q.labels + "," + labels("tin", t.Name), t}
				tins = append(tins, tin)
				if q.of.Kind == tc.KindCake {
					cakeTins = append(cakeTins, tin)
				}
			}
		}
	}
	write(b, interfaceMetrics, interfaces)
	write(b, wantedMetrics, wanted)
	write(b, infoMetrics, infos(queues))
	write(b, queueMetrics, queues)
	write(b, smartQueueMetrics, smartQueues)
	write(b, tinMetrics, tins)
	write(b, cakeTinMetrics, cakeTins)
	return b.Flush()
}

// labelled is something that has metrics, with the labels that tell it from others.
type labelled[T any] struct {
	labels string
	of     T
}

// metric is one number that every T has.
type metric[T any] struct {
	name, kind, help string
	value            func(T) float64
}

const (
	counter = "counter"
	gauge   = "gauge"
)

func write[T any](b *bufio.Writer, metrics []metric[T], things []labelled[T]) {
	if len(things) == 0 {
		return
	}
	for _, m := range metrics {
		name := "trafficup_netshape_" + m.name
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, m.help, name, m.kind)
		for _, t := range things {
			braces := ""
			if t.labels != "" {
				braces = "{" + t.labels + "}"
			}
			fmt.Fprintf(b, "%s%s %s\n", name, braces, strconv.FormatFloat(m.value(t.of), 'f', -1, 64))
		}
	}
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labels are written for pairs of name and value.
func labels(pairs ...string) string {
	var list []string
	for p := range slices.Chunk(pairs, 2) {
		list = append(list, fmt.Sprintf(`%s="%s"`, p[0], escapes.Replace(strings.ToValidUTF8(p[1], "?"))))
	}
	return strings.Join(list, ",")
}

// queues are those that stand at an interface: one for what goes out, and where we
// lead what comes in through another, that.
func (i InterfaceStatus) queues() (list []labelled[QueueStatus]) {
	if i.Present {
		list = append(list, labelled[QueueStatus]{labels("interface", i.Name, "direction", "up"), i.Root})
	}
	if i.Ingress != nil {
		list = append(list, labelled[QueueStatus]{labels("interface", i.Name, "direction", "down"), *i.Ingress})
	}
	return list
}

func infos(queues []labelled[QueueStatus]) (list []labelled[QueueStatus]) {
	for _, q := range queues {
		list = append(list, labelled[QueueStatus]{q.labels + "," + labels("kind", string(q.of.Kind)), q.of})
	}
	return list
}

// counts are of all rules of one chain for one class: which of them counted, IPv4's
// or IPv6's, is of no interest.
type counts struct{ packets, bytes uint64 }

func classCounts(m MarksStatus) (list []labelled[counts]) {
	for _, r := range m.Rules {
		class := r.Class
		if class == "" {
			class = NoClass
		}
		l := labels("chain", r.Chain, "class", class)
		n := slices.IndexFunc(list, func(c labelled[counts]) bool { return c.labels == l })
		if n < 0 {
			n, list = len(list), append(list, labelled[counts]{labels: l})
		}
		list[n].of.packets += r.Packets
		list[n].of.bytes += r.Bytes
	}
	return list
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func seconds(d time.Duration) float64 { return float64(d) / float64(time.Second) }
