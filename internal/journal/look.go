package journal

// Verdict says what the ledger makes of a record.
type Verdict int

// The verdicts.
const (
	New       Verdict = iota // to be sent, again perhaps
	Duplicate                // met in this run, or acked by an earlier one
	SameKey                  // its key stands for other content
	SameSpot                 // its station, air_date and spot_id came under another key
)

// Sighting is a verdict and the record it rests on.
type Sighting struct {
	Verdict Verdict
	Run     string // of the earlier record; empty: this one
	File    string
	Line    int64
	Again   bool // an earlier run may have sent the record
	Refused bool // it was rejected, with this content, when it was sent last
}

// Look remembers a record and says whether it is to be sent. The first record of
// a key or a spot stands; a later one that differs is a conflict, unless it is
// certain that nothing of the first was applied: it was rejected, or never sent.
// In this run the first stands in any case. A record with verdict SameSpot is
// remembered as well, so that its copies are duplicates.
func (j *Journal) Look(i *Intent) Sighting {
	j.mu.Lock()
	defer j.mu.Unlock()
	x := j.index
	id, again, was := x.identify(i), false, false
	if n, ok := x.byKey(id.key); ok {
		e := *x.at(n)
		same := e.content == 0 || e.content == id.content
		switch {
		case same && (e.met() || e.fate() == acked):
			return j.sighting(Duplicate, n)
		case !same && (e.met() || e.fate() != free):
			return j.sighting(SameKey, n)
		case e.fate() == unknown:
			j.unknown--
		}
		again, was = e.fate() != free, same && e.where&refused != 0
	}
	if n, ok := x.bySpot(id.spot); ok {
		if e := *x.at(n); e.key != id.key && (e.met() || e.fate() != free) {
			x.add(id, j.run.ID, i.File, i.Line, met, true)
			s := j.sighting(SameSpot, n)
			s.Again, s.Refused = again, was
			return s
		}
	}
	x.add(id, j.run.ID, i.File, i.Line, met, false)
	return Sighting{Again: again, Refused: was}
}

// Overtaken reports whether the ledger holds a later version of a record that
// was sent, or was to be: other content under its key, or its spot under
// another key. What was refused and mended since is not to be sent as it was.
func (j *Journal) Overtaken(i *Intent) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	id := j.index.identify(i)
	own, known := j.index.byKey(id.key)
	if known {
		if e := j.index.at(own); e.content != 0 && e.content != id.content {
			return true
		}
	}
	claim, ok := j.index.bySpot(id.spot)
	return ok && known && claim > own && j.index.at(claim).key != id.key
}

func (j *Journal) sighting(v Verdict, n uint32) Sighting {
	s := Sighting{Verdict: v}
	s.Run, s.File, s.Line = j.index.place(n)
	if s.Run == j.run.ID {
		s.Run = ""
	}
	return s
}

// Acked reports whether a run acked the key, this one excepted.
func (j *Journal) Acked(key string) bool { return j.is(key, acked) }

// Unknown reports whether the key was sent, or about to be, by an earlier run
// that learnt nothing of its fate, and was not met in this run.
func (j *Journal) Unknown(key string) bool { return j.is(key, unknown) }

func (j *Journal) is(key string, f fate) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, ok := j.index.byKey(j.index.hash(key))
	return ok && !j.index.at(n).met() && j.index.at(n).fate() == f
}

// UnknownLeft is how many records of earlier runs are of unknown fate and were
// not met in this run.
func (j *Journal) UnknownLeft() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unknown
}
