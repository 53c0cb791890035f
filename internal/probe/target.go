package probe

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Kind is how a target is asked.
type Kind string

const (
	ICMP Kind = "icmp" // an echo request
	TCP  Kind = "tcp"  // a handshake, then a reset
	DNS  Kind = "dns"  // a query over UDP
	HTTP Kind = "http" // a GET, whose status and body are checked
)

// Target is one that is asked, and what it has to answer. Targets can be compared,
// and be keys of maps.
type Target struct {
	Kind Kind
	Addr netip.AddrPort // the port of ICMP is 0

	Name, Want string // DNS: the name with its last dot, and the type of record, or the address that one has

	Path, Host string // HTTP
	Status     int
	Body       string // what the body begins with
}

// TargetSpec is a target as people write it: one of the first four, and what goes
// with it.
type TargetSpec struct {
	ICMP string // an address
	TCP  string // address:port
	DNS  string // an address, port 53 when left out
	HTTP string // http://address/path

	Name string // DNS: what is asked for
	Want string // DNS: a record of this type, or one with this address; A when left out

	Host   string // HTTP: the name that the server is asked for, when left out the address
	Status int    // HTTP: 204 when left out, 200 where there is a body
	Body   string // HTTP: what the body has to begin with
}

// ParseTarget checks what people wrote.
func ParseTarget(s TargetSpec) (Target, error) {
	var kinds []Kind
	var text string
	for _, k := range []struct {
		kind Kind
		text string
	}{{ICMP, s.ICMP}, {TCP, s.TCP}, {DNS, s.DNS}, {HTTP, s.HTTP}} {
		if k.text != "" {
			kinds, text = append(kinds, k.kind), k.text
		}
	}
	switch len(kinds) {
	case 0:
		return Target{}, errors.New("says not how it is asked: write one of icmp, tcp, dns, http")
	case 1:
	default:
		return Target{}, fmt.Errorf("a target is one of icmp, tcp, dns, http: this is %v: write a target for each", kinds)
	}
	t := Target{Kind: kinds[0]}
	err := t.parse(text, s)
	if err == nil {
		err = usable(t.Addr.Addr())
	}
	if err != nil {
		return Target{}, fmt.Errorf("%s target %q: %w", t.Kind, text, err)
	}
	return t, nil
}

func (t *Target) parse(text string, s TargetSpec) (err error) {
	if t.Kind != DNS && s.Name+s.Want != "" {
		return errors.New("name and want go with dns only")
	}
	if t.Kind != HTTP && (s.Host+s.Body != "" || s.Status != 0) {
		return errors.New("host, status and body go with http only")
	}
	switch t.Kind {
	case ICMP:
		t.Addr, err = address(text, "")
		return err
	case TCP:
		t.Addr, err = address(text, "needed")
		return err
	case DNS:
		return t.parseDNS(text, s)
	}
	return t.parseHTTP(text, s)
}

func (t *Target) parseDNS(text string, s TargetSpec) (err error) {
	if t.Addr, err = address(text, "53"); err != nil {
		return err
	}
	if s.Name == "" {
		return errors.New("name is missing: what is asked for")
	}
	t.Name, t.Want = strings.TrimSuffix(s.Name, ".")+".", strings.ToUpper(cmp.Or(s.Want, "A"))
	if a, err := netip.ParseAddr(t.Want); err == nil {
		t.Want = a.Unmap().String()
	}
	_, err = query(0, t.Name, t.Want)
	return err
}

// longestBody is of what a body has to begin with.
const longestBody = 4 << 10

func (t *Target) parseHTTP(text string, s TargetSpec) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return err
	case u.Scheme == "https":
		return errors.New("want http: what catches all answers shows there, and a certificate that expires is no outage; for port 443 there is tcp")
	case u.Scheme != "http" || u.Opaque != "":
		return errors.New("want http://address/path")
	case u.User != nil || u.Fragment != "":
		return errors.New("has a user or a fragment")
	}
	if t.Addr, err = address(u.Host, "80"); err != nil {
		return err
	}
	t.Path, t.Host = u.RequestURI(), cmp.Or(s.Host, u.Host)
	if v, err := url.Parse("http://" + t.Host); err != nil || v.Host != t.Host {
		return fmt.Errorf("host %q is no name of a host", t.Host)
	}
	t.Status, t.Body = s.Status, s.Body
	if t.Status == 0 {
		t.Status = 204
		if t.Body != "" {
			t.Status = 200
		}
	}
	if t.Status < 200 || t.Status > 599 {
		return fmt.Errorf("status %d: want 200 to 599", t.Status)
	}
	if t.Body != "" && (t.Status == 204 || t.Status == 304) {
		return fmt.Errorf("an answer with status %d has no body", t.Status)
	}
	if len(t.Body) > longestBody {
		return fmt.Errorf("body has %d bytes, want at most %d: its beginning is enough", len(t.Body), longestBody)
	}
	return nil
}

// address reads an address, with a port where one is due. port is what stands for
// one that was left out, "needed" when there must be one, and "" when there is none.
func address(text, port string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil && port != "needed" {
		n, _ := strconv.ParseUint(port, 10, 16)
		return netip.AddrPortFrom(a.Unmap(), uint16(n)), nil
	}
	p, err := netip.ParseAddrPort(text)
	switch {
	case err == nil && port == "":
		return p, errors.New("has a port")
	case err == nil && p.Port() != 0:
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()), nil
	case port == "needed":
		return p, errors.New("want an IP address and a port, such as 192.0.2.1:443 or [2001:db8::1]:443: a name would be looked up by whichever uplink is in use")
	}
	return p, errors.New("want an IP address: a name would be looked up by whichever uplink is in use")
}

// usable refuses what no uplink leads to.
func usable(a netip.Addr) error {
	if a.Zone() != "" || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) || a.Is6() && a.IsLinkLocalUnicast() {
		return fmt.Errorf("%s is not an address beyond an uplink", a)
	}
	return nil
}

// String is for people.
func (t Target) String() string {
	switch t.Kind {
	case ICMP:
		return fmt.Sprintf("icmp %s", t.Addr.Addr())
	case DNS:
		return fmt.Sprintf("dns %s %s %s", t.Addr, t.Name, t.Want)
	case HTTP:
		return fmt.Sprintf("http http://%s%s", t.Addr, t.Path)
	}
	return fmt.Sprintf("%s %s", t.Kind, t.Addr)
}
