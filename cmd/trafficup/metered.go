package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"trafficup/internal/config"
	"trafficup/internal/edge"
	"trafficup/internal/redis"
	"trafficup/internal/uplinkstate"
	"trafficup/internal/uploader"
)

// carrier is what the uplink that carries means for a run: while it is paid for,
// bulk waits; and what was connected by the one before is of no use any more. It is
// safe for concurrent use.
type carrier struct {
	look  func() (s uplinkstate.Uplink, known bool) // often called; reads a file once a second, and may tell u of it
	far   *farUplink                                // nil: no other machine tells
	bulk  bool                                      // nobody waits for the run: it may be held
	pause bool                                      // nothing starts on a metered uplink
	quota config.Size                               // that a run may send on one, in bytes; 0: any number
	u     *ui

	mu      sync.Mutex
	sent    int64   // guarded by mu; bytes of requests while the uplink was metered
	pauses  []spell // guarded by mu
	windows []spell // guarded by mu; of maintenance of uplinks
	active  string  // guarded by mu; the uplink that carried when it was last known
}

// spell is a time in which something was so; to is zero while it lasts.
type spell struct {
	uplink   string
	from, to time.Time
}

func (s spell) String() string {
	const minutes = "2006-01-02T15:04Z07:00"
	return fmt.Sprintf("from %s to %s", s.from.UTC().Format(minutes), s.to.UTC().Format(minutes))
}

// lasts returns the one of all that lasts, nil when none does.
func lasts(all []spell) *spell {
	if n := len(all); n > 0 && all[n-1].to.IsZero() {
		return &all[n-1]
	}
	return nil
}

// newCarrier hears what the failover of this machine says, and where it says nothing
// that of another one, over Redis; class is that of the run. A stand-in is reached by
// no uplink.
func (c Config) newCarrier(sys *system, class string, cl *redis.Client, u *ui) *carrier {
	k := &carrier{bulk: c.mayWait(class), pause: c.Upload.OnMetered == "pause", quota: c.Upload.MeteredQuota, u: u}
	u.paused = k.words
	if c.Upload.Sandbox != "" {
		k.look = k.far.Now
		return k
	}
	if k.far = c.newFarUplink(cl); k.far != nil {
		k.far.ask(sys.soft) // so that the first record is held already
	}
	file := c.uplinkReader(sys, k.far != nil, u.warn)
	k.look = func() (uplinkstate.Uplink, bool) {
		if file != nil {
			if s, known := file.Now(); known {
				return s, true
			}
		}
		return k.far.Now()
	}
	return k
}

// mayWait reports that nobody waits for a run of the class, whatever marks it bears.
func (c Config) mayWait(class string) bool {
	if c.Upload.Class == bulk || c.Upload.Class == interactive {
		class = c.Upload.Class
	}
	return class != interactive
}

// uplinkReader is nil where nobody is to be asked which uplink carries. That there is
// no failover is worth a word to those only who want something of it; far says that
// another machine has one.
func (c Config) uplinkReader(sys *system, far bool, warn func(string)) *uplinkstate.Reader {
	boot, _, err := edge.Boot()
	if err != nil || c.Upload.FailoverState == "none" {
		return nil
	}
	wanted := !far && (c.Upload.OnMetered == "pause" || c.Upload.MeteredQuota > 0) || c.Origin("upload.failover_state").Layer != "default"
	return uplinkstate.New(sys.fs, c.Upload.FailoverState, boot, func(err error) {
		if wanted || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			warn(fmt.Sprintf("which uplink carries is not known, and none counts as metered: %v", err))
		}
	})
}

