package netshape

import (
	"context"
	"errors"
	"strings"
	"testing"

	"trafficup/internal/atomicfile"
	"trafficup/internal/tc"
)

// One look sets up what is wanted, once; what was applied counts for more than that
// and is not put into the caller's; and others who change something are not waited
// for beyond ctx.
func TestUphold(t *testing.T) {
	b := newBox(t, "eth1")
	want := Desired{Interfaces: []Interface{cakeAt("9mbit")}}
	if e := b.Uphold(t.Context(), want); e.What != EventApplied || e.Interface != "eth1" {
		t.Errorf("%+v", e)
	}
	changes := b.k.changes
	for _, rate := range []string{"9mbit", "5mbit"} {
		want := Desired{Interfaces: []Interface{cakeAt(rate)}}
		if e := b.Uphold(t.Context(), want); e.What != EventGood || b.k.changes != changes || want.Interfaces[0] != cakeAt(rate) {
			t.Errorf("%s: %+v, %d changes, %+v", rate, e, b.k.changes-changes, want)
		}
	}
	b.k.roots = map[int]tc.Qdisc{}
	b.Lock = func(ctx context.Context, path string) (func() error, error) {
		<-ctx.Done()
		return nil, errors.Join(&atomicfile.LockedError{Path: path, Holder: "somebody"}, ctx.Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e := b.Uphold(ctx, want); e.What != EventFailed || !strings.Contains(e.Text, "held by somebody") {
		t.Errorf("%+v", e)
	}
}
