package netshape

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"trafficup/internal/disk"
)

// ErrNotKept is wrapped by the error about a change that is done and confirmed, if it
// had to be, and of which the next boot will know nothing.
var ErrNotKept = errors.New("it is done and stands, nothing is taken back; but it is not kept for the next boot")

// ErrNoPending is what Confirm says when nothing of that id waits: it was
// confirmed, or taken back, or never was.
var ErrNoPending = errors.New("nothing of that id waits for confirmation")

// Pending is an apply that is taken back at Until, by the clock as it is now, unless
// it is confirmed.
type Pending struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"`
}

// rollbacks is what is remembered of applies that were taken back in this boot.
type rollbacks struct {
	Boot    string      `json:"boot"`
	Count   int         `json:"count"`
	Last    time.Time   `json:"last"`
	ID      string      `json:"id"`
	Refused []Interface `json:"refused"` // nobody confirmed them: they are not set up without being asked for
}

func (m *Machine) transaction() (*transaction, error) {
	var t transaction
	if ok, err := m.load(pendingFile, &t); !ok || err != nil || t.Boot != m.Boot {
		return nil, err
	}
	return &t, nil
}

// pending is what waits for confirmation in this boot; nil: nothing.
func (m *Machine) pending() (*Pending, error) {
	t, err := m.transaction()
	if t == nil || err != nil {
		return nil, err
	}
	return &Pending{t.ID, m.until(t)}, nil
}

// until is t.Until by the clock as it is now, which may have been set since then.
func (m *Machine) until(t *transaction) time.Time {
	now, ok := m.uptime()
	if !ok || t.Uptime == 0 {
		return t.Until
	}
	until := time.Now().Add(t.Uptime - now).UTC().Round(0)
	if until.Sub(t.Until).Abs() < time.Second { // nobody did
		return t.Until
	}
	return until
}

func (m *Machine) uptime() (since time.Duration, ok bool) {
	if m.Uptime == nil {
		return 0, false
	}
	since, err := m.Uptime()
	return since, err == nil
}

// arm has t undone after within by a process of its own. That is started first:
// if this process dies before t is written, nothing was changed and the other
// finds nothing to do.
func (m *Machine) arm(ctx context.Context, t *transaction, within time.Duration) error {
	t.ID, t.Until = strings.ToLower(rand.Text()[:8]), time.Now().Add(within).UTC().Round(0)
	if now, ok := m.uptime(); ok {
		t.Uptime = now + within
	}
	if m.Rearguard == nil {
		return errors.New("there is no process to take the change back: apply without confirmation")
	}
	if err := m.save(pendingFile+damagedSuffix, nil); err != nil { // of an earlier apply
		return err
	}
	if err := m.Rearguard(ctx, t.ID, within); err != nil {
		return fmt.Errorf("start the process that takes the change back: %w", err)
	}
	return m.save(pendingFile, t)
}

// Confirm lets what id stands for stay, and keeps it across reboots if there is a
// directory for that. [ErrNoPending] says that it is too late, or too early, and
// [ErrNotKept] that it stays until the next boot.
func (m *Machine) Confirm(ctx context.Context, id string) (err error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	t, err := m.transaction()
	if err != nil {
		return err
	}
	if t == nil || t.ID != id {
		return fmt.Errorf("confirm %s: %w", id, ErrNoPending)
	}
	// In this order: who dies between the two can confirm once more.
	kept := m.settle(t.Desired, t.Clear)
	if err := m.save(pendingFile, nil); err != nil {
		return errors.Join(kept, err)
	}
	return kept
}

// Rollback takes back what id stands for, if it still waits for confirmation in
// this boot; did is false when there was nothing to do. It may be called again
// after an error, and after a crash at any point. [ErrNotRestored] says that it is
// done, and that something that stood before could not be put back.
func (m *Machine) Rollback(ctx context.Context, id string) (did bool, err error) {
	return m.rollBack(ctx, id, nil)
}

// rollBack is Rollback that knows what waits, for when its file does not say it any
// more; nil: only that does.
func (m *Machine) rollBack(ctx context.Context, id string, known *transaction) (did bool, err error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	t, err := m.transaction()
	if t == nil && m.lost() {
		t = known
	}
	if err != nil || t == nil || t.ID != id {
		return false, err
	}
	undone := m.undo(*t)
	if undone != nil {
		undone = fmt.Errorf("roll back %s: %w", id, undone)
	}
	if undone != nil && !errors.Is(undone, ErrNotRestored) {
		return false, undone
	}
	r, err := m.rollbacks()
	if err != nil {
		return true, err
	}
	if r.ID != id { // else it was counted before a crash
		r.Boot, r.Count, r.Last, r.ID = m.Boot, r.Count+1, time.Now().UTC(), id
		r.Refused = append(r.without(t.Desired.Interfaces), t.Desired.Interfaces...)
		if err := m.save(countFile, r); err != nil {
			return true, err
		}
	}
	if err := m.save(pendingFile, nil); err != nil {
		return true, err
	}
	return true, undone
}