// Held says why no request may start now.
func (k *carrier) Held(now time.Time) (why string, held bool) {
	k.mu.Lock()
	s, known := k.look() // inside the lock, so that no older view comes after a newer one
	held = known && s.Metered && k.bulk && (k.pause || k.quota > 0 && k.sent >= int64(k.quota))
	var news []string
	if p := lasts(k.pauses); p != nil && (!held || p.uplink != s.Active) {
		p.to = now
		if !held {
			news = append(news, fmt.Sprintf("going on after %s: %s", now.Sub(p.from).Round(time.Second), carries(s, known)))
		}
	}
	if held && lasts(k.pauses) == nil {
		k.pauses = append(k.pauses, spell{uplink: s.Active, from: now})
		news = append(news, k.since()+"; what is in flight ends")
	}
	if held {
		why = k.since()
	}
	k.mu.Unlock()
	for _, text := range news {
		k.u.Event(uploader.Event{At: now, Level: uploader.Warning, Message: text})
	}
	return why, held
}

func carries(s uplinkstate.Uplink, known bool) string {
	switch {
	case !known:
		return "which uplink carries is not known"
	case s.Active == "":
		return "no uplink was chosen"
	case s.Metered:
		return "the metered uplink " + s.Active + " carries"
	}
	return "the uplink " + s.Active + " carries"
}

// since tells of the pause that lasts, in the same words as long as it does; "" when
// there is none. Requires mu.
func (k *carrier) since() string {
	p := lasts(k.pauses)
	if p == nil {
		return ""
	}
	words := fmt.Sprintf("paused: the metered uplink %s carries since %s", p.uplink, p.from.UTC().Format("2006-01-02T15:04Z07:00"))
	if !k.pause {
		size, _ := k.quota.MarshalText() // it never fails
		words += fmt.Sprintf(", and the quota of %s for it is spent", size)
	}
	return words
}

// words tells of the pause that lasts; "" when there is none.
func (k *carrier) words() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.since()
}

// count takes the bytes of a request that ended.
func (k *carrier) count(bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s, known := k.look(); known && s.Metered {
		k.sent += int64(bytes)
	}
}

// follow looks each second until ctx ends, also while no record asks. switched is
// called when another uplink has begun to carry.
func (k *carrier) follow(ctx context.Context, switched func()) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		k.Held(time.Now())
		if k.moved(time.Now()) {
			switched()
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// moved notes which uplink carries, and windows that begin and end.
func (k *carrier) moved(now time.Time) (other bool) {
	k.mu.Lock()
	s, known := k.look()
	if known && s.Active != "" {
		other = k.active != "" && k.active != s.Active
		k.active = s.Active
	}
	text := ""
	switch w := lasts(k.windows); {
	case w == nil && known && s.Window:
		k.windows = append(k.windows, spell{uplink: s.Active, from: now})
		text = "an uplink is in maintenance: an outage now is expected"
	case w != nil && !(known && s.Window):
		w.to = now
		text = "the maintenance of the uplink is over"
	}
	k.mu.Unlock()
	if other {
		k.u.note(carries(s, known) + " now: idle connections are left behind")
	}
	if text != "" {
		k.u.note(text)
	}
	return other
}

// end closes what still lasts, and returns the pauses and windows of the run.
func (k *carrier) end(now time.Time) (pauses, windows []spell, sent int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, all := range [][]spell{k.pauses, k.windows} {
		if s := lasts(all); s != nil {
			s.to = now
		}
	}
	return k.pauses, k.windows, k.sent
}

// checkMetered finds what cannot be meant.
func (c Config) checkMetered() {
	pause, quota := c.Upload.OnMetered == "pause", c.Upload.MeteredQuota > 0
	switch key := map[bool]string{true: "upload.on_metered", false: "upload.metered_quota"}[pause]; {
	case pause && quota:
		c.Fault("upload.metered_quota", "upload.on_metered is pause, and nothing is sent on a metered uplink; leave one of them out")
	case c.Upload.FailoverState == "":
		c.Fault("upload.failover_state", "is empty: write the path of a file, or none")
	case (pause || quota) && c.Upload.FailoverState == "none" && (c.Failover.Site == "" || !c.hasRedis()):
		c.Fault(key, "needs upload.failover_state, which is none: nothing tells whether the uplink is metered")
	case (pause || quota) && c.Upload.Class == interactive:
		c.Warn(key, "changes nothing: upload.class is interactive, which is not held")
	}
}
