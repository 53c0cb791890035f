package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"trafficup/internal/config"
	"trafficup/internal/failover"
	"trafficup/internal/netpath"
	routes "trafficup/internal/route"
)

func (s *failoverSetup) addUplink(u config.FailoverUplink, at string, fault func(key, format string, a ...any)) {
	if u.Name == "auto" || u.Name != "" && !siteName.MatchString(u.Name) {
		fault(at+".name", "%q: want letters, digits or any of . _ -, and not auto", u.Name)
	}
	way := routes.Uplink{Name: u.Name, Interface: u.Interface}
	switch gateway, err := parseGateway(u.Gateway); {
	case err != nil:
		fault(at+".gateway", "%q %v: write an address of IPv4 or IPv6, or auto", u.Gateway, err)
	case gateway.Is6() && !s.layout.V6:
		fault(at+".gateway", "%v is of no use without failover.ipv6: true", gateway)
	case gateway.Is6():
		way.Gateway6 = gateway
	default:
		way.Gateway4 = gateway
	}
	for _, have := range s.layout.Uplinks {
		if have.Name == u.Name {
			fault(at+".name", "%s is there twice", u.Name)
		}
		if have.Interface == u.Interface {
			fault(at+".interface", "%s is that of %s already", u.Interface, have.Name)
		}
	}
	s.layout.Uplinks = append(s.layout.Uplinks, way)
	s.decide.Uplinks = append(s.decide.Uplinks, failover.Uplink{Name: u.Name, Metered: u.Metered, Windows: s.windows(u, at, fault)})
	if !s.decide.Usable(len(s.decide.Uplinks)-1, time.Now()) {
		fault(at+".maintenance", "%s is never used: it is left %v before each window (failover.lead), and they are no further apart", u.Name, s.decide.Rules.Lead)
	}
}

// windows are those of an uplink that is added next; its files are for later.
func (s *failoverSetup) windows(u config.FailoverUplink, at string, fault func(key, format string, a ...any)) (all []failover.Planned) {
	for n, w := range u.Windows {
		at := fmt.Sprintf("%s.maintenance[%d]", at, n)
		if w.ICal != "" {
			s.addCalendar(w, at, fault)
			continue
		}
		window, err := netpath.ParseWindow(netpath.Spec{Path: u.Name, Days: w.Days, From: string(w.From), To: string(w.To), TZ: w.TZ})
		switch {
		case err != nil:
			fault(at, "%v", err)
			continue
		case w.Hold && window.Length() > failover.LongestHold:
			fault(at+".hold", "%v is too long to stay on an uplink that is dead: write an hour at most, or leave out hold", window.Length())
		}
		all = append(all, failover.Planned{Window: window, Hold: w.Hold})
	}
	return all
}

// parseGateway reads one; of auto it is no valid address.
func parseGateway(text string) (a netip.Addr, err error) {
	if text == "" || text == "auto" {
		return a, nil
	}
	if a, err = netip.ParseAddr(text); err != nil {
		return a, errors.New("is no address")
	}
	if a = a.Unmap(); a.Zone() != "" || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return a, errors.New("is no gateway's")
	}
	return a, nil
}
