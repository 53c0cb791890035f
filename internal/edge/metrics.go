package edge

import (
	"bufio"
	"io"
	"strconv"
	"time"

	"trafficup/internal/failover"
	"trafficup/internal/metrics"
)

// WriteMetrics writes r as metrics in the text format of Prometheus. Names begin with
// trafficup_failover_ and stay as they are; times are in seconds. What is not known,
// such as the time of an uplink that never answered, is left out and not zero.
func WriteMetrics(w io.Writer, c failover.Config, r Report) error {
	b := bufio.NewWriter(w)
	const prefix = "trafficup_failover_"
	metrics.Write(b, prefix, loopMetrics, metrics.One(measured{c, r}))
	if r.Active != "" {
		metrics.Write(b, prefix, activeMetrics, metrics.One(r))
	}
	if r.Counts.Detected > 0 {
		metrics.Write(b, prefix, detectionMetrics, metrics.One(r.Counts))
	}
	metrics.Write(b, prefix, switchMetrics, switches(r.Counts))
	var all, answered []metrics.Labelled[path]
	var verdicts []metrics.Labelled[bool]
	for i, u := range c.Uplinks {
		label := metrics.Labels("uplink", u.Name)
		one := metrics.Labelled[path]{Labels: label, Of: path{u, r.State.Health[i], r.Active == u.Name, c.InWindow(i, r.At), r.Counts.Carried[u.Name], r.Uplinks[i].Probes}}
		all = append(all, one)
		if one.Of.Usual > 0 {
			answered = append(answered, one)
		}
		for _, v := range []failover.Verdict{failover.Up, failover.Degraded, failover.Down, failover.Unknown} {
			verdicts = append(verdicts, metrics.Labelled[bool]{Labels: label + "," + metrics.Labels("verdict", string(v)), Of: one.Of.Verdict == v})
		}
	}
	metrics.Write(b, prefix, pathMetrics, all)
	metrics.Write(b, prefix, timeMetrics, answered)
	metrics.Write(b, prefix, verdictMetrics, verdicts)
	return b.Flush()
}

// measured is a report with what it is of.
type measured struct {
	failover.Config
	Report
}

// path is an uplink with all that is known of it.
type path struct {
	failover.Uplink
	failover.Health
	active, window bool
	carried        time.Duration
	probes         Spent
}

var loopMetrics = []metrics.Metric[measured]{
	metrics.Gauge("decision_timestamp_seconds", "When the loop decided last; these numbers are of then.", func(m measured) float64 { return stamp(m.At) }),
	metrics.Gauge("all_down", "1 while no uplink works: all stays as it is.", func(m measured) float64 { return metrics.Yes(m.State.AllDown) }),
	metrics.Gauge("window", "1 while an uplink is in maintenance.", func(m measured) float64 { return metrics.Yes(m.Window) }),
	metrics.Gauge("forced", "1 while a person's choice, or a drill, counts for more than the rules.", func(m measured) float64 { return metrics.Yes(m.State.Forced.Until > 0) }),
	metrics.Gauge("damping_level", "Failovers not long ago, which double the time that a backup is kept for.", func(m measured) float64 { return float64(m.State.Level) }),
	metrics.Gauge("dwell_seconds", "How long a backup is kept for at least, at this level.", func(m measured) float64 { return metrics.Seconds(m.Dwell(m.State)) }),
	metrics.Counter("metered_seconds_total", "Time for which an uplink was active whose traffic is paid for.", func(m measured) float64 { return metrics.Seconds(m.metered()) }),
	metrics.Counter("reconciles_total", "How often routes or rules were put right without a switch.", func(m measured) float64 { return float64(m.Counts.PutBack) }),
	metrics.Counter("hook_failures_total", "Hooks that failed, took too long or were not run.", func(m measured) float64 { return float64(m.Counts.Hooks) }),
}

func (m measured) metered() (d time.Duration) {
	for _, u := range m.Config.Uplinks {
		if u.Metered {
			d += m.Counts.Carried[u.Name]
		}
	}
	return d
}

var activeMetrics = []metrics.Metric[Report]{
	metrics.Gauge("active_since_timestamp_seconds", "When the uplink became active that is.", func(r Report) float64 { return stamp(r.Since) }),
}

var detectionMetrics = []metrics.Metric[Counts]{
	metrics.Gauge("detection_seconds", "How long after its first bad round the last uplink that went down was left.", func(c Counts) float64 { return metrics.Seconds(c.Detected) }),
}

var switchMetrics = []metrics.Metric[Switches]{
	metrics.Counter("switches_total", "Switches; expected ones are of an uplink in maintenance, and the first choice comes from none.", func(s Switches) float64 { return float64(s.N) }),
}

func switches(c Counts) (list []metrics.Labelled[Switches]) {
	for _, s := range c.Switches {
		list = append(list, metrics.Labelled[Switches]{Labels: metrics.Labels("from", s.From, "to", s.To, "expected", strconv.FormatBool(s.Expected)), Of: s})
	}
	return list
}

var pathMetrics = []metrics.Metric[path]{
	metrics.Gauge("active", "1 for the uplink that carries what has no other way.", func(p path) float64 { return metrics.Yes(p.active) }),
	metrics.Gauge("up", "1 while it is well: neither degraded nor down nor unknown.", func(p path) float64 { return metrics.Yes(p.Verdict == failover.Up) }),
	metrics.Gauge("metered", "1 where its traffic is paid for.", func(p path) float64 { return metrics.Yes(p.Metered) }),
	metrics.Gauge("in_maintenance", "1 while it is in a window of maintenance.", func(p path) float64 { return metrics.Yes(p.window) }),
	metrics.Gauge("loss_ratio", "Share of its last 60 rounds that were bad.", func(p path) float64 { return p.LossPercent(60) / 100 }),
	metrics.Counter("rounds_total", "Rounds in which it was looked at.", func(p path) float64 { return float64(p.Rounds) }),
	metrics.Counter("probe_bytes_total", "Bytes of the probes that asked by it, there and back, IP headers included.", func(p path) float64 { return float64(p.probes.Boot) }),
	metrics.Counter("active_seconds_total", "Time for which it was active.", func(p path) float64 { return metrics.Seconds(p.carried) }),
}

var timeMetrics = []metrics.Metric[path]{
	metrics.Gauge("rtt_seconds", "Time of the fastest answer in its last good round.", func(p path) float64 { return metrics.Seconds(p.RTT) }),
	metrics.Gauge("usual_rtt_seconds", "Its usual time, without load.", func(p path) float64 { return metrics.Seconds(p.Usual) }),
}

var verdictMetrics = []metrics.Metric[bool]{
	metrics.Gauge("verdict", "1 for the verdict on an uplink: up, degraded, down or unknown.", metrics.Yes),
}

func stamp(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
