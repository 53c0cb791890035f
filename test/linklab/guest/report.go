//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json/v2"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trafficup/internal/breaker"
	"trafficup/test/linklab"
)

// readReport reads the one summary that an upload leaves.
func readReport(state string, s *linklab.Summary) error {
	reports, err := filepath.Glob(filepath.Join(state, "runs", "*", "report.json"))
	if err != nil || len(reports) != 1 {
		return fmt.Errorf("the upload left %d reports: %w", len(reports), cmp.Or(err, os.ErrNotExist))
	}
	text, err := os.ReadFile(reports[0])
	if err != nil {
		return err
	}
	return json.Unmarshal(text, s)
}

// readLog notes what was worth a warning, and returns when each record was acked.
func readLog(file string, start time.Time, r *linklab.Result) (ends []time.Duration, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	warnings := map[string]int{}
	for line := range bytes.Lines(text) {
		var e struct {
			Time    time.Time `json:"time"`
			Level   string    `json:"level"`
			Message string    `json:"msg"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("log line %q: %w", line, err)
		}
		switch {
		case e.Message == "delivered":
			ends = append(ends, e.Time.Sub(start))
		case e.Level != "INFO":
			warnings[e.Message]++
		}
	}
	slices.Sort(ends)
	for _, m := range slices.Sorted(maps.Keys(warnings)) {
		r.Warnings = append(r.Warnings, linklab.Count{Message: m, Times: warnings[m]})
	}
	return ends, nil
}

// readBreaker returns what the state file says of a path. There is none when
// nothing ever failed.
func readBreaker(file, url string) (breaker.Transitions, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return breaker.Transitions{}, nil
	}
	if err != nil {
		return breaker.Transitions{}, err
	}
	var doc struct {
		Breakers map[string]breaker.State `json:"breakers"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return breaker.Transitions{}, err
	}
	for key, s := range doc.Breakers {
		if strings.Contains(key, url) {
			return s.Transitions, nil
		}
	}
	return breaker.Transitions{}, nil
}
