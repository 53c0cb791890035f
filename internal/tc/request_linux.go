package tc

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The three kinds of objects, by the message that makes one. Those that delete
// and list them have the next two numbers.
const (
	qdiscs  = unix.RTM_NEWQDISC
	classes = unix.RTM_NEWTCLASS
	filters = unix.RTM_NEWTFILTER
)

// set makes an object or changes the one that is there.
func set(object int, h head, kind Kind, options []byte) error {
	var a attrs
	a.text(tcaKind, string(kind))
	if options != nil {
		a.add(tcaOptions, options)
	}
	_, err := send(object, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE, h, a)
	return err
}

// remove deletes an object. One that is not there is no error.
func remove(object int, h head) error {
	_, err := send(object+1, unix.NLM_F_ACK, h, nil)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// list returns the objects of a link, the filters only those of one parent.
func list(object, link int, parent uint32) (found []message, err error) {
	const tries = 10 // somebody else may change something while the kernel lists
	var answers [][]byte
	for range tries {
		answers, err = send(object+2, unix.NLM_F_DUMP, head{link: link, parent: parent}, nil)
		if !errors.Is(err, nl.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	for _, b := range answers {
		if m, ok := decode(b); ok && m.link == link {
			found = append(found, m)
		}
	}
	return found, nil
}

// send sends one message with the calling thread's namespace and returns the
// answers. The kernel's own words are part of an error.
func send(typ, flags int, h head, a attrs) ([][]byte, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	patience := unix.Timeval{Sec: 10}
	if err := errors.Join(s.SetExtAck(true), s.SetSendTimeout(&patience), s.SetReceiveTimeout(&patience)); err != nil {
		return nil, err
	}
	req := nl.NewNetlinkRequest(typ, flags)
	req.AddRawData(h.encode())
	req.AddRawData(a)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}
	return req.Execute(unix.NETLINK_ROUTE, 0)
}

// doing says what a request was about, and of which link.
func doing(err error, link int, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tc: %s on link %d: %w", fmt.Sprintf(format, args...), link, err)
}
