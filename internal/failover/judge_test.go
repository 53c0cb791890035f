package failover

import (
	"strings"
	"testing"
	"time"
)

// A round takes as long as what was asked in it, and says where nothing could be sent.
func TestTimeAndWayOfARound(t *testing.T) {
	const ms = time.Millisecond
	old, fast, slow := Answer{Target: "a", Class: "ping", OK: true}, Answer{Target: "b", Class: "ping", OK: true, RTT: 20 * ms}, Answer{Target: "c", Class: "tcp", OK: true, RTT: 60 * ms}
	none := Answer{Target: "d", Class: "dns", NoRoute: true, Why: "no way"}
	for name, c := range map[string]struct {
		answers []Answer
		ok      bool
		rtt     time.Duration
		why     string
	}{
		"the fastest":        {[]Answer{slow, fast}, true, 20 * ms, ""},
		"one was not asked":  {[]Answer{slow, old}, true, 60 * ms, ""},
		"nobody was asked":   {[]Answer{old, old}, true, 0, ""},
		"no way":             {[]Answer{none, none}, false, 0, "no-route: 0 of 2 targets answer, want 2 (d, d: no way)"},
		"no way to one":      {[]Answer{fast, none}, false, 20 * ms, "1 of 2 targets answer"},
		"a class is missing": {[]Answer{fast, slow, none}, false, 20 * ms, "no target of dns answers"},
	} {
		r := Judge(time.Second, c.answers, 2)
		if r.OK != c.ok || r.RTT != c.rtt || !strings.HasPrefix(r.Why, c.why) || r.NoRoute != strings.HasPrefix(c.why, "no-route") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A good round of which nobody was asked keeps the time of the one before, and one that
// is known late is not the last one.
func TestGoodRounds(t *testing.T) {
	var h Health
	for _, r := range []Round{{At: 10 * time.Second, OK: true, RTT: time.Millisecond}, {At: 11 * time.Second, OK: true}, {At: 9 * time.Second, OK: true}} {
		h = h.saw(leo, r)
	}
	if h.LastGood != 11*time.Second || h.RTT != time.Millisecond || h.NoRoute {
		t.Errorf("%+v", h)
	}
	h = h.saw(leo, Round{At: 12 * time.Second, NoRoute: true, Why: "no-route: nothing"})
	h.Bad = leo.Down
	if h, _ = h.judged(leo, 12*time.Second); !h.NoRoute || !strings.HasSuffix(h.Why, "the last: no-route: nothing") {
		t.Errorf("%+v", h)
	}
}
