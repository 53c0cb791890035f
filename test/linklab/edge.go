package linklab

import "time"

// Edge is a night at an edge node with two uplinks, a satellite's and a mobile one,
// each with a provider of its own behind which is the same API. trafficup failover
// runs on the node and an upload there or in its LAN.
type Edge struct {
	Name    string
	OnNode  bool          // that is where the upload runs
	Length  time.Duration // of the night, from the start of the upload on
	Dark    Span          // the satellite is gone
	Gap     Span          // the same for so short a time that it is not to be left
	Records int
	Rate    int      // records per second
	Rules   string   // of failover in place of those of the preset leo
	Upload  []string // flags besides
	Dwell   time.Duration
	Quick   bool // of the set that every change must pass
}

// Edges returns all, by the kernel that plays them, side by side. In quick ones what
// has to be waited for is shorter, but not the time after which an uplink is down.
func Edges() [][]Edge {
	night := Edge{Length: 10 * time.Minute, Records: 4500, Rate: 10, Dwell: 2 * time.Minute,
		Dark: Span{time.Minute, 6 * time.Minute}}
	calm := Edge{Length: 10 * time.Minute, Records: 2700, Rate: 5,
		Gap: Span{5 * time.Minute, 5*time.Minute + 8*time.Second}}
	quick := Edge{Length: 72 * time.Second, Records: 550, Rate: 10, Dwell: 40 * time.Second,
		Dark: Span{12 * time.Second, 57 * time.Second}, Quick: true,
		Rules: "up: 5, up_for: 5s, dwell: 40s, dwell_max: 40s, ", Upload: []string{"--breaker-open", "5s"}}
	quickCalm := Edge{Length: 72 * time.Second, Records: 330, Rate: 5, Quick: true,
		Gap: Span{32 * time.Second, 40 * time.Second}}
	return [][]Edge{
		{quick.as("edge-lan"), quickCalm.as("edge-calm"), night.as("edge-lan-full"), calm.as("edge-calm-full")},
		{quick.onNode("edge-node"), night.onNode("edge-node-full")},
	}
}

func (e Edge) as(name string) Edge {
	e.Name = name
	return e
}

func (e Edge) onNode(name string) Edge {
	e.OnNode = true
	return e.as(name)
}

// EdgeRun is what the guest saw of one. Times are in seconds since the start of the
// upload.
type EdgeRun struct {
	Name      string   `json:"name"`
	Error     string   `json:"error,omitzero"` // the lab failed, not the program
	Exit      int      `json:"exit"`           // of the upload
	Seconds   float64  `json:"seconds"`        // that it took
	RTTms     float64  `json:"rtt_ms"`         // by the satellite, before
	Switches  []Switch `json:"switches"`
	Carried   [2][]int `json:"carried"` // bytes for the API in each second, by uplink
	PerSecond []int    `json:"per_second"`
	Summary   Summary  `json:"summary"`
	Sandbox   Sandbox  `json:"sandbox"`
	Warnings  []Count  `json:"warnings,omitzero"` // of the upload
	Said      string   `json:"said"`              // by both
}

// Switch is one that failover told of.
type Switch struct {
	At       float64 `json:"at"` // below 0: before the upload
	To, From string
	Why      string
}

// Bytes are what an uplink carried in a part of the night.
func (r EdgeRun) Bytes(uplink int, from, to time.Duration) (sum int) {
	all := r.Carried[uplink]
	for s := int(from / time.Second); s < min(int(to/time.Second), len(all)); s++ {
		sum += all[s]
	}
	return sum
}

// Needless counts the switches away from the satellite while it was there.
func (e Edge) Needless(switches []Switch) (n int) {
	for _, s := range switches {
		if s.From == "leo" && (s.At < e.Dark.From.Seconds() || s.At >= e.Dark.To.Seconds()) {
			n++
		}
	}
	return n
}
