package verdict

import (
	"fmt"
	"time"
)

// The thresholds.
const (
	// minAnswers: a median of fewer says nothing.
	minAnswers = 5

	// faultShare is the share of attempts that have to fail for the fault to be
	// the story of the run. By default every tenth success pays for one retry; at
	// half of that the budget still covers them, and above it soon does not.
	faultShare = 0.05

	// asideShare: a path that carried less than a canary's share of a night that
	// was delivered is not why it took long.
	asideShare = 0.05

	// lossyShare is the share of data segments sent again. One percent lost each
	// way is a usable radio link, and shows as two, because a lost answer makes
	// this side send again as well. At three, of seventeen requests one or its answer
	// is lost, and stalls for a timer of 200 ms or more.
	lossyShare = 0.03
	// minRetransmits: a handful of segments is lost on the best of links.
	minRetransmits = 5

	// timerRTT is where the kernel sends a connection's first segment again
	// before the answer can be there (RFC 6298 §2.1: after 1 s). Beyond it
	// retransmits do not prove loss, nor timeouts a silent service: handshakes of
	// TCP and TLS and the request take 3 s and more.
	timerRTT = time.Second

	// slowRTT is above a cable across an ocean, and below a geostationary hop,
	// which takes more than 500 ms.
	slowRTT = 200 * time.Millisecond

	// slowService: at eight requests at a time, the default, fewer than eight
	// records a second.
	slowService = time.Second

	// heldShare is the share of all time, waits and requests together, from which
	// on the waits decide how long the run takes.
	heldShare = 0.5
)

// rule gives its word when it holds. why continues a sentence "on primary …".
type rule struct {
	word  string
	holds func(Figures, Run) bool
	why   func(Figures, Run) string
}

// rules in order of precedence. Faults come first; of them only the most
// frequent kind gives its word. Loss makes all times uncertain and breaks
// connections, so it comes before what may be its effects. Waiting for our own
// limiter comes before slowness, which then costs nothing.
var rules = []rule{
	{PathMisset, mostly(misset), whyMisset},
	{LinkDown, mostly(unreached), whyUnreached},
	{ThrottledByThem, mostly(throttled), whyThrottled},
	{Maintenance, func(_ Figures, r Run) bool { return r.most(r.Closed) }, whyMaintenance},
	{Paused, func(_ Figures, r Run) bool { return r.most(r.Paused) }, whyPaused},
	{ThrottledByThem, func(f Figures, r Run) bool { return f.judged() && f.gateShare() >= heldShare && !f.outage(r) }, whyGate},
	{ServiceFailing, mostly(failed), whyFailed},
	{LinkLossy, func(f Figures, _ Run) bool { return f.lossy() }, whyLossy},
	{ServiceFailing, mostly(broken), whyBroken},
	{ServiceSlow, func(f Figures, r Run) bool { return mostly(silent)(f, r) && !f.linkOutrunsTimers() }, whySilent},
	{ThrottledByUs, func(f Figures, _ Run) bool { return f.judged() && f.rateShare() >= heldShare }, whyUs},
	{ServiceSlow, func(f Figures, _ Run) bool { return f.judged() && f.serviceSlow() }, whySlow},
	{LinkSlow, func(f Figures, _ Run) bool { return f.judged() && f.RTT.P50 >= slowRTT }, whyLinkSlow},
}

// The kinds of faults, of equally frequent ones the first counts.
const (
	misset = iota
	unreached
	throttled
	failed
	broken
	silent
	kinds
)

// faults counts the attempts that failed, by kind.
func (f Figures) faults() [kinds]int64 {
	return [kinds]int64{
		misset:    f.Misset,
		unreached: f.NoDial + f.Foreign,
		throttled: f.Throttled - f.unavailable(),
		failed:    f.Failed + f.Refused + f.unavailable(),
		broken:    f.Resets,
		silent:    f.Timeouts,
	}
}

// unavailable are 503 that asked to come back later where the breaker opened, and so
// nothing else was answered for long: no ceiling does that.
func (f Figures) unavailable() int64 {
	if f.Down > 0 {
		return f.Away
	}
	return 0
}

// mostly holds when enough attempts failed, most of them by this kind of fault.
// The threshold is for all kinds together: a fault more, of whatever kind, must
// not make a run look better. While records wait, few attempts have to do; and
// where the run stood still for them, a small share.
func mostly(kind int) func(Figures, Run) bool {
	return func(f Figures, run Run) bool {
		worst, sum := f.worst()
		enough := f.Attempts >= minAnswers || run.Waiting > 0
		return enough && worst == kind && (share(sum, f.Attempts) >= faultShare || f.outage(run))
	}
}

// worst returns the most frequent kind of fault, and how many there are of all.
func (f Figures) worst() (kind int, sum int64) {
	faults := f.faults()
	for k, n := range faults {
		sum += n
		if n > faults[kind] {
			kind = k
		}
	}
	return kind, sum
}

