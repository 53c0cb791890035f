package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/clockskew"
	"trafficup/internal/redis"
	"trafficup/internal/sharedlimit"
)

// sharedStatus is what machines share, as Redis tells it. Texts in it are printable.
type sharedStatus struct {
	Where     string        `json:"where"`
	Group     string        `json:"group"`         // under which they share
	Away      string        `json:"away,omitzero"` // why not all of the rest is known
	Breakers  []pathStatus  `json:"breakers"`
	Latency   []pathLatency `json:"latency"`
	Uploaders int           `json:"uploaders"`             // that share a ceiling now
	Ceiling   float64       `json:"ceiling,omitzero"`      // calls per second
	SkewS     *float64      `json:"clock_skew_s,omitzero"` // what this machine's clock lacks
	now       time.Time     // on Redis' clock
	off       bool          // the clocks differ by too much
	shares    bool          // breakers
}

// pathLatency compares the last minute of a path with the rest of its hour.
type pathLatency struct {
	Path   string      `json:"path"`
	Minute latencyLine `json:"minute"`
	Hour   latencyLine `json:"hour"`
	Burst  bool        `json:"burst"` // latency has risen by far
}

type latencyLine struct {
	P95MS float64 `json:"p95_ms"`
	Calls int     `json:"calls"`
}

// sharedPatience is how long status waits for all that Redis tells.
const sharedPatience = time.Second

// askShared returns what machines share, or why it cannot be told; nil where nothing
// is shared.
func (c Config) askShared(sys *system, st *state) *sharedStatus {
	if !c.hasRedis() || c.Upload.Sandbox != "" || st.ofSandbox() {
		return nil
	}
	s := &sharedStatus{
		Where: printable(c.redisPlace()), Group: printable(c.group()), Breakers: []pathStatus{}, Latency: []pathLatency{},
		now: time.Now(), shares: c.Breaker.Store == "redis",
	}
	warn := func(text string) { fmt.Fprintf(sys.stderr, "trafficup: warning: %s\n", printable(text)) }
	cl, err := c.openRedis(sys, warn, nil)
	if err != nil {
		s.Away = awayWords(err)
		return s
	}
	defer func() { _ = cl.Close() }() // nothing was written
	ctx, cancel := context.WithTimeout(sys.soft, sharedPatience)
	defer cancel()
	breakers := cl.Breakers(c.Breaker.OpenMax, nil)
	err = s.ask(ctx, c, st, cl, breakers)
	if errors.Is(err, redis.ErrAway) { // to connect may take longer than to ask
		err = s.ask(ctx, c, st, cl, breakers)
	}
	if err != nil {
		s.Away = awayWords(err)
	}
	return s
}

// awayWords say why Redis did not tell, and what to do about it.
func awayWords(err error) string {
	words := err.Error()
	if e, ok := errors.AsType[*redis.Error](err); ok {
		words += " (" + e.Hint + ")"
	} else if use, ok := errors.AsType[*failure](err); ok && use.hint != "" {
		words += " (" + use.hint + ")"
	}
	return printable(words)
}

// ask gets it all, what matters most first, up to the first error.
func (s *sharedStatus) ask(ctx context.Context, c Config, st *state, cl *redis.Client, breakers breaker.Store) error {
	if s.shares {
		if err := s.askBreakers(ctx, c, st, cl, breakers); err != nil {
			return err
		}
	}
	sharing, err := sharedlimit.Count(ctx, cl)
	if err != nil {
		return err
	}
	s.Uploaders, s.Ceiling = sharing.Nodes, sharing.Ceiling
	s.compareClocks(cl)
	paths, now, err := sharedlimit.NewReader(cl).Read(ctx)
	if err != nil {
		return err
	}
	s.Latency = s.Latency[:0]
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		c := sharedlimit.Compare(paths[path], now)
		s.Latency = append(s.Latency, pathLatency{
			printable(path), latencyLine{ms(c.Minute.P95), c.Minute.Calls}, latencyLine{ms(c.Hour.P95), c.Hour.Calls}, c.Burst,
		})
	}
	return nil
}

func (s *sharedStatus) askBreakers(ctx context.Context, c Config, st *state, cl *redis.Client, breakers breaker.Store) error {
	paths, err := c.guardedPaths(st, "", false)
	if err != nil {
		return err
	}
	s.Breakers = s.Breakers[:0]
	for _, p := range paths {
		b, err := breakers.Load(ctx, p.key)
		if err != nil {
			return err
		}
		s.compareClocks(cl)
		s.Breakers = append(s.Breakers, newPathStatus(p.path, b, s.now))
	}
	return nil
}

// compareClocks finds out the time on Redis' clock.
func (s *sharedStatus) compareClocks(cl *redis.Client) {
	k, known := cl.Clock()
	if !known {
		return
	}
	lacks := k.Ahead.Round(time.Millisecond).Seconds()
	s.now, s.SkewS, s.off = time.Now().Add(k.Ahead), &lacks, k.Ahead.Abs()-k.Within > clockskew.Limit
}

// text shows it below what is this machine's own.
func (s *sharedStatus) text(b *bytes.Buffer) {
	if s == nil {
		return
	}
	if s.SkewS == nil { // nothing was answered
		fmt.Fprintf(b, "\nShared        not known: %s\n", s.Away)
		return
	}
	fmt.Fprintf(b, "\nShared        %s, as %s\n", s.Where, s.Group)
	for _, p := range s.Breakers {
		fmt.Fprintf(b, "  %s: %s\n", p.Path, standing(p.State, s.now))
	}
	for _, l := range s.Latency {
		fmt.Fprintf(b, "  %s: %s\n", l.Path, l.words())
	}
	if s.Uploaders > 0 {
		fmt.Fprintf(b, "  ceiling: %g calls per second, shared by %s now\n", s.Ceiling, plural(s.Uploaders, "uploader"))
	}
	if s.off {
		fmt.Fprintf(b, "  clock: this machine's is %s\n", skewOf(inSeconds(*s.SkewS)))
	}
	if s.Away != "" {
		fmt.Fprintf(b, "  warning: the rest is not known: %s\n", s.Away)
	}
}

// words compare in words.
func (l pathLatency) words() string {
	of := func(x latencyLine, when string) string {
		if x.Calls == 0 {
			return "no call " + when
		}
		return fmt.Sprintf("p95 %s of %s %s", short(inSeconds(x.P95MS/1000)), plural(x.Calls, "call"), when)
	}
	words := of(l.Minute, "in the last minute") + ", " + of(l.Hour, "in the hour before")
	if l.Burst {
		words += ": a burst of latency"
	}
	return words
}

// clockText says that the clock was wrong in the last run that compared it.
func (o overview) clockText(b *bytes.Buffer) {
	for _, r := range slices.Backward(o.Runs) {
		if r.Report == nil || r.Report.ClockSkewS == nil {
			continue
		}
		lacks := inSeconds(*r.Report.ClockSkewS)
		side := "behind"
		if lacks < 0 {
			side = "ahead"
		}
		if lacks.Abs() > clockskew.Limit {
			fmt.Fprintf(b, "\nClock         %s %s in run %s; set it, and keep it right: timedatectl set-ntp true\n", short(lacks.Abs()), side, r.Run)
		}
		return
	}
}
