package netshape

import (
	"bufio"
	"io"
	"slices"

	"trafficup/internal/metrics"
	"trafficup/internal/tc"
)

// metricsPrefix begins all names.
const metricsPrefix = "trafficup_netshape_"

// WriteMetrics writes s as metrics in the text format of Prometheus. Names begin
// with trafficup_netshape_ and stay as they are; sizes are in bytes, rates in bytes
// per second, times in seconds. Counters are the kernel's: they begin anew with a
// queue or a table. What cannot be known, such as the delays of a queue that does
// not measure them or the marks without rights, is left out and not zero. Each
// interface may be in s once.
func WriteMetrics(w io.Writer, s Status) error {
	b := bufio.NewWriter(w)
	metrics.Write(b, metricsPrefix, machineMetrics, metrics.One(s))
	if s.Denied == "" {
		metrics.Write(b, metricsPrefix, marksMetrics, metrics.One(s.Marks))
		metrics.Write(b, metricsPrefix, classMetrics, classCounts(s.Marks))
	}
	var (
		interfaces, wanted  []metrics.Labelled[InterfaceStatus]
		queues, smartQueues []metrics.Labelled[QueueStatus]
		tins, cakeTins      []metrics.Labelled[tc.Tin]
	)
	for _, i := range s.Interfaces {
		one := metrics.Labelled[InterfaceStatus]{Labels: metrics.Labels("interface", i.Name), Of: i}
		interfaces = append(interfaces, one)
		if i.Wanted != nil {
			wanted = append(wanted, one)
		}
		for _, q := range i.queues() {
			queues = append(queues, q)
			if q.Of.Kind == tc.KindCake || q.Of.Kind == tc.KindFqCodel {
				smartQueues = append(smartQueues, q)
			}
			for _, t := range q.Of.Tins {
				tin := metrics.Labelled[tc.Tin]{Labels: q.Labels + "," + metrics.Labels("tin", t.Name), Of: t}
				tins = append(tins, tin)
				if q.Of.Kind == tc.KindCake {
					cakeTins = append(cakeTins, tin)
				}
			}
		}
	}
	metrics.Write(b, metricsPrefix, interfaceMetrics, interfaces)
	metrics.Write(b, metricsPrefix, wantedMetrics, wanted)
	metrics.Write(b, metricsPrefix, infoMetrics, infos(queues))
	metrics.Write(b, metricsPrefix, queueMetrics, queues)
	metrics.Write(b, metricsPrefix, smartQueueMetrics, smartQueues)
	metrics.Write(b, metricsPrefix, tinMetrics, tins)
	metrics.Write(b, metricsPrefix, cakeTinMetrics, cakeTins)
	return b.Flush()
}

// queues are those that stand at an interface: one for what goes out, and where we
// lead what comes in through another, that.
func (i InterfaceStatus) queues() (list []metrics.Labelled[QueueStatus]) {
	if i.Present {
		list = append(list, metrics.Labelled[QueueStatus]{Labels: metrics.Labels("interface", i.Name, "direction", "up"), Of: i.Root})
	}
	if i.Ingress != nil {
		list = append(list, metrics.Labelled[QueueStatus]{Labels: metrics.Labels("interface", i.Name, "direction", "down"), Of: *i.Ingress})
	}
	return list
}

func infos(queues []metrics.Labelled[QueueStatus]) (list []metrics.Labelled[QueueStatus]) {
	for _, q := range queues {
		list = append(list, metrics.Labelled[QueueStatus]{Labels: q.Labels + "," + metrics.Labels("kind", string(q.Of.Kind)), Of: q.Of})
	}
	return list
}

// counts are of all rules of one chain for one class: which of them counted, IPv4's
// or IPv6's, is of no interest.
type counts struct{ packets, bytes uint64 }

func classCounts(m MarksStatus) (list []metrics.Labelled[counts]) {
	for _, r := range m.Rules {
		class := r.Class
		if class == "" {
			class = NoClass
		}
		l := metrics.Labels("chain", r.Chain, "class", class)
		n := slices.IndexFunc(list, func(c metrics.Labelled[counts]) bool { return c.Labels == l })
		if n < 0 {
			n, list = len(list), append(list, metrics.Labelled[counts]{Labels: l})
		}
		list[n].Of.packets += r.Packets
		list[n].Of.bytes += r.Bytes
	}
	return list
}
