package netshape

import (
	"encoding/json"
	"time"
)

// Millis is a time that is written to JSON as milliseconds, with three digits at
// most behind the point. The key's name has to end in _ms.
type Millis struct{ time.Duration }

// MarshalJSON writes a number.
func (d Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(d.Microseconds()) / 1000)
}

// UnmarshalJSON reads a number.
func (d *Millis) UnmarshalJSON(data []byte) error {
	var ms float64
	err := json.Unmarshal(data, &ms)
	d.Duration = time.Duration(ms * float64(time.Millisecond)).Round(time.Microsecond)
	return err
}
