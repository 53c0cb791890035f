// Nightgen writes a made-up night of station logs; see package
// internal/nightgen.
//
//	go run ./test/nightgen -out testdata/night
package main

import (
	"flag"
	"fmt"
	"os"

	"trafficup/internal/nightgen"
)

func main() {
	out := flag.String("out", "", "directory to write to")
	seed := flag.Uint64("seed", 1, "seed; the same seed gives the same night")
	records := flag.Int("records", 10_000, "number of records, at least 1000")
	faults := flag.Int("faults", 8, "faulty records in a thousand, -1 for none")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "nightgen: want -out DIR and no arguments")
		os.Exit(10)
	}
	counts, err := nightgen.Write(*out, nightgen.Config{Seed: *seed, Records: *records, PerMille: *faults})
	if err != nil {
		fmt.Fprintln(os.Stderr, "nightgen:", err)
		os.Exit(1)
	}
	fmt.Printf("%+v\n", counts)
}
