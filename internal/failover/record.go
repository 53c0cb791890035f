package failover

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Record is a round as it is kept for a simulation: a line of JSON.
type Record struct {
	Uplink string    `json:"uplink"`
	At     time.Time `json:"at"` // by the clock on the wall: a boot's does not outlive it
	OK     bool      `json:"ok"`
	RTTMS  float64   `json:"rtt_ms,omitzero"`
	Loaded bool      `json:"loaded,omitzero"`
	Gone   string    `json:"gone,omitzero"`
	Why    string    `json:"why,omitzero"`
}

// Recorded is the record of a round of an uplink.
func (c Config) Recorded(uplink int, r Round, now Now) Record {
	return Record{
		Uplink: c.Uplinks[uplink].Name, At: now.Wall.Add(r.At - now.Boot).UTC().Round(time.Millisecond),
		OK: r.OK, RTTMS: float64(r.RTT.Microseconds()) / 1000, Loaded: r.Loaded, Gone: r.Gone, Why: r.Why,
	}
}

// Line is the record with its newline.
func (r Record) Line() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err) // times of this century, and strings
	}
	return append(data, '\n')
}

// parseRecord reads a line.
func parseRecord(line []byte) (r Record, err error) {
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	switch year := r.At.Year(); {
	case r.Uplink == "":
		return r, errors.New("uplink is missing")
	case r.At.IsZero():
		return r, errors.New("at is missing")
	case year < 2020 || year > 2199:
		return r, fmt.Errorf("at is %d: the clock was not set", year)
	case r.RTTMS < 0 || r.RTTMS > 1e6:
		return r, fmt.Errorf("rtt_ms is %v", r.RTTMS)
	}
	return r, nil
}

// round is the one that was recorded, at a time since begin.
func (r Record) round(begin time.Time) Round {
	return Round{At: r.At.Sub(begin), OK: r.OK, RTT: time.Duration(r.RTTMS * float64(time.Millisecond)), Loaded: r.Loaded, Gone: r.Gone, Why: r.Why}
}
