package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trafficup/internal/sandbox"
)

// BenchmarkUpload delivers a file over loopback to a stand-in in this process,
// with the ledger on disk and with one in memory: the difference is the price of
// remembering.
func BenchmarkUpload(b *testing.B) {
	for _, concurrency := range []int{8, 64} {
		for _, where := range []string{"disk", "memory"} {
			b.Run(fmt.Sprintf("concurrency=%d/ledger=%s", concurrency, where), func(b *testing.B) {
				var lines strings.Builder
				for n := range b.N {
					lines.WriteString(record(n, n, 0) + "\n")
				}
				input := filepath.Join(b.TempDir(), "night.ndjson")
				if err := os.WriteFile(input, []byte(lines.String()), 0o600); err != nil {
					b.Fatal(err)
				}
				sys, stdout, stderr := testSystem("upload", "--state-dir", b.TempDir(), "--quiet", "--concurrency", fmt.Sprint(concurrency), input)
				if where == "memory" {
					sys.args = append(sys.args, "--sandbox")
				} else {
					sc, err := sandbox.Builtin("calm")
					if err != nil {
						b.Fatal(err)
					}
					srv := httptest.NewServer(sandbox.NewWith(sc, sandbox.Options{}))
					defer srv.Close()
					sys.args = append(sys.args, "--url", srv.URL+"/v1/logs")
				}
				b.ResetTimer()
				if code := run(sys); code != exitOK {
					b.Fatalf("exit %d\n%s%s", code, stdout, stderr)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}