// How often the process that rolls back looks whether it is still needed, and how
// often it tries, a second apart.
const (
	look  = time.Second
	tries = 60
)

// RollbackAfter is what the process of [Machine.Rearguard] does: it waits and then
// rolls back, trying again after errors, for a minute at most. It returns at once
// when id does not wait any more, or never did.
func (m *Machine) RollbackAfter(ctx context.Context, id string, after time.Duration) (did bool, err error) {
	end := time.Now().Add(after)
	begun := m.outlast(ctx) == nil
	var known *transaction
	for left := time.Until(end); left > 0; left = time.Until(end) {
		switch t, err := m.transaction(); {
		case err != nil: // it may be better when the time has come
		case t != nil && t.ID == id:
			known, begun = t, true
		case begun && !m.lost():
			return false, nil
		}
		if err := sleep(ctx, min(look, left)); err != nil {
			return false, err
		}
	}
	for range tries {
		if did, err = m.rollBack(ctx, id, known); err == nil || errors.Is(err, ErrNotRestored) {
			return did, err
		}
		if e := sleep(ctx, look); e != nil {
			return did, errors.Join(err, e)
		}
	}
	return did, err
}

// lost reports that what waits cannot be read any more: that is no confirmation.
func (m *Machine) lost() bool {
	path := filepath.Join(m.Dir, pendingFile)
	data, err := disk.ReadFile(m.FS, path)
	if err == nil {
		return json.Unmarshal(data, new(transaction)) != nil
	}
	_, err = disk.ReadFile(m.FS, path+damagedSuffix)
	return err == nil
}

// outlast waits for the end of the apply that started this process: it has the
// lock until then, and what does not wait for confirmation after it never will.
func (m *Machine) outlast(ctx context.Context) error {
	if _, err := m.FS.ReadDir(m.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil // gone with its lock; it is not to be made again for that
	}
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	return unlock()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// rollbacks of this boot.
func (m *Machine) rollbacks() (r rollbacks, err error) {
	if _, err = m.load(countFile, &r); err != nil || r.Boot != m.Boot {
		return rollbacks{}, err
	}
	return r, nil
}

func (r rollbacks) without(list []Interface) []Interface {
	return slices.DeleteFunc(slices.Clone(r.Refused), func(i Interface) bool { return slices.Contains(list, i) })
}

// settle is the end of an apply that stays. Its errors wrap [ErrNotKept].
func (m *Machine) settle(d Desired, cleared []string) error {
	if err := m.remember(d, cleared); err != nil {
		return fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	return nil
}

// remember has d kept, and not count as refused any more.
func (m *Machine) remember(d Desired, cleared []string) error {
	r, err := m.rollbacks()
	if err != nil {
		return err
	}
	if left := r.without(d.Interfaces); len(left) < len(r.Refused) {
		r.Refused = left
		if err := m.save(countFile, r); err != nil {
			return err
		}
	}
	return m.keep(d, cleared)
}

// keep makes d outlive a reboot, beside what was kept of other interfaces.
func (m *Machine) keep(d Desired, cleared []string) error {
	if m.Keep == "" {
		return nil
	}
	was, _, err := m.Kept()
	if err != nil {
		return err
	}
	kept := was
	kept.Interfaces = slices.DeleteFunc(slices.Clone(was.Interfaces), func(i Interface) bool {
		return slices.Contains(cleared, i.Name) || slices.ContainsFunc(d.Interfaces, func(n Interface) bool { return n.Name == i.Name })
	})
	kept.Interfaces = append(kept.Interfaces, d.Interfaces...)
	slices.SortFunc(kept.Interfaces, func(a, b Interface) int { return cmp.Compare(a.Name, b.Name) })
	if cleared == nil {
		kept.Classes, kept.Mask = d.Classes, d.Mask
	}
	if slices.Equal(was.Interfaces, kept.Interfaces) && was.Mask == kept.Mask && reflect.DeepEqual(was.Classes, kept.Classes) {
		return nil
	}
	return m.saveTo(m.Keep, keptFile, kept)
}

// CanKeep tells whether p could be kept after its confirmation, by writing a file
// where that would be and removing it again. A plan of [MakeClear] has nothing to
// keep, and a machine may have no place for it.
func (m *Machine) CanKeep(p Plan) error {
	if m.Keep == "" || p.clear != nil {
		return nil
	}
	if err := m.saveTo(m.Keep, tryFile, true); err != nil {
		return err
	}
	return m.saveTo(m.Keep, tryFile, nil)
}
