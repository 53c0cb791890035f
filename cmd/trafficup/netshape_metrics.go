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
		err := netshape.ServeMetrics(ctx, l, func() ([]byte, error) { return m.Metrics(names...) })
		if err != nil {
			tell(netshape.Event{What: netshape.EventFailed, Text: "serve metrics: " + err.Error()})
		}
	}), nil
}

// eventMetrics is about where metrics are.
const eventMetrics = "metrics"

// checkMetrics finds what is wrong with where metrics go, and what is hardly meant.
func (c Config) checkMetrics() {
	const listen = "netshape.metrics_listen"
	if addr := c.Netshape.MetricsListen; addr != "" {
		if err := checkListen(addr); err != nil {
			c.Fault(listen, "%q: want HOST:PORT, such as 127.0.0.1:9477", addr)
		} else if why := everybody(addr); why != "" {
			c.Warn(listen, "%s%s: 127.0.0.1:9477 is for this machine alone", addr, why)
		}
	}
	if file := c.Netshape.MetricsFile; file != "" {
		if s, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) || err == nil && !s.IsDir() {
			c.Warn("netshape.metrics_file", "%s is no directory, and nothing is written before there is one; %s", filepath.Dir(file), makeDir(file))
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

const metricsEvery = 15 * time.Second

// writeMetrics writes them until ctx ends, and tells when that begins to fail, and
// when it works again.
func writeMetrics(ctx context.Context, m *netshape.Machine, names []string, file string, tell func(netshape.Event)) {
	tick := time.NewTicker(metricsEvery)
	defer tick.Stop()
	said := ""
	for {
		data, err := m.Metrics(names...)
		if err == nil {
			err = netshape.SaveMetrics(file, data)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if errors.Is(err, fs.ErrNotExist) {
			text += "; " + makeDir(file)
		}
		switch {
		case text == said:
		case text != "":
			tell(netshape.Event{What: netshape.EventFailed, Text: text})
		default:
			tell(netshape.Event{What: eventMetrics, Text: "written to " + file + " again"})
		}
		said = text
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
