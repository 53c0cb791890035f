package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/config"
)

// guarded is a path and the key of its breaker.
type guarded struct{ path, url, key string }

// breakerKey is what the path's breaker is kept under. What all machines share is
// kept for one API already.
func (p pathSetup) breakerKey(store string) string {
	if store == "redis" {
		return p.name
	}
	return p.name + " " + config.Shown(p.url)
}

// guardedPaths are the paths of that name, or all where it is empty and none has
// to be named: those configured, or else those that a breaker is kept for.
func (c Config) guardedPaths(st *state, name string, named bool) ([]guarded, error) {
	var all, meant []guarded
	for _, p := range c.pathSetups() {
		all = append(all, guarded{p.name, config.Shown(p.url), p.breakerKey(c.Breaker.Store)})
	}
	if len(all) == 0 && c.Breaker.Store == "redis" { // redis.group names the API
		all = []guarded{{"primary", "", "primary"}, {"fallback", "", "fallback"}}
	}
	if len(all) == 0 && c.Breaker.Store == "file" {
		states, err := readBreakers(st)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, &failure{exitFailed, "trafficup state check says more", fmt.Errorf("%s: %w", st.breakers(), err)}
		}
		for _, key := range slices.Sorted(maps.Keys(states)) {
			path, url, _ := strings.Cut(key, " ")
			all = append(all, guarded{path, url, key})
		}
	}
	var known []string
	for _, g := range all {
		known = append(known, printable(g.path+" "+g.url))
		if g.path == name || name == "" {
			meant = append(meant, g)
		}
	}
	switch {
	case len(all) == 0 && (named || name != ""):
		return nil, usageError("", "no path is known: give --url, or --config")
	case named && name == "":
		return nil, usageError("", "say which path: %s", strings.Join(known, ", "))
	case name != "" && len(meant) == 0:
		return nil, usageError("", "there is no path %q; there are: %s", name, strings.Join(known, ", "))
	case named && len(meant) > 1:
		return nil, usageError("", "give --url: there are %s", strings.Join(known, ", "))
	}
	return meant, nil
}

// breakerPlace is where the breakers are kept.
type breakerPlace struct {
	Store string `json:"store"`          // file or redis
	Where string `json:"where"`          // the file, or the Redis
	Group string `json:"group,omitzero"` // under which machines share them there
}

func (c Config) breakerPlace(st *state) breakerPlace {
	if c.Breaker.Store == "redis" {
		return breakerPlace{"redis", printable(c.redisPlace()), printable(c.group())}
	}
	return breakerPlace{Store: "file", Where: printable(st.breakers())}
}

// words say it to people, and whether there are any breakers.
func (p breakerPlace) words(n int) string {
	switch {
	case n == 0:
		return "no breaker is kept here yet: " + p.Where
	case p.Store == "redis":
		return fmt.Sprintf("breakers shared on %s, as %s", p.Where, p.Group)
	}
	return "breakers of this machine, in " + p.Where
}

// breakerWarnings are those of the configuration, and that it may be another
// breaker that is meant.
func (c Config) breakerWarnings() (all []string) {
	for _, w := range c.Warnings {
		all = append(all, w.String())
	}
	if c.hasRedis() && c.Breaker.Store == "file" && c.Origin("breaker.store").Layer == "default" {
		all = append(all, "breaker acts on this machine's file; for the shared one: --breaker-store redis")
	}
	return all
}

// breakerLine is how a breaker stands, for programs.
type breakerLine struct {
	Type      string     `json:"message_type"`
	Path      string     `json:"path"`
	URL       string     `json:"url,omitzero"`
	Phase     string     `json:"phase"`
	Since     time.Time  `json:"since,omitzero"`
	Until     time.Time  `json:"until,omitzero"` // of the open time, the probe's lease or the force
	Failures  int        `json:"failures"`       // in a row
	Force     *forceLine `json:"force"`          // null: nobody forces it
	Changes   int        `json:"changes_last_hour"`
	Thrashing bool       `json:"thrashing"`
	breakerPlace
}

type forceLine struct {
	Phase  string    `json:"phase"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at,omitzero"`
}

func (g guarded) line(s breaker.State, now time.Time) breakerLine {
	l := breakerLine{
		Type: "breaker", Path: printable(g.path), URL: printable(g.url), Phase: s.Phase.String(), Since: s.Since, Failures: s.Failures,
		Changes: s.Changes.LastHour(now), Thrashing: s.Changes.Thrashing(now),
	}
	switch f := s.Force; {
	case f.Holds(now):
		l.Until, l.Force = f.Until, &forceLine{f.Phase.String(), f.Until, printable(f.Reason), printable(f.By), f.At}
	case s.Phase == breaker.Open:
		l.Until = s.OpenUntil
	case s.Phase == breaker.HalfOpen:
		l.Until = s.ProbeUntil
	}
	return l
}

// show prints how the breaker stands.
func (g guarded) show(sys *system, asJSON bool, place breakerPlace, s breaker.State, now time.Time) error {
	l := g.line(s, now)
	l.breakerPlace = place
	if asJSON {
		return writeLine(sys.stdout, l)
	}
	force, until, changes := "no", "-", changeWords(s.Changes, now)+" in the last hour"
	if l.Force != nil {
		force = forceWords(s.Force)
	}
	if l.Until.After(now) {
		until = fmt.Sprintf("%s, in %s", stamp(l.Until), l.Until.Sub(now).Round(time.Second))
	}
	if l.Thrashing {
		changes += ": it thrashes, and stays open for longer"
	}
	_, err := fmt.Fprintf(sys.stdout, "%s %s\n  phase     %s\n  since     %s\n  until     %s\n  failures  %d in a row\n  forced    %s\n  changed   %s\n",
		l.Path, l.URL, l.Phase, stamp(l.Since), until, l.Failures, force, changes)
	return err
}
