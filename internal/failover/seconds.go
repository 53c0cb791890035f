package failover

import (
	"encoding/json"
	"math"
	"time"
)

// Seconds is a length of time that JSON has as seconds, to the millisecond.
type Seconds time.Duration

// MarshalJSON writes a number.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(time.Duration(s).Seconds()*1000) / 1000)
}

// UnmarshalJSON reads one.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	var f float64
	err := json.Unmarshal(data, &f)
	*s = Seconds(f * float64(time.Second))
	return err
}
