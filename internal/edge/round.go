package edge

import (
	"context"
	"slices"
	"time"

	"trafficup/internal/failover"
)

// way is an uplink as it is looked at.
type way struct {
	known []failover.Answer // the latest of each target
	asked []time.Duration   // when each was asked last
	next  time.Duration     // round
	open  []*round
	link  Link
}

// round is one that has not ended.
type round struct {
	at      time.Duration
	loaded  bool
	waiting int  // targets that have not answered
	asked   bool // a target was
	heard   bool // and that says something of the uplink
	answers []failover.Answer
}

// answer is one of a target.
type answer struct {
	uplink, target int
	round          *round
	failover.Answer
	ok bool // it says something of the uplink
}

// begin starts the rounds whose time has come.
func (l *loop) begin(ctx context.Context) {
	now := l.Now().Boot
	for i := range l.ways {
		w := &l.ways[i]
		if now < w.next {
			continue
		}
		if w.next += l.d.Every[i]; w.next <= now { // else a loop that is a little late would ask more seldom
			w.next = now + l.d.Every[i]
		}
		l.look(i)
		o := &round{at: now, loaded: w.link.Loaded, answers: slices.Clone(w.known)}
		w.open = append(w.open, o)
		for t, target := range l.Targets {
			o.answers[t].RTT = 0 // that was of another round
			if w.known[t].OK && !l.old(i, t) && now-w.asked[t] < l.pause(i, target)-l.Config.Rules.Interval/2 {
				continue // till the round that is nearest: rounds are a little early or late
			}
			w.asked[t] = now
			o.answers[t].OK, o.answers[t].Why = false, "no answer"
			o.waiting, o.asked = o.waiting+1, true
			l.probes.Go(func() { l.ask(ctx, i, t, o) })
		}
		if o.waiting == 0 {
			l.end(i, o)
		}
	}
}

// old reports that what a target answered by an uplink that is not active is to be asked
// for again at once: it may be gone to.
func (l *loop) old(uplink, target int) bool {
	return uplink != l.s.Active && l.ways[uplink].asked[target] < l.s.Doubt
}

// pause is the time between two questions to a target that answers.
func (l *loop) pause(uplink int, t Target) time.Duration {
	switch standby := uplink != l.s.Active && l.d.Every[uplink] > l.Config.Rules.Interval; {
	case !l.Config.Uplinks[uplink].Metered:
		return t.Every
	case standby:
		return t.Seldom
	}
	return t.Metered
}

// ask asks one target and reports to the loop.
func (l *loop) ask(ctx context.Context, uplink, target int, o *round) {
	limited, cancel := context.WithTimeout(ctx, l.Config.Rules.Timeout)
	defer cancel()
	got, ok := l.Probe(limited, uplink, target)
	got.At, got.Target, got.Class = o.at, l.Targets[target].Name, l.Targets[target].Class
	a := answer{uplink, target, o, got, ok}
	select {
	case l.answers <- a:
	case <-ctx.Done():
	}
}

// take adds an answer to its round, which ends as soon as it is good, or when
// nothing more can come.
func (l *loop) take(a answer) {
	w := &l.ways[a.uplink]
	if l.Spent != nil {
		l.Spent(a.uplink, a.Bytes)
	}
	if a.ok {
		w.known[a.target] = a.Answer
	} else {
		a.Answer, a.RTT = w.known[a.target], 0
	}
	a.round.heard = a.round.heard || a.ok
	a.round.answers[a.target] = a.Answer
	a.round.waiting--
	if slices.Contains(w.open, a.round) {
		l.end(a.uplink, a.round)
	}
}

// end judges a round, if it can be. Where this machine could ask nobody, being out of
// sockets, say, nothing is known of the uplink, and a new start may help.
func (l *loop) end(uplink int, o *round) {
	judged := failover.Judge(o.at, o.answers, l.Quorum)
	if o.waiting > 0 && !(judged.OK && o.heard) {
		return
	}
	w := &l.ways[uplink]
	w.open = slices.DeleteFunc(w.open, func(r *round) bool { return r == o })
	if o.asked && !o.heard {
		return
	}
	judged.Loaded, judged.Gone = o.loaded, w.link.Gone
	l.s = l.Config.Saw(l.s, uplink, judged)
	if l.Record != nil {
		l.Record(uplink, judged)
	}
	if o.heard && l.Alive != nil {
		l.Alive()
	}
}
