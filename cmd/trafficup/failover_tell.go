package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"trafficup/internal/edge"
)

// tell says what happened, to people and to the history.
func (l *failoverLoop) tell(h edge.Happening) {
	now := l.now()
	l.tally.Told(h, now.Boot)
	lines := strings.Split(happening(h.Event), "\n") // of routes, one each
	switch {
	case l.asJSON:
		kind := "status"
		if h.Error {
			kind = "warning"
		}
		_ = writeTold(l.sys, kind, edge.Told{At: now.Wall.UTC(), Event: h.Event})
	case h.Error:
		l.sys.warn(lines...)
	default:
		for _, line := range lines {
			l.sys.note(line)
		}
	}
	if h.What != edge.EventRoutes && !h.Error {
		l.sys.warnOnce(&l.unnoted, l.store.Note(edge.Told{At: now.Wall.UTC().Round(time.Second), Event: h.Event}))
	}
}

func writeTold(sys *system, kind string, t edge.Told) error {
	return writeJSON(sys, struct {
		Type string `json:"message_type"`
		edge.Told
	}{kind, t})
}

// trouble is what is the matter, "" for nothing.
type trouble string

// becomes reports whether that is news.
func (t *trouble) becomes(text string) (news bool) {
	news = text != string(*t)
	*t = trouble(text)
	return news
}

// warnOnce warns of err, unless it was the same the last time.
func (s *system) warnOnce(last *trouble, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if last.becomes(text) && text != "" {
		s.warn(text)
	}
}

// unhurried is a writer that holds nobody up: what it gets is written beside. What
// comes while too much waits, as nobody reads, is left out; what fails is lost.
type unhurried struct {
	lines chan []byte  // nil ends it
	left  atomic.Int64 // how many were left out and not told of
	ended chan struct{}
}

func newUnhurried(to io.Writer, warn func(...string)) *unhurried {
	u := &unhurried{lines: make(chan []byte, 256), ended: make(chan struct{})}
	go func() {
		defer close(u.ended)
		for line := <-u.lines; line != nil; line = <-u.lines {
			_, _ = to.Write(line)
			if n := u.left.Swap(0); n > 0 {
				warn(fmt.Sprintf("%d lines were left out, as nobody read them in time", n))
			}
		}
	}()
	return u
}

// Write never waits, and never fails.
func (u *unhurried) Write(line []byte) (int, error) {
	select {
	case u.lines <- bytes.Clone(line):
	default:
		u.left.Add(1)
	}
	return len(line), nil
}

// close waits a moment for what is not written yet.
func (u *unhurried) close() {
	limit := time.After(time.Second)
	select {
	case u.lines <- nil:
	case <-limit:
		return
	}
	select {
	case <-u.ended:
	case <-limit:
	}
}

// unhurried has nobody who is told hold up the loop, until written.
func (l *failoverLoop) unhurried() (written func()) {
	was, own := l.sys, *l.sys
	out, said := newUnhurried(was.stdout, own.warn), newUnhurried(was.stderr, own.warn)
	own.stdout, own.stderr = out, said
	l.sys = &own
	return func() {
		out.close()
		said.close()
		l.sys = was
	}
}
