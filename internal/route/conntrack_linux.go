package route

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// DropFlows makes the kernel forget the connections whose answers go to an
// address, which is that of the uplink left behind: their next packet is
// translated to the new one's. The whole table is read, once a call. Connections of
// the machine's own with that address are forgotten too, which does them no harm. It
// needs CAP_NET_ADMIN.
func DropFlows(replyDst netip.Addr) error {
	family := netlink.InetFamily(unix.AF_INET)
	if replyDst.Is6() {
		family = unix.AF_INET6
	}
	var filter netlink.ConntrackFilter
	err := filter.AddIP(netlink.ConntrackReplyDstIP, replyDst.AsSlice())
	if err == nil {
		_, err = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, &filter)
	}
	if err != nil {
		return fmt.Errorf("drop flows answered to %v: %w", replyDst, err)
	}
	return nil
}
