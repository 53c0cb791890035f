// Package nightgen makes up a night: the spot records that a station group's
// traffic systems release after midnight, one file for each market, with the
// mistakes such files really have. It exists for tests, demonstrations and
// measurements.
//
// The same [Config] always gives the same records, on every machine and with
// every version of Go (the generator is PCG from math/rand/v2, whose sequence
// is fixed). Only the compressed bytes may differ between versions of the
// compressors.
//
// Every market, station, advertiser and title is made up; a likeness to a real
// one is accidental.
//
// Two invariants: each record that is not broken keeps the envelope's rules,
// and [Counts] is what a reader that keeps them must find, in whatever order
// it reads the files: read = valid + duplicate + invalid + conflict.
package nightgen
