package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"trafficup/internal/failover"
)

// badLines is how many lines of a recording that say nothing are named.
const badLines = 5

// recordedDays are those of recordings, by the uplinks that are configured.
func recordedDays(sys *system, setup failoverSetup, files []string) (simulation, error) {
	trace := new(failover.Trace)
	for _, path := range files {
		if err := readTrace(sys, trace, path); err != nil {
			return simulation{}, &failure{exitInput, "trafficup failover run --record FILE writes one", err}
		}
	}
	on := simulation{uplinks: setup.decide.Uplinks}
	on.begin, on.span = trace.Span()
	if len(on.uplinks) == 0 {
		for i, name := range trace.Uplinks() {
			on.uplinks = append(on.uplinks, failover.Uplink{Name: name, Metered: i > 0})
		}
	} else if setup.open(on.begin); len(setup.unread()) > 0 {
		return on, usageError("mend the file, or take it out of the configuration", "%s", strings.Join(setup.unread(), "; "))
	}
	var have []string
	for _, u := range on.uplinks {
		have = append(have, u.Name)
	}
	for _, name := range trace.Uplinks() {
		if !slices.Contains(have, name) {
			sys.warn(fmt.Sprintf("the recording knows an uplink %q, which is not configured: it is left out", name))
		}
	}
	if !slices.ContainsFunc(have, func(name string) bool { return slices.Contains(trace.Uplinks(), name) }) {
		return on, usageError("name the uplinks as they were then, or leave out --config", "no uplink of the recording is configured: it has %q", trace.Uplinks())
	}
	on.paths = func() []failover.Path { return trace.Paths(have) }
	return on, nil
}

// readTrace adds a file, and tells which of its lines say nothing.
func readTrace(sys *system, trace *failover.Trace, path string) error {
	file, err := sys.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	faults := 0
	good, err := trace.Read(file, func(line int, err error) {
		if faults++; faults <= badLines {
			sys.warn(fmt.Sprintf("%s: line %d is left out: %v", path, line, err))
		}
	})
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if faults > badLines {
		sys.warn(fmt.Sprintf("%s: %d lines in all are left out", path, faults))
	}
	if good == 0 {
		return fmt.Errorf("%s: no line of it is a look at an uplink", path)
	}
	return nil
}
