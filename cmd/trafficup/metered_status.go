package main

import (
	"bytes"
	"fmt"

	"trafficup/internal/uplinkstate"
)

// uplinkStatus is what the failover of this machine says.
type uplinkStatus struct {
	uplinkstate.Uplink
	Pauses bool `json:"bulk_pauses"` // an upload waits for another uplink
	quota  string
}

// askUplink returns nil where nobody says which uplink carries. why is told to who
// wants something of it.
func (c Config) askUplink(sys *system, why func(string)) *uplinkStatus {
	r := c.uplinkReader(sys, c.Failover.Site != "", why)
	if r == nil {
		return nil
	}
	s, known := r.Now()
	if !known {
		return nil
	}
	u := &uplinkStatus{Uplink: s, Pauses: s.Metered && c.Upload.OnMetered == "pause"}
	u.Active = printable(u.Active)
	if c.Upload.MeteredQuota > 0 {
		size, _ := c.Upload.MeteredQuota.MarshalText() // it never fails
		u.quota = string(size)
	}
	return u
}

func (u *uplinkStatus) text(b *bytes.Buffer) {
	if u == nil {
		return
	}
	words := carries(u.Uplink, true)
	if !u.Since.IsZero() {
		words += " since " + u.Since.UTC().Format("2006-01-02T15:04Z07:00")
	}
	switch {
	case u.Pauses:
		words += "; uploads are paused, but for a few records sent by hand"
	case u.Metered && u.quota != "":
		words += "; an upload may send " + u.quota + " by it"
	}
	if u.Window {
		words += "; an uplink is in maintenance"
	}
	fmt.Fprintf(b, "\nUplink        %s\n", words)
}
