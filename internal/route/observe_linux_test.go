package route

import (
	"context"
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

// A list that changed while it was given out is asked for again, but not for ever.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		torn, calls int
		err         error
	}{{0, 1, nil}, {3, 4, nil}, {99, tries, netlink.ErrDumpInterrupted}} {
		calls := 0
		got, err := Dump(t.Context(), func() ([]int, error) {
			if calls++; calls <= c.torn {
				return []int{1}, netlink.ErrDumpInterrupted
			}
			return []int{1, 2}, nil
		})
		if calls != c.calls || !errors.Is(err, c.err) || err == nil && len(got) != 2 {
			t.Errorf("torn %d times: %v, %v after %d calls", c.torn, got, err, calls)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dump(ctx, func() ([]int, error) { return nil, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}
