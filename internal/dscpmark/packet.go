package dscpmark

// Touch is a chain of the packet filter that changes the marks of packets.
type Touch struct {
	Where  string // table and chain
	Sets   uint32 // bits that it may give a packet
	Clears uint32 // bits that it takes from packets
	// Local tells that packets of this machine may come through it, and are sent by
	// what routes say of their new mark.
	Local bool
}

// Offload is a flowtable: packets of connections that stand go past all chains.
type Offload struct {
	Where   string // table and flowtable
	Devices []string
}