// outage reports whether the time in which the path was out decides how long the
// run takes: then its faults are the story, however few attempts there could be.
func (f Figures) outage(run Run) bool {
	_, sum := f.worst()
	return sum > 0 && run.most(f.out())
}

// out is for how long the run stood still for the path's faults: with its breaker
// open, and, where it opened, also as 503 asked it to.
func (f Figures) out() time.Duration {
	if f.unavailable() > 0 {
		return f.Down + f.Asked
	}
	return f.Down
}

// lossy needs no answers: what was sent again is a sample of its own.
func (f Figures) lossy() bool {
	return f.RTT.P50 < timerRTT && f.Retransmits >= minRetransmits && f.lossShare() >= lossyShare
}

// most reports whether d decides how long the run takes.
func (r Run) most(d time.Duration) bool {
	return d > 0 && float64(d) >= heldShare*float64(r.Duration)
}

func (f Figures) linkOutrunsTimers() bool { return f.judged() && f.RTT.P50 >= timerRTT }

func (f Figures) serviceSlow() bool { return f.Service.P50 >= slowService && f.Service.P50 > f.RTT.P50 }

// judged reports whether there is enough to judge measurements by.
func (f Figures) judged() bool { return f.Answered >= minAnswers }

func (f Figures) lossShare() float64 { return share(f.Retransmits, f.Segments) }
func (f Figures) rateShare() float64 { return float64(f.RateWait) / f.time() }
func (f Figures) gateShare() float64 { return float64(f.GateWait) / f.time() }

// time is all that the attempts took, at least a nanosecond.
func (f Figures) time() float64 {
	return max(1, float64(f.Busy)+float64(f.RateWait)+float64(f.GateWait))
}

// share returns n of all, between 0 and 1.
func share[N int64 | uint64](n, all N) float64 {
	if all == 0 {
		return 0
	}
	return min(1, float64(n)/float64(all))
}

func whyMisset(f Figures, _ Run) string {
	return fmt.Sprintf("%d of %d attempts met a path that cannot work as it is set up", f.Misset, f.Attempts)
}

func whyUnreached(f Figures, _ Run) string {
	if 2*f.NoProxy > f.NoDial+f.Foreign {
		why := fmt.Sprintf("%d of %d attempts got no connection through the proxy %s", f.NoProxy, f.Attempts, f.Proxy)
		if f.NotTaken > 0 {
			why += ", which refuses connections"
		}
		return why
	}
	return fmt.Sprintf("%d of %d attempts did not reach the API (%d without a connection, %d answered by something else)",
		f.NoDial+f.Foreign, f.Attempts, f.NoDial, f.Foreign)
}

func whyThrottled(f Figures, _ Run) string {
	return fmt.Sprintf("%d of %d attempts were told to come back later (%d by 429, %d by 503)", f.Throttled, f.Attempts, f.Throttled-f.Away, f.Away)
}

func whyMaintenance(_ Figures, r Run) string {
	return fmt.Sprintf("nothing could be sent for %s of %s, inside windows with closed: true", round(r.Closed), round(r.Duration))
}

func whyPaused(_ Figures, r Run) string {
	return fmt.Sprintf("nothing was sent for %s of %s; %s", round(r.Paused), round(r.Duration), r.PausedWhy)
}

func whyGate(f Figures, _ Run) string {
	return fmt.Sprintf("waits the server asked for, and the pace learnt from its refusals, took %s of the time", percent(f.gateShare()))
}

func whyFailed(f Figures, _ Run) string {
	return fmt.Sprintf("%d of %d attempts met a failing service (%d answered 5xx, %d connections refused)",
		f.Failed+f.Refused+f.unavailable(), f.Attempts, f.Failed+f.unavailable(), f.Refused)
}

func whyLossy(f Figures, _ Run) string {
	return fmt.Sprintf("%s of %d segments had to be sent again", percent(f.lossShare()), f.Segments)
}

func whyBroken(f Figures, _ Run) string {
	return fmt.Sprintf("%d of %d attempts ended in a broken connection; %s", f.Resets, f.Attempts, f.link())
}

func whySilent(f Figures, _ Run) string {
	return fmt.Sprintf("%d of %d requests got no answer in time; %s", f.Timeouts, f.Attempts, f.link())
}

func whyUs(f Figures, r Run) string {
	why := fmt.Sprintf("waits for our own rate limit took %s of the time", percent(f.rateShare()))
	if r.Stood > 0 {
		why += ", besides the standing still"
	}
	return why
}

func whySlow(f Figures, _ Run) string {
	return fmt.Sprintf("the service took %s; %s", f.Service, f.link())
}

func whyLinkSlow(f Figures, _ Run) string {
	return fmt.Sprintf("the round trip took %s; the service %s", f.RTT, f.Service)
}

// link says what is known of the link where the service is blamed.
func (f Figures) link() string {
	if f.Measured == 0 {
		return "the link was not measured and may be the cause"
	}
	return fmt.Sprintf("the link's round trip %s, %s sent again", f.RTT, percent(f.lossShare()))
}
