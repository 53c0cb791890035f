package main

import "trafficup/internal/netshape"

func localMachine(dir, keep string, args ...string) (*netshape.Machine, error) {
	return netshape.Local(dir, keep, args...)
}

func linkEvents(stop <-chan struct{}) (<-chan struct{}, error) { return netshape.LinkEvents(stop) }
