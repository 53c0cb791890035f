package nightgen

import (
	"fmt"
	"iter"
	"math/rand/v2"
)

// AirDate is the broadcast date of the night.
const AirDate = "2026-07-17"

// Config says how large a night is. The zero value of a field means its default.
type Config struct {
	Seed     uint64 // default 1
	Records  int    // spots of all files; a repeated or contradicted spot adds a record; default 10000, at least 1000
	PerMille int    // spots in a thousand that something is wrong with; default 8, -1 for none
}

// Counts is what is in a file or a night.
type Counts struct {
	Files     int `json:"files"`
	Read      int `json:"read"`
	Valid     int `json:"valid"`
	Duplicate int `json:"duplicate"` // a record seen before, byte for byte
	Invalid   int `json:"invalid"`   // breaks a rule of the envelope, or is no record at all
	Conflict  int `json:"conflict"`  // a key seen with other content, or a spot seen under another key
}

func (c *Counts) add(o Counts) {
	c.Files += o.Files
	c.Read += o.Read
	c.Valid += o.Valid
	c.Duplicate += o.Duplicate
	c.Invalid += o.Invalid
	c.Conflict += o.Conflict
}

// File is one market's log.
type File struct {
	Name    string // such as 901-harrow-falls.ndjson.gz
	Content []byte // before compression
	Pack    Pack
	Counts  Counts
}

// Pack is how a file is compressed.
type Pack string

// The ways to compress a file; the value is the end of its name.
const (
	Plain Pack = ""
	Gzip  Pack = ".gz"
	Zstd  Pack = ".zst"
)

// Files makes the files of a night, one at a time, so that memory does not
// grow with more than one market.
func Files(c Config) iter.Seq[File] {
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.Records == 0 {
		c.Records = 10_000
	}
	c.Records = max(c.Records, 1000)
	if c.PerMille == 0 {
		c.PerMille = 8
	}
	return func(yield func(File) bool) {
		n := night{config: c, weights: weigh(c.Seed)}
		for i := range markets {
			if !yield(n.market(i)) {
				return
			}
		}
	}
}

// night is the state carried from one market to the next.
type night struct {
	config  Config
	weights []float64 // share of the records of each market; they add up to 1
	given   int       // spots given out so far
	fault   int       // faults made so far; they take turns
	held    *record   // a record of an earlier market that turns up again in a later one
}

// small are the markets whose files stay small and uncompressed, so that a
// reader of the repository can open them.
var small = map[int]bool{4: true, 17: true}

// weigh gives each market its share: some are three times as large as others.
func weigh(seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	w, sum := make([]float64, len(markets)), 0.0
	for i := range w {
		w[i] = (0.5 + rng.Float64()) * float64(len(markets[i].stations))
		if small[i] {
			w[i] = 0.12
		}
		sum += w[i]
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}

// share returns how many spots market i gets; the last takes what is left.
func (n *night) share(i int) int {
	count := int(n.weights[i] * float64(n.config.Records))
	if i == len(markets)-1 {
		count = n.config.Records - n.given
	}
	n.given += count
	return count
}

// market makes one file.
func (n *night) market(i int) File {
	m := markets[i]
	rng := rand.New(rand.NewPCG(n.config.Seed, uint64(i)+1))
	count := n.share(i)
	f := newFile(m)
	logs := make([]*stationLog, len(m.stations))
	for j, s := range m.stations {
		logs[j] = newStationLog(rng, m, s, count/len(m.stations)+1)
	}
	for line := 0; line < count; line++ {
		r := logs[line*len(logs)/count].next()
		if n.config.PerMille > 0 && rng.IntN(1000) < n.config.PerMille && line > 0 && line < count-1 {
			n.breakOne(f, r)
			continue
		}
		f.good(r)
	}
	return f.finish(fmt.Sprintf("%s-%s", m.code, m.slug()))
}
