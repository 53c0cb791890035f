package dscpmark

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// What can stand in the way, wrapped by the errors of this package.
var (
	ErrPermission  = errors.New("nftables needs CAP_NET_ADMIN")
	ErrUnsupported = errors.New("the kernel lacks nftables of family inet or some of its expressions (CONFIG_NF_TABLES_INET, CONFIG_NFT_CT, CONFIG_NFT_SOCKET)")
	ErrManyUplinks = errors.New("too many uplinks")
	ErrNoCGroup    = errors.New("no such cgroup") // of cgroup v2, at the time of the call
	ErrOwned       = errors.New("the table has an owner (flags owner): no other program can change it, root's neither")
)

// Config is what should be marked. Of the classes the first that matches wins.
type Config struct {
	Classes    []Class
	Interfaces []string // the uplinks; they need not be there
	Mask       uint32   // the bits of the ct mark that are ours, side by side; 0: 0xff
	Table      string   // of family inet; "": trafficup
}

// Class is packets that bear the same DSCP.
type Class struct {
	Name  string // of letters, digits, - and _
	DSCP  uint8  // 0 to 63
	Match Match
}

// Match says what belongs to a class: what fits all of its fields that are set.
type Match struct {
	User   *uint32        // id of the user who opened the local socket
	Ports  []uint16       // where a connection goes to, TCP and UDP; both of its directions
	CGroup string         // of cgroup v2, below its root: the local socket was opened in it or in one below
	Hosts  []netip.Prefix // that forwarded packets come from; none together with User or CGroup
}

// local reports whether only sockets of this machine can match.
func (m Match) local() bool { return m.User != nil || m.CGroup != "" }

// maxInterfaces is how many uplinks a rule has room for: the kernel takes longer
// ones and leaves them out of a listing whose reader has a page of memory for it.
const maxInterfaces = 32

const (
	defaultMask  = 0xff
	defaultTable = "trafficup"
)

var (
	className = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)
	tableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,31}$`)
)

// Validate returns what [Apply] would refuse without asking the kernel. Whether a
// cgroup is there only Apply can tell.
func (c Config) Validate() error {
	_, err := c.filled()
	return err
}

// Validate returns what is wrong with the class for itself.
func (cl Class) Validate() error { return cl.fill() }

// filled returns a copy with defaults and with lists in order, or what is wrong.
func (c Config) filled() (Config, error) {
	if c.Mask == 0 {
		c.Mask = defaultMask
	}
	if c.Table == "" {
		c.Table = defaultTable
	}
	c.Interfaces = slices.Compact(slices.Sorted(slices.Values(c.Interfaces)))
	c.Classes = slices.Clone(c.Classes)
	if !tableName.MatchString(c.Table) {
		return c, fmt.Errorf("table %q: want letters, digits and _", c.Table)
	}
	if w := bits.OnesCount32(c.Mask); bits.Len32(c.Mask)-bits.TrailingZeros32(c.Mask) != w {
		return c, fmt.Errorf("ct mark mask %#x: its bits must be side by side", c.Mask)
	} else if w < 16 && len(c.Classes) >= 1<<w {
		return c, fmt.Errorf("ct mark mask %#x has room for %d classes, there are %d", c.Mask, 1<<w-1, len(c.Classes))
	}
	if n := len(c.Interfaces); n > maxInterfaces {
		return c, fmt.Errorf("%w: %d, and one rule names all: want %d at most", ErrManyUplinks, n, maxInterfaces)
	}
	if len(c.Interfaces) == 0 {
		return c, errors.New("no uplink interface to mark packets on")
	}
	for _, name := range c.Interfaces {
		if name == "" || len(name) > 15 || strings.ContainsFunc(name, oddInName) {
			return c, fmt.Errorf("interface %q: not a name of an interface", name)
		}
	}
	if len(c.Classes) == 0 {
		return c, errors.New("no class to mark packets with")
	}
	seen := map[string]bool{}
	for i := range c.Classes {
		cl := &c.Classes[i]
		if err := cl.fill(); err != nil {
			return c, fmt.Errorf("class %q: %w", cl.Name, err)
		}
		if seen[cl.Name] {
			return c, fmt.Errorf("class %q: there are two of that name", cl.Name)
		}
		seen[cl.Name] = true
	}
	return c, nil
}

// oddInName tells runes that the kernel refuses in the name of an interface or
// that mean something else to nft.
func oddInName(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/*"\`, r) }

func (cl *Class) fill() error {
	m := &cl.Match
	m.Ports = slices.Compact(slices.Sorted(slices.Values(m.Ports)))
	m.Hosts = slices.Clone(m.Hosts)
	for i, h := range m.Hosts {
		if !h.IsValid() || h.Addr().Is4In6() {
			return fmt.Errorf("host %v: want an address or prefix of IPv4 or IPv6", h)
		}
		m.Hosts[i] = h.Masked()
	}
	m.CGroup = strings.Trim(m.CGroup, "/")
	levels := strings.Split(m.CGroup, "/")
	switch {
	case !className.MatchString(cl.Name):
		return errors.New("want a name of up to 32 letters, digits, - and _, a letter first")
	case cl.DSCP > 63:
		return fmt.Errorf("dscp %d: want 0 to 63", cl.DSCP)
	case m.User == nil && m.CGroup == "" && len(m.Ports) == 0 && len(m.Hosts) == 0:
		return errors.New("matches nothing: want a user, ports, a cgroup or hosts")
	case m.local() && len(m.Hosts) > 0:
		return errors.New("a user or cgroup is of this machine, hosts are others: no packet is both")
	case slices.Contains(m.Ports, 0):
		return errors.New("port 0 is none")
	case m.CGroup != "" && (len(levels) > 255 || slices.Contains(levels, "") || slices.Contains(levels, "..") || slices.Contains(levels, ".")):
		return fmt.Errorf("cgroup %q: want a path below the root of cgroup v2", m.CGroup)
	case strings.ContainsFunc(m.CGroup, func(r rune) bool { return r < ' ' || r == '"' || r == 0x7f }):
		return fmt.Errorf("cgroup %q: odd characters", m.CGroup)
	}
	return nil
}

// marks gives each class a value of the ct mark, within mask and not zero. A
// class that has one keeps it; a new one gets none that old knows, as long as
// there are others: connections may still bear it.
func marks(classes []Class, mask uint32, old map[string]uint32) []uint32 {
	out := make([]uint32, len(classes))
	used, stale := map[uint32]bool{0: true}, map[uint32]bool{}
	for _, v := range old {
		stale[v] = true
	}
	for i, cl := range classes {
		if v := old[cl.Name]; v&^mask == 0 && !used[v] {
			out[i] = v
			used[v] = true
		}
	}
	step := mask & -mask
	for i := range out {
		for _, avoid := range []map[uint32]bool{stale, nil} {
			for v := step; out[i] == 0 && v != 0 && v&^mask == 0; v += step {
				if !used[v] && !avoid[v] {
					out[i] = v
					used[v] = true
				}
			}
		}
	}
	return out
}
