package uplink

import (
	"testing"
	"time"
)

func TestReach(t *testing.T) {
	for _, tt := range []struct {
		targets, missed int
		want            Standing
	}{
		{2, 0, Well}, {2, 1, Well}, {2, 2, Bad}, {3, 1, Well}, {3, 2, Bad}, {4, 2, Well}, {4, 3, Bad},
	} {
		r := reach{targets: tt.targets}.begin(t0)
		if s, why := r.judge(); s != Unsure || why == "" {
			t.Errorf("%+v: while trying: %v, %q", tt, s, why)
		}
		r = r.found(t0, tt.missed)
		if s, why := r.judge(); s != tt.want || (why != "") != (s == Bad) {
			t.Errorf("%+v: %v, %q", tt, s, why)
		}
		if r.due(t0.Add(tryEvery-1)) || r.due(t0.Add(tryEvery)) != (tt.want == Well) {
			t.Errorf("%+v: tried at the wrong time", tt)
		}
	}
}

func TestReachIsTriedAtOnceAndOnce(t *testing.T) {
	r := reach{targets: 2}
	if !r.due(t0) || r.begin(t0).due(t0.Add(time.Hour)) {
		t.Errorf("%+v", r)
	}
	for n := range minTargets {
		if (reach{targets: n}).due(t0) {
			t.Errorf("%d targets are tried", n)
		}
	}
}
