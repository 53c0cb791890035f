package probe

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("PROBE_HELPER") != "" {
		tryAsOther()
		return
	}
	goleak.VerifyTestMain(m)
}

// tryAsOther is what a test has done by a process without rights: it prints what
// is said.
func tryAsOther() {
	b := Binding{Interface: "wan0", Mark: 0x100, Source4: netip.MustParseAddr("10.0.1.2")}
	for _, t := range targets[:4] {
		fmt.Println(patient.Probe(context.Background(), b, t).Fault)
	}
	b.Mark = 0
	r := patient.Probe(context.Background(), b, targets[0])
	fmt.Println(r.Fault, r.Why)
}
