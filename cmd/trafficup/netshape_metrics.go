package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"trafficup/internal/metrics"
	"trafficup/internal/netshape"
)

// metrics are the parts that tell of all interfaces that were set up, of names, and
// of those in the configuration: whichever watch is asked, it says the same.
func (o *netshapeOptions) metrics(sys *system, names []string) (all []part, err error) {
	c := sys.config.Netshape
	names = slices.Clone(names)
	for _, i := range c.Interfaces {
		names = append(names, i.Name)
	}
	if c.MetricsFile != "" {
		m, err := o.shaper(sys)
		if err != nil {
			return nil, err
		}
		all = append(all, func(ctx context.Context, tell func(netshape.Event)) { writeMetrics(ctx, m, names, c.MetricsFile, tell) })
	}
	if c.MetricsListen == "" {
		return all, nil
	}
	m, err := o.shaper(sys)
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{Control: shareAddress}).Listen(sys.soft, "tcp", c.MetricsListen)
	if err != nil {
		return nil, &failure{exitFailed, "choose an address of this machine, and a port above 1023 that is free (ss -ltn shows those that are not), with --metrics-listen or netshape.metrics_listen", err}
	}
	return append(all, func(ctx context.Context, tell func(netshape.Event)) {
		tell(netshape.Event{What: eventMetrics, Text: "served at http://" + l.Addr().String() + "/metrics" + everybody(l.Addr().String())})
		err := metrics.Serve(ctx, l, "trafficup netshape", func() ([]byte, error) { return m.Metrics(names...) })
		if err != nil {
			tell(netshape.Event{What: netshape.EventFailed, Text: "serve metrics: " + err.Error()})
		}
	}), nil
}

// eventMetrics is about where metrics are.
const eventMetrics = "metrics"

// checkMetrics finds what is wrong with where metrics go, and what is hardly meant.
func (c Config) checkMetrics() {
	n, f := c.Netshape, c.Failover
	c.checkMetricsOf("netshape", n.MetricsListen, n.MetricsFile, "9477")
	c.checkMetricsOf("failover", f.MetricsListen, f.MetricsFile, "9478")
	switch {
	case f.MetricsFile != "" && f.MetricsFile == n.MetricsFile:
		c.Fault("failover.metrics_file", "%s is netshape's: each would write over the other's", f.MetricsFile)
	case f.MetricsListen != "" && f.MetricsListen == n.MetricsListen:
		c.Fault("failover.metrics_listen", "%s is netshape's: want another port", f.MetricsListen)
	}
}

func (c Config) checkMetricsOf(section, addr, file, port string) {
	key := section + ".metrics_listen"
	if addr != "" {
		if err := checkListen(addr); err != nil {
			c.Fault(key, "%q: want HOST:PORT, such as 127.0.0.1:%s", addr, port)
		} else if why := everybody(addr); why != "" {
			c.Warn(key, "%s%s: 127.0.0.1:%s is for this machine alone", addr, why, port)
		}
	}
	if file != "" {
		if s, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) || err == nil && !s.IsDir() {
			c.Warn(section+".metrics_file", "%s is no directory, and nothing is written before there is one; %s", filepath.Dir(file), makeDir(file))
		}
	}
}

func makeDir(file string) string {
	return "make it: install -d " + quoted(filepath.Dir(file)) + "; or name a file elsewhere"
}

// everybody says so of an address that is every one of the machine.
func everybody(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	if ip, err := netip.ParseAddr(host); host != "" && (err != nil || !ip.IsUnspecified()) {
		return ""
	}
	return " is every address of this machine, also the uplink's, and asks nobody who they are"
}

// checkListen is for addresses to listen at.
func checkListen(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

// unwritten is for people: why a file of metrics was not written, and what to do; "": it
// was.
func unwritten(file string, err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return err.Error() + "; " + makeDir(file)
	}
	return err.Error()
}

const metricsEvery = 15 * time.Second

// writeMetrics writes them until ctx ends, and tells when that begins to fail, and
// when it works again.
func writeMetrics(ctx context.Context, m *netshape.Machine, names []string, file string, tell func(netshape.Event)) {
	tick := time.NewTicker(metricsEvery)
	defer tick.Stop()
	var said trouble
	for {
		data, err := m.Metrics(names...)
		if err == nil {
			err = metrics.Save(file, data)
		}
		switch text := unwritten(file, err); {
		case !said.becomes(text):
		case text != "":
			tell(netshape.Event{What: netshape.EventFailed, Text: text})
		default:
			tell(netshape.Event{What: eventMetrics, Text: "written to " + file + " again"})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
