package route

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// CanDropFlows returns why [DropFlows] could not do its work, or nil. It asks how many
// connections there are, which takes the same rights and the same part of the kernel.
func CanDropFlows() error {
	const getStats = 5
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|getStats, unix.NLM_F_ACK)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET, Version: nl.NFNETLINK_V0})
	if _, err := req.Execute(unix.NETLINK_NETFILTER, 0); err != nil {
		return fmt.Errorf("ask for connections: %w", err)
	}
	return nil
}
