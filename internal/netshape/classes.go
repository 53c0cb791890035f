package netshape

import (
	"errors"
	"fmt"
	"net/netip"
	"os/user"
	"strconv"

	"trafficup/internal/dscp"
	"trafficup/internal/dscpmark"
)

// ClassSpec is a class of traffic as people write it.
type ClassSpec struct {
	Name   string
	DSCP   string // a name or a number; "": that of the usual classes
	User   string // name or number
	Ports  []int
	CGroup string
	Hosts  []string // addresses or prefixes in the LAN
}

// ErrNoUser is wrapped by ParseClass's error about a user that this machine does
// not know.
var ErrNoUser = errors.New("this machine knows no such user")

// ParseClass checks what people wrote; what only all classes together can show,
// [CheckClasses] finds. A user is looked up.
func ParseClass(s ClassSpec) (dscpmark.Class, error) {
	c := dscpmark.Class{Name: s.Name, Match: dscpmark.Match{CGroup: s.CGroup}}
	point, known := dscp.Usual(s.Name)
	if s.DSCP == "" && !known {
		return c, fmt.Errorf("class %q: has no dscp: want one, or one of the names bulk, interactive, control", s.Name)
	}
	if s.DSCP != "" {
		var err error
		if point, err = dscp.Parse(s.DSCP); err != nil {
			return c, fmt.Errorf("class %q: %w", s.Name, err)
		}
	}
	c.DSCP = uint8(point)
	if s.User != "" {
		id, err := userID(s.User)
		if err != nil {
			return c, fmt.Errorf("class %q: %w", s.Name, err)
		}
		c.Match.User = &id
	}
	for _, p := range s.Ports {
		if p < 1 || p > 65535 {
			return c, fmt.Errorf("class %q: port %d: want 1 to 65535", s.Name, p)
		}
		c.Match.Ports = append(c.Match.Ports, uint16(p))
	}
	for _, h := range s.Hosts {
		p, err := prefix(h)
		if err != nil {
			return c, fmt.Errorf("class %q: host %q: want an address or a prefix, such as 192.168.1.20 or 192.168.1.0/24", s.Name, h)
		}
		c.Match.Hosts = append(c.Match.Hosts, p)
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("class %q: %w", s.Name, err)
	}
	return c, nil
}

// CheckClasses finds what is wrong with classes, which ParseClass took, and with the
// bits of the connection mark that tell them apart (0: the default).
func CheckClasses(classes []dscpmark.Class, mask uint32) error {
	if len(classes) == 0 {
		return nil
	}
	return dscpmark.Config{Classes: classes, Mask: mask, Interfaces: []string{"any"}}.Validate()
}

// userID is the number of a user, who need not exist if it is one already.
func userID(name string) (uint32, error) {
	n, err := strconv.ParseUint(name, 10, 32)
	if err == nil {
		return uint32(n), nil
	}
	u, err := user.Lookup(name)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return 0, fmt.Errorf("user %q: %w", name, ErrNoUser)
	}
	if err != nil {
		return 0, fmt.Errorf("user %q: %w: %w", name, ErrNoUser, err)
	}
	n, err = strconv.ParseUint(u.Uid, 10, 32)
	return uint32(n), err
}

func prefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}
