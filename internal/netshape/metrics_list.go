package netshape

import (
	"trafficup/internal/metrics"
	"trafficup/internal/tc"
)

var machineMetrics = []metrics.Metric[Status]{
	metrics.Counter("rollbacks_total", "Applies that were taken back in this boot, for want of a confirmation.", func(s Status) float64 { return float64(s.Rollbacks) }),
	metrics.Gauge("pending", "1 while an apply waits for its confirmation.", func(s Status) float64 { return metrics.Yes(s.Pending != nil) }),
}

var marksMetrics = []metrics.Metric[MarksStatus]{
	metrics.Gauge("marks_present", "1 while the table that marks traffic stands.", func(m MarksStatus) float64 { return metrics.Yes(m.Present) }),
	metrics.Gauge("marks_drift", "1 while that table is not as it was set up.", func(m MarksStatus) float64 { return metrics.Yes(m.Drift != "") }),
}

var classMetrics = []metrics.Metric[counts]{
	metrics.Counter("class_packets_total", "Packets that the rules of a class matched; class - is what leaves by an uplink and is of none.", func(c counts) float64 { return float64(c.packets) }),
	metrics.Counter("class_bytes_total", "Bytes of these packets.", func(c counts) float64 { return float64(c.bytes) }),
}

var interfaceMetrics = []metrics.Metric[InterfaceStatus]{
	metrics.Gauge("interface_present", "1 while there is an interface of that name.", func(i InterfaceStatus) float64 { return metrics.Yes(i.Present) }),
	metrics.Gauge("interface_up", "1 while it carries traffic.", func(i InterfaceStatus) float64 { return metrics.Yes(i.Up) }),
	metrics.Gauge("shaped", "1 while the queue for what goes out is ours.", func(i InterfaceStatus) float64 { return metrics.Yes(i.Ours) }),
	metrics.Gauge("drift", "How many things stand otherwise than they were set up.", func(i InterfaceStatus) float64 { return float64(len(i.Drift)) }),
}

var wantedMetrics = []metrics.Metric[InterfaceStatus]{
	metrics.Gauge("wanted_up_bytes_per_second", "The rate that was set up for what goes out; 0: none.", func(i InterfaceStatus) float64 { return float64(i.Wanted.Up) / 8 }),
	metrics.Gauge("wanted_down_bytes_per_second", "The rate that was set up for what comes in; 0: none.", func(i InterfaceStatus) float64 { return float64(i.Wanted.Down) / 8 }),
	metrics.Gauge("applied_timestamp_seconds", "When it was set up.", func(i InterfaceStatus) float64 { return float64(i.Since.UnixMilli()) / 1000 }),
}

// infoMetrics say of what kind a queue is, in a label.
var infoMetrics = []metrics.Metric[QueueStatus]{
	metrics.Gauge("queue_info", "Always 1; its label kind is the queue's.", func(QueueStatus) float64 { return 1 }),
}

var queueMetrics = []metrics.Metric[QueueStatus]{
	metrics.Gauge("rate_bytes_per_second", "The queue's rate; 0: none.", func(q QueueStatus) float64 { return float64(q.Rate) / 8 }),
	metrics.Counter("sent_bytes_total", "Bytes sent.", func(q QueueStatus) float64 { return float64(q.Stats.Bytes) }),
	metrics.Counter("sent_packets_total", "Packets sent.", func(q QueueStatus) float64 { return float64(q.Stats.Packets) }),
	metrics.Counter("dropped_packets_total", "Packets dropped.", func(q QueueStatus) float64 { return float64(q.Stats.Drops) }),
	metrics.Counter("overlimits_total", "How often a packet had to wait for the rate.", func(q QueueStatus) float64 { return float64(q.Stats.Overlimits) }),
	metrics.Counter("requeues_total", "How often the interface was not ready for a packet.", func(q QueueStatus) float64 { return float64(q.Stats.Requeues) }),
	metrics.Gauge("queued_packets", "Packets that wait.", func(q QueueStatus) float64 { return float64(q.Stats.Queued) }),
	metrics.Gauge("backlog_bytes", "Bytes that wait.", func(q QueueStatus) float64 { return float64(q.Stats.Backlog) }),
}

