package dscpmark

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"trafficup/test/linklab"
)

// TestKernelWithout asks a kernel that cannot do it, which is that of the link
// lab. It takes some seconds, so somebody has to want it.
func TestKernelWithout(t *testing.T) {
	if os.Getenv("CI") == "" && os.Getenv("LINKLAB") == "" {
		t.Skip("set LINKLAB=1")
	}
	if err := linklab.Missing(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	guest, err := linklab.Build(ctx, dir, "guest", "./testdata/guest")
	if err != nil {
		t.Fatal(err)
	}
	var console bytes.Buffer
	if err := linklab.Boot(ctx, &console, dir, guest); err != nil {
		t.Fatalf("%v\n%s", err, console.String())
	}
	for _, want := range []string{`"" apply`, `"" check`, `"" read`, `"nfnetlink" apply`, `"nfnetlink" check`, `"nfnetlink" read`,
		`"nf_tables" apply`, `"nf_tables" check`} {
		if !strings.Contains(console.String(), "guest: "+want+": unsupported true") {
			t.Errorf("%s is not called unsupported", want)
		}
	}
	// With nftables there is an answer: no such table, and so nothing was changed.
	if want := `guest: "nf_tables" read: unsupported false: <nil>`; !strings.Contains(console.String(), want) {
		t.Errorf("want %s", want)
	}
	if t.Failed() {
		t.Log(console.String())
	}
}
