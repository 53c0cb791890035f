package main

import (
	"fmt"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/uploader"
)

// effects say what a force does. The words open and closed mislead who thinks of
// doors.
var effects = map[breaker.Phase]string{breaker.Open: "nothing is sent", breaker.Closed: "everything is sent, whatever it answers"}

// heldOpen reports whether somebody holds a breaker open, as its state says.
func heldOpen(s breaker.State) bool {
	return s.Force != (breaker.Force{}) && s.Force.Phase == breaker.Open
}

// breakerNews shows and logs what became of a path's breaker.
func (u *ui) breakerNews(path string, n breaker.News) {
	u.mu.Lock()
	if n.Moved() {
		u.changes++
	}
	if heldOpen(n.Is) {
		u.holds[path] = n.Is.Force.Reason
	}
	if n.Is.Phase == breaker.Closed && n.Is.Force == (breaker.Force{}) {
		delete(u.down, path)
	} else {
		u.down[path] = n.Is
	}
	u.mu.Unlock()
	now := time.Now()
	say := func(level uploader.Level, format string, a ...any) {
		u.Event(uploader.Event{At: now, Level: level, Path: path, Message: fmt.Sprintf(format, a...)})
	}
	forced := n.Is.Force != (breaker.Force{})
	switch {
	case forced && n.Is.Force != n.Was.Force:
		say(uploader.Warning, "warning: the breaker of %s is forced %s", path, forceWords(n.Is.Force))
	case !forced && n.Was.Force != (breaker.Force{}):
		say(uploader.Warning, "%s: breaker no longer forced %s", path, n.Was.Force.Phase)
	}
	switch {
	case forced || !n.Moved():
	case n.Is.Phase == breaker.Open:
		say(uploader.Warning, "%s: breaker open, next probe in %s", path, max(0, n.Is.OpenUntil.Sub(now)).Round(time.Second))
	case n.Is.Phase == breaker.Closed:
		say(uploader.Warning, "%s: breaker closed", path)
	default:
		say(uploader.Debug, "%s: breaker half-open", path)
	}
	if n.Thrashes {
		say(uploader.Warning, "warning: the breaker of %s opens and closes again and again: it changed %s in the last hour, and stays open for longer now", path, changeWords(n.Is.Changes, now))
	}
}

// downWords say how a path stands whose breaker is not simply closed.
func downWords(s breaker.State, now time.Time) string {
	if s.Force.Holds(now) {
		return fmt.Sprintf("forced %s for %s (%s)", s.Force.Phase, s.Force.Until.Sub(now).Round(time.Second), effects[s.Force.Phase])
	}
	if wait := s.OpenUntil.Sub(now).Round(time.Second); wait > 0 {
		return "down, next probe in " + wait.String()
	}
	return "down, being probed"
}

// forceWords say where a breaker is forced to, by whom, what that does, and why.
func forceWords(f breaker.Force) string {
	words := fmt.Sprintf("%s until %s", f.Phase, stamp(f.Until))
	if f.By != "" {
		words += " by " + f.By
	}
	words += " (" + effects[f.Phase] + ")"
	if f.Reason != "" {
		words += ": " + f.Reason
	}
	return printable(words)
}

// changeWords count changes; those that are not remembered are not counted.
func changeWords(c breaker.Changes, now time.Time) string {
	n := c.LastHour(now)
	if n == len(c) {
		return plural(n, "time") + " or more"
	}
	return plural(n, "time")
}
