// Package netshape brings an uplink's queue and the marks of its traffic to a
// desired state, and never leaves the machine worse than it found it.
//
// [Parse] makes an [Interface] of what people write. [Machine.Observe] reads the
// kernel, [Make] compares the two and says what would be done, [Machine.Apply]
// does exactly that: it undoes what it did when a step fails or when the kernel
// does not have what it was given, and has a process of its own take everything
// back unless [Machine.Confirm] is called. [MakeClear] plans the way back to what
// was there before, [Machine.Status] says what stands now, and [Machine.Watch]
// keeps it standing.
//
// [Survey.Measure] finds the rate to ask for. [Machine.Gauge] tells when it is too
// high after all, and can fit it to a link whose rate varies.
//
// The invariant: what was there is on the disk before the first change.
package netshape
