package failover

import "time"

// doubt keeps since when another uplink may be needed soon. What the others answered
// before that is too old to leave for one of them.
func (d *decider) doubt() {
	switch in := d.s.Active >= 0 && d.inDoubt(d.s.Active); {
	case !in:
		d.s.Doubt = 0
	case d.s.Doubt == 0:
		d.s.Doubt = d.now.Boot
	}
}

// proven reports that all that is known of an uplink was asked for since there is doubt.
// It is not waited for any longer than that takes: a target that this machine cannot ask
// must not keep it where it is.
func (d *decider) proven(i int) bool {
	return d.s.Health[i].Asked >= d.s.Doubt || d.now.Boot-d.s.Doubt > 2*(d.Rules.Timeout+d.Rules.Interval)
}

// inDoubt reports that another uplink may be needed soon.
func (d *decider) inDoubt(i int) bool {
	h, f := d.s.Health[i], d.s.Forced
	chosen := f.Until > 0 && (f.Uplink != i || f.Until-d.now.Boot <= d.Rules.Fresh)
	return h.Bad >= d.Rules.Suspect || h.badOf(d.Rules.Of) >= d.Rules.BadOf/2 || h.Gone != "" || h.Verdict != Up || d.standing(i).soon || chosen
}

// every is how often each uplink is to be looked at: the active one always, and
// others as often where their verdict is needed soon.
func (d *decider) every() []time.Duration {
	every := make([]time.Duration, len(d.Uplinks))
	hurry := d.s.Active < 0 || d.inDoubt(d.s.Active)
	for i, u := range d.Uplinks {
		h := d.s.Health[i]
		every[i] = d.Rules.Standby
		if u.Metered {
			every[i] = d.Rules.StandbyMetered
		}
		rising := h.Verdict != Up && h.Good > 0
		if i == d.s.Active || hurry || rising || i < d.s.Active && !u.Metered {
			every[i] = d.Rules.Interval
		}
		every[i] = max(every[i], d.Rules.Interval)
	}
	return every
}