// smartQueueMetrics are of queues that manage their length.
var smartQueueMetrics = []metrics.Metric[QueueStatus]{
	metrics.Counter("marked_packets_total", "Packets marked with ECN.", func(q QueueStatus) float64 { return float64(q.Stats.Marked) }),
	metrics.Gauge("memory_bytes", "Memory that the queue uses.", func(q QueueStatus) float64 { return float64(q.Stats.Memory) }),
}

var tinMetrics = []metrics.Metric[tc.Tin]{
	metrics.Counter("tin_sent_packets_total", "Packets sent.", func(t tc.Tin) float64 { return float64(t.Packets) }),
	metrics.Counter("tin_sent_bytes_total", "Bytes sent.", func(t tc.Tin) float64 { return float64(t.Bytes) }),
	metrics.Counter("tin_dropped_packets_total", "Packets dropped.", func(t tc.Tin) float64 { return float64(t.Dropped) }),
	metrics.Gauge("tin_backlog_bytes", "Bytes that wait.", func(t tc.Tin) float64 { return float64(t.Backlog) }),
	metrics.Gauge("tin_threshold_bytes_per_second", "The rate above which the tin is served last; it is no limit.", func(t tc.Tin) float64 { return float64(t.Threshold) / 8 }),
}

// cakeTinMetrics are what only cake knows.
var cakeTinMetrics = []metrics.Metric[tc.Tin]{
	metrics.Counter("tin_dropped_acks_total", "Acknowledgements dropped because a later one made them needless.", func(t tc.Tin) float64 { return float64(t.AcksDropped) }),
	metrics.Counter("tin_marked_packets_total", "Packets marked with ECN.", func(t tc.Tin) float64 { return float64(t.Marked) }),
	metrics.Gauge("tin_target_seconds", "Delay that the queue is held to.", func(t tc.Tin) float64 { return metrics.Seconds(t.Target) }),
	metrics.Gauge("tin_interval_seconds", "Time that flows have to react.", func(t tc.Tin) float64 { return metrics.Seconds(t.Interval) }),
	metrics.Gauge("tin_peak_delay_seconds", "Delay of packets in the queue of late, at its worst.", func(t tc.Tin) float64 { return metrics.Seconds(t.PeakDelay) }),
	metrics.Gauge("tin_average_delay_seconds", "Delay of packets in the queue of late, on average.", func(t tc.Tin) float64 { return metrics.Seconds(t.AvgDelay) }),
	metrics.Gauge("tin_base_delay_seconds", "Delay of packets in the queue of late, of flows that send little.", func(t tc.Tin) float64 { return metrics.Seconds(t.BaseDelay) }),
	metrics.Gauge("tin_sparse_flows", "Flows that send little.", func(t tc.Tin) float64 { return float64(t.SparseFlows) }),
	metrics.Gauge("tin_bulk_flows", "Flows that have a queue.", func(t tc.Tin) float64 { return float64(t.BulkFlows) }),
	metrics.Gauge("tin_unresponsive_flows", "Flows that do not slow down when they are told.", func(t tc.Tin) float64 { return float64(t.UnresponsiveFlows) }),
	metrics.Counter("tin_hash_indirect_hits_total", "Packets of flows that another place was found for.", func(t tc.Tin) float64 { return float64(t.IndirectHits) }),
	metrics.Counter("tin_hash_misses_total", "Packets of flows that were new.", func(t tc.Tin) float64 { return float64(t.Misses) }),
	metrics.Counter("tin_hash_collisions_total", "Packets of flows that share a queue with another.", func(t tc.Tin) float64 { return float64(t.Collisions) }),
	metrics.Gauge("tin_max_packet_bytes", "The longest packet.", func(t tc.Tin) float64 { return float64(t.MaxPacket) }),
	metrics.Gauge("tin_quantum_bytes", "Bytes that a flow may send in its turn.", func(t tc.Tin) float64 { return float64(t.Quantum) }),
}
