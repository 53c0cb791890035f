package netshape

import "trafficup/internal/tc"

var machineMetrics = []metric[Status]{
	{"rollbacks_total", counter, "Applies that were taken back in this boot, for want of a confirmation.", func(s Status) float64 { return float64(s.Rollbacks) }},
	{"pending", gauge, "1 while an apply waits for its confirmation.", func(s Status) float64 { return yes(s.Pending != nil) }},
}

var marksMetrics = []metric[MarksStatus]{
	{"marks_present", gauge, "1 while the table that marks traffic stands.", func(m MarksStatus) float64 { return yes(m.Present) }},
	{"marks_drift", gauge, "1 while that table is not as it was set up.", func(m MarksStatus) float64 { return yes(m.Drift != "") }},
}

var classMetrics = []metric[counts]{
	{"class_packets_total", counter, "Packets that the rules of a class matched; class - is what leaves by an uplink and is of none.", func(c counts) float64 { return float64(c.packets) }},
	{"class_bytes_total", counter, "Bytes of these packets.", func(c counts) float64 { return float64(c.bytes) }},
}

var interfaceMetrics = []metric[InterfaceStatus]{
	{"interface_present", gauge, "1 while there is an interface of that name.", func(i InterfaceStatus) float64 { return yes(i.Present) }},
	{"interface_up", gauge, "1 while it carries traffic.", func(i InterfaceStatus) float64 { return yes(i.Up) }},
	{"shaped", gauge, "1 while the queue for what goes out is ours.", func(i InterfaceStatus) float64 { return yes(i.Ours) }},
	{"drift", gauge, "How many things stand otherwise than they were set up.", func(i InterfaceStatus) float64 { return float64(len(i.Drift)) }},
}

var wantedMetrics = []metric[InterfaceStatus]{
	{"wanted_up_bytes_per_second", gauge, "The rate that was set up for what goes out; 0: none.", func(i InterfaceStatus) float64 { return float64(i.Wanted.Up) / 8 }},
	{"wanted_down_bytes_per_second", gauge, "The rate that was set up for what comes in; 0: none.", func(i InterfaceStatus) float64 { return float64(i.Wanted.Down) / 8 }},
	{"applied_timestamp_seconds", gauge, "When it was set up.", func(i InterfaceStatus) float64 { return float64(i.Since.UnixMilli()) / 1000 }},
}

// infoMetrics say of what kind a queue is, in a label.
var infoMetrics = []metric[QueueStatus]{
	{"queue_info", gauge, "Always 1; its label kind is the queue's.", func(QueueStatus) float64 { return 1 }},
}

var queueMetrics = []metric[QueueStatus]{
	{"rate_bytes_per_second", gauge, "The queue's rate; 0: none.", func(q QueueStatus) float64 { return float64(q.Rate) / 8 }},
	{"sent_bytes_total", counter, "Bytes sent.", func(q QueueStatus) float64 { return float64(q.Stats.Bytes) }},
	{"sent_packets_total", counter, "Packets sent.", func(q QueueStatus) float64 { return float64(q.Stats.Packets) }},
	{"dropped_packets_total", counter, "Packets dropped.", func(q QueueStatus) float64 { return float64(q.Stats.Drops) }},
	{"overlimits_total", counter, "How often a packet had to wait for the rate.", func(q QueueStatus) float64 { return float64(q.Stats.Overlimits) }},
	{"requeues_total", counter, "How often the interface was not ready for a packet.", func(q QueueStatus) float64 { return float64(q.Stats.Requeues) }},
	{"queued_packets", gauge, "Packets that wait.", func(q QueueStatus) float64 { return float64(q.Stats.Queued) }},
	{"backlog_bytes", gauge, "Bytes that wait.", func(q QueueStatus) float64 { return float64(q.Stats.Backlog) }},
}

// smartQueueMetrics are of queues that manage their length.
var smartQueueMetrics = []metric[QueueStatus]{
	{"marked_packets_total", counter, "Packets marked with ECN.", func(q QueueStatus) float64 { return float64(q.Stats.Marked) }},
	{"memory_bytes", gauge, "Memory that the queue uses.", func(q QueueStatus) float64 { return float64(q.Stats.Memory) }},
}

var tinMetrics = []metric[tc.Tin]{
	{"tin_sent_packets_total", counter, "Packets sent.", func(t tc.Tin) float64 { return float64(t.Packets) }},
	{"tin_sent_bytes_total", counter, "Bytes sent.", func(t tc.Tin) float64 { return float64(t.Bytes) }},
	{"tin_dropped_packets_total", counter, "Packets dropped.", func(t tc.Tin) float64 { return float64(t.Dropped) }},
	{"tin_backlog_bytes", gauge, "Bytes that wait.", func(t tc.Tin) float64 { return float64(t.Backlog) }},
	{"tin_threshold_bytes_per_second", gauge, "The rate above which the tin is served last; it is no limit.", func(t tc.Tin) float64 { return float64(t.Threshold) / 8 }},
}

// cakeTinMetrics are what only cake knows.
var cakeTinMetrics = []metric[tc.Tin]{
	{"tin_dropped_acks_total", counter, "Acknowledgements dropped because a later one made them needless.", func(t tc.Tin) float64 { return float64(t.AcksDropped) }},
	{"tin_marked_packets_total", counter, "Packets marked with ECN.", func(t tc.Tin) float64 { return float64(t.Marked) }},
	{"tin_target_seconds", gauge, "Delay that the queue is held to.", func(t tc.Tin) float64 { return seconds(t.Target) }},
	{"tin_interval_seconds", gauge, "Time that flows have to react.", func(t tc.Tin) float64 { return seconds(t.Interval) }},
	{"tin_peak_delay_seconds", gauge, "Delay of packets in the queue of late, at its worst.", func(t tc.Tin) float64 { return seconds(t.PeakDelay) }},
	{"tin_average_delay_seconds", gauge, "Delay of packets in the queue of late, on average.", func(t tc.Tin) float64 { return seconds(t.AvgDelay) }},
	{"tin_base_delay_seconds", gauge, "Delay of packets in the queue of late, of flows that send little.", func(t tc.Tin) float64 { return seconds(t.BaseDelay) }},
	{"tin_sparse_flows", gauge, "Flows that send little.", func(t tc.Tin) float64 { return float64(t.SparseFlows) }},
	{"tin_bulk_flows", gauge, "Flows that have a queue.", func(t tc.Tin) float64 { return float64(t.BulkFlows) }},
	{"tin_unresponsive_flows", gauge, "Flows that do not slow down when they are told.", func(t tc.Tin) float64 { return float64(t.UnresponsiveFlows) }},
	{"tin_hash_indirect_hits_total", counter, "Packets of flows that another place was found for.", func(t tc.Tin) float64 { return float64(t.IndirectHits) }},
	{"tin_hash_misses_total", counter, "Packets of flows that were new.", func(t tc.Tin) float64 { return float64(t.Misses) }},
	{"tin_hash_collisions_total", counter, "Packets of flows that share a queue with another.", func(t tc.Tin) float64 { return float64(t.Collisions) }},
	{"tin_max_packet_bytes", gauge, "The longest packet.", func(t tc.Tin) float64 { return float64(t.MaxPacket) }},
	{"tin_quantum_bytes", gauge, "Bytes that a flow may send in its turn.", func(t tc.Tin) float64 { return float64(t.Quantum) }},
}
