package netshape

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// ErrNotTaken is wrapped by the error about a kernel that said yes and did
// something else. Its text names the option.
var ErrNotTaken = errors.New("the kernel did not take what it was given")

// Applied is what Apply did.
type Applied struct {
	Steps int
	ID    string    // of what waits for [Machine.Confirm]; "": nothing does
	Until time.Time // when it is taken back
}

// Apply does what p says, and nothing when the machine is not any more as p was
// made for ([ErrChanged]) or p is refused (*[RefusedError]). When a step fails,
// ctx ends between two, or the kernel reads back other than it was told
// ([ErrNotTaken]), all steps are undone, the last first; what of that failed is
// in the error, too. A plan without steps changes nothing in the kernel.
//
// [ErrNotKept] says that all is done, and only for this boot; [ErrNotRestored], of a
// plan to put back what stood before, that the kernel's default stands there.
//
// With within > 0 all is taken back by another process unless [Machine.Confirm]
// is called in that time, also if this process dies at any point.
func (m *Machine) Apply(ctx context.Context, p Plan, within time.Duration) (done Applied, err error) {
	if len(p.Refusals) > 0 {
		return done, &RefusedError{p.Refusals}
	}
	unlock, err := m.lock(ctx)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	now, err := m.again(p)
	switch {
	case err != nil:
		return done, err
	case len(now.Refusals) > 0:
		return done, &RefusedError{now.Refusals}
	case !reflect.DeepEqual(now.Steps, p.Steps):
		return done, ErrChanged
	case len(now.Steps) == 0:
		return done, errors.Join(m.write(now, false), m.settle(now.desired, now.clear), m.write(now, true))
	}
	return m.transact(ctx, now, within)
}

// again makes p once more from what is there now.
func (m *Machine) again(p Plan) (Plan, error) {
	o, err := m.Observe(p.Interfaces()...)
	if err != nil {
		return Plan{}, err
	}
	if p.clear != nil {
		return MakeClear(p.clear, o), nil
	}
	if err := m.Collide(&o, p.desired); err != nil {
		return Plan{}, err
	}
	return Make(p.desired, o, p.force), nil
}

// Interfaces are the names of those that p is about, changed or not.
func (p Plan) Interfaces() []string {
	return append(slices.Clone(p.clear), p.desired.Names()...)
}

// transact does the steps of p, or nothing.
func (m *Machine) transact(ctx context.Context, p Plan, within time.Duration) (Applied, error) {
	t, err := m.begin(p)
	if err != nil {
		return Applied{}, err
	}
	if within > 0 {
		if err := m.arm(ctx, &t, within); err != nil {
			return Applied{}, fmt.Errorf("nothing was changed: %w", err)
		}
	}
	var lost error
	if err = m.write(p, false); err == nil {
		lost, err = m.do(ctx, p, within == 0 && p.clear != nil)
	}
	if err == nil {
		err = m.verify(p)
	}
	if err == nil && within == 0 {
		lost = errors.Join(lost, m.settle(p.desired, p.clear))
	}
	if err == nil {
		err = m.write(p, true) // last: whoever dies before it leaves what the next clear goes by
	}
	if err != nil {
		return Applied{}, m.giveUp(t, err)
	}
	if within > 0 {
		return Applied{len(p.Steps), t.ID, t.Until}, nil
	}
	return Applied{Steps: len(p.Steps)}, lost
}

// giveUp undoes t because of err. If that succeeds nothing waits any more.
func (m *Machine) giveUp(t transaction, err error) error {
	undone := m.undo(t)
	lost := errors.Is(undone, ErrNotRestored)
	if undone != nil && !lost {
		return fmt.Errorf("%w; and what was done could not all be undone: %w", err, undone)
	}
	if e := m.save(pendingFile, nil); e != nil {
		return errors.Join(err, undone, e)
	}
	if lost {
		return fmt.Errorf("%w; all was undone but for this: %w", err, undone)
	}
	return fmt.Errorf("%w; all was undone", err)
}

// do takes the steps in their order. If so told it goes on where what stood before
// does not stand again, and lost says so ([ErrNotRestored]).
func (m *Machine) do(ctx context.Context, p Plan, lose bool) (lost, err error) {
	for _, s := range p.Steps {
		if err := context.Cause(ctx); err != nil {
			return lost, err
		}
		put := m.put
		if lose && s.change.To.foreign() {
			put = m.restore
		}
		err := put(s.change)
		if err != nil {
			err = fmt.Errorf("%s: %w", s, err)
		}
		if !errors.Is(err, ErrNotRestored) {
			if err != nil {
				return lost, err
			}
			continue
		}
		lost = errors.Join(lost, err)
	}
	return lost, nil
}

// put makes c.To stand.
func (m *Machine) put(c change) error {
	k, ifb := m.Kernel, ifbName(c.Interface)
	switch {
	case c.Slot == slotMarks && c.MarksTo == nil:
		return m.Marks.Delete()
	case c.Slot == slotMarks:
		return m.Marks.Apply(*c.MarksTo)
	case c.Slot == slotRoot && c.To.ours():
		return k.SetRoot(c.Link, c.To.Shaper)
	case c.Slot == slotRoot && c.To.foreign() && !c.To.Foreign.Classes:
		return k.RestoreRoot(c.Link, c.To.Foreign.qdisc())
	case c.Slot == slotRoot:
		return k.DeleteRoot(c.Link)
	case c.To.foreign() && !c.To.Foreign.Classes:
		return k.RestoreIngress(c.Link, ifb, c.To.Foreign.qdisc())
	case c.To.foreign():
		return k.RestoreIngress(c.Link, ifb, tc.Qdisc{})
	case !c.To.ours():
		return k.DeleteIngress(c.Link, ifb)
	}
	return k.SetIngress(c.Link, ifb, c.To.Shaper)
}

// verify reads back what p did.
func (m *Machine) verify(p Plan) error {
	now, err := m.again(p)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	var wrong []string
	for _, s := range now.Steps {
		wrong = append(wrong, s.wrong())
	}
	for _, r := range now.Refusals {
		if r.Code != CodePending { // ours
			wrong = append(wrong, r.Text)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %s", ErrNotTaken, strings.Join(wrong, "; "))
	}
	return nil
}

// wrong says what the kernel has instead of what the step is for.
func (s Step) wrong() string {
	if s.Slot == slotMarks {
		return "the table of marks is not as desired"
	}
	return fmt.Sprintf("%s %s: %s", s.Interface, s.Slot, strings.Join(differences(s.change.To.Shaper, s.change.From.Shaper), ", "))
}

// Collide adds to o who else uses the marks that d would use.
func (m *Machine) Collide(o *Observed, d Desired) (err error) {
	if o.Denied != nil || o.NoMarks != nil || len(d.Classes) == 0 {
		return nil
	}
	o.Collisions, err = m.Marks.Collisions(d.marksConfig())
	if err != nil && !errors.Is(err, dscpmark.ErrManyUplinks) { // that the plan refuses
		return fmt.Errorf("look for others who use marks: %w", err)
	}
	return nil
}
