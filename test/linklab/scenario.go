package linklab

import (
	"slices"
	"time"

	"trafficup/internal/breaker"
)

// Scenario is one upload over a link, and over a second one when the breaker of
// the first is open. Both lead to the same sandbox.
type Scenario struct {
	Name        string
	Link        Profile
	Fallback    *Profile      // nil: none
	Delay       time.Duration // that the sandbox takes for an answer
	Concurrency int
	Records     int
	Quick       bool // of the set that every change must pass
	Control     bool // a bare client runs beside the upload, see [Control]
}

// Ideal is the rate in records per second when each of Concurrency requests
// takes one round trip and nothing is waited for between them.
func (s Scenario) Ideal() float64 {
	return float64(s.Concurrency) / (s.Link.RTT + s.Delay).Seconds()
}

// Lasts is about how long it takes at the ideal rate.
func (s Scenario) Lasts() time.Duration {
	return time.Duration(float64(s.Records) / s.Ideal() * float64(time.Second))
}

// Scenarios returns all of them. A guest manages about 150 records per second,
// whatever the link: those ideally faster show how the lab is, not trafficup.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "far", Link: Far, Concurrency: 8, Records: 500, Quick: true, Control: true},
		{Name: "far-lossy", Link: FarLossy, Concurrency: 8, Records: 700, Quick: true, Control: true},
		{Name: "slow", Link: Terrestrial, Delay: 9 * time.Second, Concurrency: 8, Records: 24, Quick: true},
		{Name: "flap", Link: Maintenance, Fallback: &Far, Concurrency: 8, Records: 1100, Quick: true},
		{Name: "flap-long", Link: Maintenance, Fallback: &Far, Concurrency: 8, Records: 4000},
		{Name: "far-lossy-long", Link: FarLossy, Concurrency: 8, Records: 2000, Control: true},
		{Name: "maintenance", Link: Maintenance, Concurrency: 8, Records: 1200},
		{Name: "terrestrial", Link: Terrestrial, Concurrency: 8, Records: 3000},
		{Name: "cellular", Link: Cellular, Concurrency: 8, Records: 3000},
		{Name: "leo", Link: LEO, Concurrency: 8, Records: 4000},
		{Name: "far-wide", Link: Far, Concurrency: 16, Records: 1500},
		{Name: "geo", Link: GEO, Concurrency: 8, Records: 400},
		{Name: "geo-wide", Link: GEO, Concurrency: 32, Records: 1500},
	}
}

// ResultsFile is where a guest writes its results, one JSON object a line.
const ResultsFile = "results.jsonl"

// Result is what the guest saw of one scenario.
type Result struct {
	Name        string              `json:"name"`
	Error       string              `json:"error,omitzero"` // the lab failed, not the upload
	Exit        int                 `json:"exit"`           // of the upload
	RTTms       float64             `json:"rtt_ms"`         // median of a few connections before the upload
	Seconds     float64             `json:"seconds"`        // from the upload's start to its end
	Steady      float64             `json:"steady"`         // records per second in the middle of the run
	Control     Control             `json:"control"`
	PerSecond   []int               `json:"per_second"`  // records that ended in each second
	Outages     int                 `json:"outages"`     // of Link, begun before the upload ended
	Dials       int                 `json:"dials"`       // connections the upload tried
	Retransmits int                 `json:"retransmits"` // segments sent again by the client's side
	Summary     Summary             `json:"summary"`
	Sandbox     Sandbox             `json:"sandbox"`
	Breaker     breaker.Transitions `json:"breaker"` // of Link
	Warnings    []Count             `json:"warnings,omitzero"`
}

// Summary is the part of the upload's JSON summary that counts here.
type Summary struct {
	Read          int            `json:"read"`
	Acked         int            `json:"acked"`
	Calls         int            `json:"calls"`
	Retries       int            `json:"retries"`
	Amplification float64        `json:"amplification"`
	Paths         map[string]int `json:"paths"`
	LatencyMS     struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
		Max float64 `json:"max"`
	} `json:"latency_ms"`
	Result     string `json:"result"`
	Verdict    string `json:"verdict"`
	VerdictWhy string `json:"verdict_why"`
}

// Sandbox is what the server's side counted of the upload.
type Sandbox struct {
	Requests int `json:"requests"`
	Applied  int `json:"applied"` // writes
	Repeated int `json:"repeated"`
}

// Transitions counts changes of the breaker between taking requests and not. A
// half-open one is on its way and counts by where it goes.
func (r Result) Transitions() int { return int(r.Breaker.Closed + r.Breaker.Open) }

// Count says how often the upload warned in the same words.
type Count struct {
	Message string `json:"message"`
	Times   int    `json:"times"`
}

// Middle returns the middle three fifths of the ends of records, given in order as
// times since the start; nothing of fewer than 100, whose ends come in lumps.
func Middle(ends []time.Duration) []time.Duration {
	if len(ends) < 100 {
		return nil
	}
	return ends[len(ends)/5 : len(ends)-len(ends)/5]
}

// Steady returns the rate, per second, of the middle of the ends, of which about as
// many as there are requests at once come together; 0 where there is no middle.
func Steady(ends []time.Duration, concurrency int) float64 { return rate(Middle(ends), concurrency) }

// PerSecond counts ends by the second they fall into.
func PerSecond(ends []time.Duration) []int {
	var n []int
	for _, d := range ends {
		i := int(d / time.Second)
		n = append(n, slices.Repeat([]int{0}, max(0, i+1-len(n)))...)
		n[i]++
	}
	return n
}
