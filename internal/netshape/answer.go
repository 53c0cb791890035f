package netshape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Answer is how one target answered to several connections at once.
type Answer struct {
	Target string        `json:"target"`
	OK     bool          `json:"ok"`
	Took   time.Duration `json:"took"` // of the slowest
	Error  string        `json:"error,omitempty"`
}

// Targets are asked whether the uplink still works.
type Targets struct {
	Addrs   []string                                                          // host:port
	Peers   []string                                                          // host:port of operators: being refused by them is an answer, too
	Need    int                                                               // of Addrs; 0: more than half
	Timeout time.Duration                                                     // 0: 2 s
	Burst   int                                                               // connections to each at once; 0: 8, which a uselessly low rate does not bear
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer
}

// Ask connects to all targets and closes the connections.
func (t Targets) Ask(ctx context.Context) []Answer {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(t.Timeout, 2*time.Second))
	defer cancel()
	answers := make([]Answer, len(t.Addrs)+len(t.Peers))
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			if i < len(t.Addrs) {
				answers[i] = t.ask(ctx, t.Addrs[i], cmp.Or(t.Burst, 8), false)
			} else {
				answers[i] = t.ask(ctx, t.Peers[i-len(t.Addrs)], 1, true)
			}
		})
	}
	all.Wait()
	return answers
}

func (t Targets) ask(ctx context.Context, addr string, burst int, refused bool) Answer {
	dial := t.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	start, errs := time.Now(), make([]error, burst)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			c, err := dial(ctx, "tcp", addr)
			if err == nil {
				err = c.Close()
			} else if refused && errors.Is(err, syscall.ECONNREFUSED) {
				err = nil
			}
			errs[i] = err
		})
	}
	all.Wait()
	a := Answer{Target: addr, OK: true, Took: time.Since(start)}
	for _, err := range errs {
		if err != nil {
			a.OK, a.Error = false, err.Error()
		}
	}
	return a
}

// Judge compares what the targets said before a change and after it, both from
// [Targets.Ask]. A target answers when all its connections do, in not much more
// time than before. ok is true when enough of Addrs do, and all Peers that did
// before. It is pure.
func (t Targets) Judge(before, after []Answer) (ok bool, why string) {
	answering, lost := 0, []string{}
	for i, a := range after {
		var was Answer
		if i < len(before) {
			was = before[i]
		}
		limit := max(3*was.Took, was.Took+300*time.Millisecond)
		good := a.OK && (!was.OK || a.Took <= limit)
		switch {
		case i >= len(t.Addrs) && !a.OK && was.OK:
			return false, fmt.Sprintf("the operator at %s does not answer any more: %s", a.Target, a.Error)
		case i >= len(t.Addrs):
		case good:
			answering++
		case a.OK:
			lost = append(lost, fmt.Sprintf("%s took %v, before it was %v", a.Target, a.Took.Round(time.Millisecond), was.Took.Round(time.Millisecond)))
		default:
			lost = append(lost, a.Target+": "+a.Error)
		}
	}
	need := cmp.Or(t.Need, len(t.Addrs)/2+1)
	if len(t.Addrs) == 0 || answering < need {
		return false, strings.Join(append([]string{fmt.Sprintf("%d of %d targets answer, %d are needed", answering, len(t.Addrs), need)}, lost...), "; ")
	}
	return true, fmt.Sprintf("%d of %d targets answer", answering, len(t.Addrs))
}

// AutoConfirm asks the targets until they answer as before in several rounds in
// a row, and then confirms id. When that does not happen until ctx ends it returns
// the reason; the rollback takes its course.
func (m *Machine) AutoConfirm(ctx context.Context, id string, t Targets, before []Answer) error {
	const rounds = 3
	why := "nobody was asked"
	for good := 0; ctx.Err() == nil; {
		ok := false
		if ok, why = t.Judge(before, t.Ask(ctx)); !ok {
			good = 0
		} else if good++; good == rounds {
			return m.Confirm(ctx, id)
		}
		if sleep(ctx, time.Second) != nil {
			break
		}
	}
	return fmt.Errorf("not confirmed: %s", why)
}

// SSHPeer returns the address, host:port, of the operator whose ssh session this
// is, from the value of SSH_CONNECTION; "" when there is none, or when the way to
// it is by none of the interfaces, which is why they cannot cut it off.
func SSHPeer(connection string, interfaces []string) string {
	words := strings.Fields(connection)
	if len(words) < 2 {
		return ""
	}
	peer := net.JoinHostPort(words[0], words[1])
	addr, err := netip.ParseAddr(words[0])
	if err != nil || elsewhere(addr, interfaces) {
		return ""
	}
	return peer
}

// Elsewhere returns those of targets, host:port, that no change to the interfaces
// can cut off, because the way to all of their addresses is by others: they answer
// whatever becomes of the uplink. Those of which that is not certain are not among
// them, as are those that cannot be looked up until ctx ends.
func Elsewhere(ctx context.Context, targets, interfaces []string) (list []string) {
	for _, t := range targets {
		host, _, err := net.SplitHostPort(t)
		if err != nil {
			continue
		}
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		near := func(a netip.Addr) bool { return !elsewhere(a, interfaces) }
		if err == nil && len(addrs) > 0 && !slices.ContainsFunc(addrs, near) {
			list = append(list, t)
		}
	}
	return list
}

// elsewhere reports that packets to addr certainly leave by none of the interfaces.
// By a tunnel or a bridge they may.
func elsewhere(addr netip.Addr, interfaces []string) bool {
	name, indirect, err := wayTo(addr)
	return err == nil && !indirect && !slices.Contains(interfaces, name)
}

// onInterface reports whether addr belongs to one of the interfaces.
func onInterface(addr netip.Addr, interfaces []string) bool {
	for _, name := range interfaces {
		i, err := net.InterfaceByName(name)
		if err != nil {
			continue
		}
		list, err := i.Addrs()
		if err != nil {
			return true // when in doubt the operator is asked
		}
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == addr.Unmap().WithZone("") {
				return true
			}
		}
	}
	return false
}
