package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"trafficup/internal/config"
	"trafficup/internal/dscpmark"
	"trafficup/internal/netshape"
)

// specOf is an interface of the configuration.
func specOf(i config.ShapedInterface) (netshape.Spec, error) {
	s := netshape.Spec{
		Name: i.Name, Kind: i.Kind, Up: i.Up, Down: i.Down,
		Profile: i.Profile, Diffserv: i.Diffserv, AckFilter: i.AckFilter, RTT: i.RTT,
	}
	if err := setOverhead(&s, i.Overhead); err != nil {
		return s, fmt.Errorf("%s: %w", i.Name, err)
	}
	return s, nil
}

// setOverhead reads a number of bytes; "" leaves s as it is.
func setOverhead(s *netshape.Spec, text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("overhead %q: want a number of bytes", text)
	}
	s.Overhead = &n
	return nil
}

// shaped is what the configuration says of an interface; the zero value: nothing.
func (c Config) shaped(name string) config.ShapedInterface {
	for _, i := range c.Netshape.Interfaces {
		if i.Name == name {
			return i
		}
	}
	return config.ShapedInterface{}
}

// trafficClasses are the classes of the configuration. Users are looked up.
func (c Config) trafficClasses() (classes []dscpmark.Class, mask uint32, err error) {
	for _, k := range c.Netshape.Classes {
		class, err := netshape.ParseClass(classSpec(k))
		switch {
		case errors.Is(err, netshape.ErrNoUser):
			return nil, 0, usageError(noUserHint(k.Match.User), "netshape.classes: %w", err)
		case err != nil:
			return nil, 0, usageError("correct netshape.classes: trafficup config check", "%w", err)
		}
		classes = append(classes, class)
	}
	if mask, err = parseMask(c.Netshape.Mask); err == nil {
		err = netshape.CheckClasses(classes, mask)
	}
	if err != nil {
		return nil, 0, usageError("correct netshape.mask: trafficup config check", "%w", err)
	}
	return classes, mask, nil
}

// noUserHint is what to do about a user of a class who is not there.
func noUserHint(name string) string {
	return "make the user: useradd --system " + quoted(name) + "; or write another name or a number, or leave user out of the class"
}

func classSpec(k config.TrafficClass) netshape.ClassSpec {
	return netshape.ClassSpec{Name: k.Name, DSCP: k.DSCP, User: k.Match.User, Ports: k.Match.Ports, CGroup: k.Match.CGroup, Hosts: k.Match.Hosts}
}

// parseMask reads the bits of a mark; "" is 0, the default.
func parseMask(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 0, 32)
	if err != nil || n == 0 {
		return 0, errors.New("write bits of a 32-bit mark, such as 0xff or 0xff00")
	}
	return uint32(n), nil
}

// checkNetshape finds the mistakes in what is to be shaped that need no look at
// the machine: a user or an interface may come later.
func (c Config) checkNetshape() {
	seen := map[string]bool{}
	for n, i := range c.Netshape.Interfaces {
		at := fmt.Sprintf("netshape.interfaces[%d]", n)
		if err := checkInterface(i); err != nil {
			c.Fault(at, "%v", err)
		}
		if seen[i.Name] {
			c.Fault(at+".name", "%s is there twice", i.Name)
		}
		seen[i.Name] = true
	}
	c.checkClasses()
	for n, target := range c.Netshape.Targets {
		if _, _, err := net.SplitHostPort(target); err != nil {
			c.Fault(fmt.Sprintf("netshape.targets[%d]", n), "%q: want HOST:PORT", target)
		}
	}
	c.checkMetrics()
}

// checkClasses finds the mistakes in the classes, each for itself and all together.
func (c Config) checkClasses() {
	var classes []dscpmark.Class
	seen := map[string]bool{}
	for n, k := range c.Netshape.Classes {
		at := fmt.Sprintf("netshape.classes[%d]", n)
		spec := classSpec(k)
		class, err := netshape.ParseClass(spec)
		if errors.Is(err, netshape.ErrNoUser) { // may come later
			c.Warn(at+".match.user", "class %s: %s is no user of this machine, and nothing is shaped or marked before there is one; %s", k.Name, k.Match.User, noUserHint(k.Match.User))
			spec.User = "0"
			class, err = netshape.ParseClass(spec)
		}
		switch {
		case err != nil:
			c.Fault(at, "%v", err)
		case seen[k.Name]:
			c.Fault(at+".name", "%s is there twice", k.Name)
		default:
			classes = append(classes, class)
		}
		seen[k.Name] = true
	}
	mask, err := parseMask(c.Netshape.Mask)
	if err != nil {
		c.Fault("netshape.mask", "%s: %v", c.Netshape.Mask, err)
	} else if err := netshape.CheckClasses(classes, mask); err != nil {
		c.Fault("netshape.mask", "%v", err)
	}
}

// checkInterface finds the mistakes in what the configuration says of an interface.
func checkInterface(i config.ShapedInterface) error {
	spec, err := specOf(i)
	if err != nil {
		return err
	}
	parsed, err := parseInterface(spec)
	if err != nil {
		return err
	}
	if i.Target != "" && !isTarget(i.Target) {
		return fmt.Errorf("%s: target %q: want HOST:PORT or icmp:HOST", i.Name, i.Target)
	}
	if i.AutorateMin == "" {
		return nil
	}
	lowest, err := netshape.ParseRate(i.AutorateMin)
	switch {
	case err != nil:
		return fmt.Errorf("%s: autorate_min: %w", i.Name, err)
	case i.Target == "":
		return fmt.Errorf("%s: autorate_min needs a target, whose delay it goes by", i.Name)
	case lowest >= parsed.Up:
		return fmt.Errorf("%s: autorate_min %s: want less than up", i.Name, i.AutorateMin)
	}
	return nil
}
