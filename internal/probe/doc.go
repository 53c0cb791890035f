// Package probe asks one target by one uplink whether it answers, and decides
// nothing.
//
// The uplink is that of a [Binding]: a mark, for the rule that leads to the
// uplink's own table, which ends in an unreachable default, and a source address,
// for the way back. SO_BINDTODEVICE is used only where there is no such rule, see
// [Binding].Device: where a table has no route the kernel takes the target for a neighbour on that device, asks for it there by ARP,
// and a router that answers for others (proxy ARP) makes a dead uplink look alive.
// Instead [Binding.Route] asks the kernel which way a probe would take, before it
// is sent, and again when it was answered: the way must leave by the interface, and
// by a gateway if the target is not in one of the interface's own subnets. So
// nothing is sent by another uplink, and what was answered is proved to have been
// sent by this one.
//
// What cannot be bound is a fault with a name, never a success. Sockets are made
// for each probe, so an address that changes leaves none behind.
//
// Targets are addresses, not names: a name is looked up by whichever uplink is in
// use, and an outage of that would be one of all. HTTP is plain: a portal that asks
// for a login answers that, and a certificate that expires is no outage of an
// uplink. A target that refuses, by RST or an ICMP message, is not reached: a box on
// the way may say so in its place.
package probe
