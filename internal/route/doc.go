// Package route holds the default route of a machine with several uplinks, as a
// desired state ([Layout]) that is compared with what the kernel has ([Observe])
// and brought about in steps ([Layout.Plan], [Do]). It decides nothing: which
// uplink is active is told to it.
//
// Nobody else's route or rule is touched. Everything of ours carries a protocol
// number of its own, and only what carries it is ever changed or removed, but for
// what somebody put in the place of the active default while our rule led there:
//
//	20998 fwmark 0x100 lookup 8711              probes of the first uplink
//	20999 fwmark 0x200 lookup 8712              probes of the second
//	21000 lookup main suppress_prefixlength 0 what is more specific than a default
//	21003 from ADDR1 lookup 8711              answers leave by the uplink they are asked by
//	21004 from ADDR2 lookup 8712
//	21010 lookup 8710                         the active default: one route per family
//	32766 lookup main                         the defaults of DHCP, untouched
//
// The table of an uplink holds what is connected to it, the default by its
// gateway and `unreachable default` behind that, so that a probe never leaves by
// another uplink and never looks for its target on the link. The `from` rules
// stand behind that of main, or the machine's address on an uplink could not
// talk to the LAN. A switch replaces one route per family, which is atomic. Where
// 8710 is empty, or nothing of ours is left, main decides as before.
//
// The kernel takes away routes when an address or a link goes, of IPv4 without a
// word: compare again after every change that [Events] tells of, and now and then.
//
// IPv6 is switched like IPv4, but hosts keep addresses of the uplink's prefix,
// and with them packets that the other uplink's provider drops: translating or
// withdrawing prefixes is not done here. Where only the other uplink has IPv6,
// the default is unreachable, so that programs fall back to IPv4 at once.
//
// Functions that speak to the kernel do so in the network namespace of the
// calling thread. There must be one caller that changes routes at a time.
package route
