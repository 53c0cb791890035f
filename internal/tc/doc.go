// Package tc reads and sets the queue disciplines of an interface by netlink:
// a cake, or where the kernel has none an HTB with fq_codel below it, at the
// root and, through an ifb, for what comes in. It has no policy: it does what
// it is told, also to what others have set.
//
// What is set is a [Shaper], a comparable value. [Read] finds the same value
// again, in the form that [Shaper.Normal] gives, so that one comparison tells
// whether the kernel did as it was told.
//
// All functions act in the network namespace of the calling thread, need
// CAP_NET_ADMIN to change anything, and may be called from several goroutines,
// though not for one interface at a time. Errors of the kernel are wrapped:
// errors.Is finds unix.EPERM, unix.ENODEV and [ErrUnknownKind].
package tc
