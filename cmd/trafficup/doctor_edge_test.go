package main

import (
	"testing"
	"testing/fstest"

	"trafficup/internal/config"
	"trafficup/internal/doctor"
)

// Who else shapes an interface of the configuration is told with what to do; where
// none is configured there is nothing to tell.
func TestNeighbours(t *testing.T) {
	sqm := fstest.MapFS{"etc/sqm/eth1.iface.conf": {}}
	d := examination{c: Config{new(config.Loaded)}}
	if found := d.neighbours(sqm); found != nil {
		t.Error(found)
	}
	d.c.Netshape.Interfaces = []config.ShapedInterface{{Name: "eth1", Up: "9mbit"}}
	if found := d.neighbours(fstest.MapFS{}); len(found) != 1 || found[0].Result != doctor.OK {
		t.Error(found)
	}
	want := doctor.Finding{
		Result: doctor.Warning, What: "neighbour", Message: "sqm-scripts: eth1: it shapes this interface, and has the same name for its ifb",
		Do: "have one of the two shape it; without sqm: systemctl disable --now sqm@eth1",
	}
	if found := d.neighbours(sqm); len(found) != 1 || found[0] != want {
		t.Error(found)
	}
}
