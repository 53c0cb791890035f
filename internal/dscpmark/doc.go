// Package dscpmark gives packets that leave by an uplink the DSCP of their
// class, with one nftables table of its own, and takes it away again.
//
// The table classifies in output (by user, cgroup, ports) and in forward (by
// LAN host, ports) into some bits of the ct mark, and writes the DSCP in
// postrouting by these bits: there a socket's cgroup cannot be asked for any
// more, and packets without a socket, such as a reset, have only their
// connection to tell what they belong to. The two bits of ECN are left alone.
// The first class that matches wins, and every packet is looked at anew, so
// that a connection changes its class when the table does.
//
// What it cannot see: packets that are not tracked, and those that a flowtable
// forwards past postrouting ([Collisions] names these). A table that asks for
// connections makes the kernel track them, where nothing did before.
//
// A swap replaces the rules and leaves the base chains, in one transaction: new
// base chains beside old ones would let packets through between the two that
// neither saw. The bits of a class stay the same as long as its name does, for
// a packet that meets the old rules in output and the new ones in postrouting.
//
// Nothing here decides when the table should be there; there must be one caller
// that changes it at a time, though two leave either's table whole.
package dscpmark
