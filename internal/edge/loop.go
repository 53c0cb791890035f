package edge

import (
	"errors"
	"sync"
	"time"

	"trafficup/internal/failover"
)

// loop is a [Runner] that runs.
type loop struct {
	*Runner
	s       failover.State
	d       failover.Decision
	answers chan answer
	probes  sync.WaitGroup
	ways    []way // by uplink

	stood time.Duration    // when the routes were looked at last
	heard time.Duration    // when what the kernel told of was, or they
	puts  [3]time.Duration // when they were put back, the oldest first
	ready time.Duration    // when the uplink in use was prepared last
	dirty bool             // they may have changed since
	owes  bool             // they did, and were not looked at yet
	saved time.Duration
	said  map[string]string // the last error of each kind, told once
	news  []Happening       // to be told when all is done that does not wait
}

const never = -time.Duration(1 << 62)

func newLoop(r *Runner, s failover.State) *loop {
	l := &loop{Runner: r, s: s, answers: make(chan answer), stood: never, heard: never, puts: [3]time.Duration{never, never, never}, ready: never, saved: never, said: map[string]string{}}
	for range r.Config.Uplinks {
		w := way{known: make([]failover.Answer, len(r.Targets)), asked: make([]time.Duration, len(r.Targets)), next: never}
		for t := range r.Targets {
			w.known[t] = failover.Answer{Target: r.Targets[t].Name, Class: r.Targets[t].Class, Why: "not asked yet"}
			w.asked[t] = never
		}
		l.ways = append(l.ways, w)
	}
	l.d.Every = make([]time.Duration, len(l.ways)) // all are looked at in the first round
	return l
}

// wait is how long nothing has to be done.
func (l *loop) wait() time.Duration {
	now, least := l.Now().Boot, l.Config.Rules.Interval
	for _, w := range l.ways {
		least = min(least, w.next-now)
	}
	if l.dirty {
		least = min(least, l.heard+settling-now)
	}
	return max(least, 0)
}

// look asks the kernel about an uplink.
func (l *loop) look(uplink int) {
	link, err := l.Kernel.Look(uplink)
	if err != nil {
		l.failed("look at "+l.Config.Uplinks[uplink].Name, err)
		return
	}
	l.failed("look at "+l.Config.Uplinks[uplink].Name, nil)
	l.ways[uplink].link = link
	l.s = l.Config.Link(l.s, uplink, link.Gone, l.Now())
}

// decide has the state decided, and what follows done.
func (l *loop) decide() {
	now := l.Now()
	changed := l.dirty && now.Boot-l.heard >= settling
	if changed {
		l.dirty, l.heard = false, now.Boot
		l.Kernel.Changed()
		for i := range l.ways {
			l.look(i)
		}
	}
	was := l.s.Active
	l.s, l.d = l.Config.Decide(l.s, now)
	for i := range l.ways {
		// What is asked oftener now is not asked as late as was planned before.
		w := &l.ways[i]
		w.next = min(w.next, now.Boot+l.d.Every[i])
		for t := range w.asked {
			if l.old(i, t) {
				w.next = now.Boot
			}
		}
	}
	l.follow(now.Boot, was != l.s.Active, changed)
}

// follow does what was decided. Who is told of it may be slow, and so may a queue be:
// neither holds up the routes.
func (l *loop) follow(now time.Duration, switched, changed bool) {
	for _, e := range l.d.Events {
		l.tell(Happening{Event: e})
	}
	if switched { // one that is killed in between must not go back to the uplink that it just left
		l.save()
	}
	pause := reconcile
	if l.fought(now) {
		pause = reconcile / 2
	}
	if l.owes = l.owes || changed; switched || l.owes && !l.fought(now) || now-l.stood >= pause {
		l.owes = false
		l.stand(switched)
	}
	if !l.s.AllDown { // where none works connections are best left as they are
		l.failed("cut connections of the uplink that was left", l.Kernel.Cut())
	}
	for _, e := range l.d.Events {
		if e.What == failover.EventSwitch && l.Switched != nil {
			l.Switched(e)
		}
	}
	if l.Prepare != nil && l.s.Active >= 0 && (switched || now-l.ready >= reconcile) {
		l.prepare()
	}
	l.announce()
	if len(l.d.Events) > 0 || now-l.saved >= reconcile {
		l.save()
	}
}

// chosen tells what a person chose, and keeps it.
func (l *loop) chosen(f failover.Forced) {
	e := failover.Event{What: EventChosen, Why: "the rules choose again"}
	if f.Until > 0 {
		e.Uplink, e.Why = l.Config.Uplinks[f.Uplink].Name, f.Why
		e.Verdict = l.s.Health[f.Uplink].Verdict
	}
	l.tell(Happening{Event: e})
	l.save()
}

func (l *loop) save() {
	l.saved = l.Now().Boot
	l.failed("save the state", l.Save(l.s))
}

func (l *loop) tell(h Happening) { l.news = append(l.news, h) }

// announce tells all that happened, in its order.
func (l *loop) announce() {
	for _, h := range l.news {
		l.Tell(h)
	}
	l.news = nil
}

// prepare has what belongs to the uplink in use stand.
func (l *loop) prepare() {
	l.ready = l.Now().Boot
	name := l.Config.Uplinks[l.s.Active].Name
	did, err := l.Prepare(l.s.Active)
	l.failed("prepare "+name, err)
	if did != "" {
		l.tell(Happening{Event: failover.Event{What: EventShaped, Uplink: name, Why: did}})
	}
}

// fought reports that they were put back so often that it does not help: somebody else
// puts them back as well.
func (l *loop) fought(now time.Duration) bool { return now-l.puts[0] < reconcile }

// stand makes the routes follow.
func (l *loop) stand(switched bool) {
	l.stood = l.Now().Boot
	l.heard = l.stood
	changed, err := l.Kernel.Stand(l.s.Active)
	l.failed("set routes", err)
	if err == nil && changed != "" {
		if !switched {
			l.puts = [3]time.Duration{l.puts[1], l.puts[2], l.stood}
		}
		l.tell(Happening{Event: failover.Event{What: EventRoutes, Why: changed}})
	}
	if l.fought(l.stood) {
		l.failed("keep the routes", errors.New("somebody else changes them again and again: they are put back every five seconds from now on; ip monitor route rule shows it happen"))
	} else if changed == "" {
		l.failed("keep the routes", nil)
	}
}

// failed tells of an error once, as long as it stays the same.
func (l *loop) failed(what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && l.said[what] != text {
		l.tell(Happening{Event: failover.Event{What: EventFailed, Why: what + ": " + text}, Error: true})
	}
	l.said[what] = text
}
