// Package edge runs failover on a machine: it asks the targets of all uplinks, has
// package failover decide, and makes the routes follow.
//
// One loop owns all state. Probes run beside it and report to it; the kernel's
// events only wake it: what stands is compared with what shall stand, and mended,
// after each of them and every ten seconds.
package edge
