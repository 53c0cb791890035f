package verdict_test

import (
	"fmt"
	"strings"
	"time"

	"trafficup/internal/verdict"
)

func Example() {
	var c verdict.Collector
	for range 400 {
		c.Add(verdict.Attempt{
			Path: "primary", Status: 201, Wrote: true, Duration: 612 * time.Millisecond,
			HasLink: true, RTT: 600 * time.Millisecond, Segments: 4,
		})
	}
	f := c.Figures()
	v := verdict.Judge(f, verdict.Run{Duration: 31 * time.Second, Delivered: 400})
	fmt.Println(strings.Join(verdict.Explain(v, f, []string{"primary"}), "\n"))
	// Output:
	// link    rtt 600 ms (p95 600), 0.0 % retransmitted
	// service 12 ms (p95 12), 0.0 % failed
	// verdict link slow: on primary the round trip took 600 ms (p95 600); the service 12 ms (p95 12)
}
