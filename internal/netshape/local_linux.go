package netshape

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"trafficup/internal/disk"
	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// Local returns this machine, with the state in dir and what is confirmed in
// keep ("": nowhere). [Machine.Rearguard] starts this program with args, in which
// ID and AFTER stand for the two.
func Local(dir, keep string, args ...string) (*Machine, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("which boot is this: %w", err)
	}
	m := &Machine{Kernel: kernel{}, Marks: marks{}, FS: disk.OS{}, Dir: dir, Keep: keep, Boot: strings.TrimSpace(string(boot)), Contained: contained(), Uptime: uptime}
	if len(args) > 0 {
		m.Rearguard = rearguard(args)
	}
	return m, nil
}

func uptime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano()), err
}

// contained reports whether this process is in a container, as far as one shows:
// by a file that its maker puts there, or by a user namespace.
func contained() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv", "/run/systemd/container", "/run/secrets/kubernetes.io"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	ids, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(ids)), " ") != "0 0 4294967295"
}

// kernel is the one of the calling thread's network namespace.
type kernel struct{}

// Rights has the kernel refuse a change to an interface that cannot be: it asks
// for rights first.
func (kernel) Rights() error {
	err := netlink.QdiscDel(&netlink.Prio{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: 1<<31 - 1, Parent: tc.Root}})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("changing queues needs the capability CAP_NET_ADMIN, which this process lacks: %w", err)
	}
	return nil
}

func (kernel) Missing(kinds []tc.Kind) (missing []tc.Kind, err error) {
	has, err := tc.Support()
	if err != nil {
		return nil, err
	}
	if slices.Contains(kinds, kindIFB) {
		has[kindIFB] = hasIFB()
	}
	return slices.DeleteFunc(slices.Clone(kinds), func(k tc.Kind) bool { return has[k] }), nil
}

// hasIFB asks for an ifb with more queues than any can have: the kernel looks for
// the kind first, and loads its module.
func hasIFB() bool {
	a := netlink.NewLinkAttrs()
	a.Name, a.NumTxQueues = "ifb4trafficup", 5000
	l := &netlink.Ifb{LinkAttrs: a}
	err := netlink.LinkAdd(l)
	if err == nil { // a kernel that takes it
		_ = netlink.LinkDel(l)
	}
	return !errors.Is(err, unix.EOPNOTSUPP)
}

func (kernel) Links() (list []Link, err error) {
	found, err := retried(netlink.LinkList)
	for _, l := range found {
		a := l.Attrs()
		list = append(list, Link{a.Index, a.Name, a.OperState == netlink.OperUp || a.OperState == netlink.OperUnknown && a.RawFlags&unix.IFF_RUNNING != 0, a.NumTxQueues, a.Alias == tc.IfbAlias, l.Type()})
	}
	return list, err
}

// retried asks again when the list changed while it was read.
func retried[T any](ask func() (T, error)) (list T, err error) {
	for range 5 {
		if list, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}

func (kernel) Qdiscs(link int) ([]tc.Qdisc, error)      { q, err := tc.Read(link); return q, named(err) }
func (kernel) SetRoot(link int, s tc.Shaper) error      { return named(tc.SetRoot(link, s)) }
func (kernel) RestoreRoot(link int, q tc.Qdisc) error   { return named(tc.RestoreRoot(link, q)) }
func (kernel) DeleteRoot(link int) error                { return named(tc.DeleteRoot(link)) }
func (kernel) DeleteIngress(link int, ifb string) error { return named(tc.DeleteIngress(link, ifb)) }
func (kernel) SetIngress(link int, ifb string, s tc.Shaper) error {
	return named(tc.SetIngress(link, ifb, s))
}

func (kernel) RestoreIngress(link int, ifb string, q tc.Qdisc) error {
	return named(tc.RestoreIngress(link, ifb, q))
}

func (kernel) Redirected(link, ifb int) (ours, others bool, err error) {
	ours, others, err = tc.Redirected(link, ifb)
	return ours, others, named(err)
}

// named makes ErrNoLink of the kernel's word for it.
func named(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%w: %w", ErrNoLink, err)
	}
	return err
}

// LinkEvents sends whenever an interface comes, goes or changes, until stop is
// closed; several changes may be one. The channel is closed when the kernel does
// not tell any more.
func LinkEvents(stop <-chan struct{}) (<-chan struct{}, error) {
	updates, events := make(chan netlink.LinkUpdate, 64), make(chan struct{}, 1)
	if err := netlink.LinkSubscribe(updates, stop); err != nil {
		return nil, fmt.Errorf("hear of interfaces: %w", err)
	}
	go func() {
		defer close(events)
		for range updates {
			select {
			case events <- struct{}{}:
			default: // one is waiting already
			}
		}
	}()
	return events, nil
}

// marks is the table in the kernel.
type marks struct{}

func (marks) Read() (dscpmark.State, error)                  { return dscpmark.Read("") }
func (marks) Apply(c dscpmark.Config) error                  { return dscpmark.Apply(c) }
func (marks) Delete() error                                  { return dscpmark.Delete("") }
func (marks) Check(c dscpmark.Config) error                  { return dscpmark.Check(c) }
func (marks) Fingerprint(c dscpmark.Config) (string, error)  { return dscpmark.Fingerprint(c) }
func (marks) Script(c dscpmark.Config) (string, error)       { return dscpmark.Script(c) }
func (marks) Collisions(c dscpmark.Config) ([]string, error) { return dscpmark.Collisions(c) }
