package netshape

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/disk/disktest"
	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

var errFake = errors.New("the kernel says no")

// fakeKernel is a kernel in memory, with the faults a test wants.
type fakeKernel struct {
	turns   atomic.Int64 // see pass
	links   []Link
	roots   map[int]tc.Qdisc // by link; none: the default
	led     map[int]int      // ingress: from link to ifb
	theirs  map[int]int      // the same, by filters of others
	block   map[int]uint32   // of the ingress qdisc
	refused tc.Kind          // cannot be restored
	denied  error
	missing []tc.Kind

	changes int              // calls that change something
	failAt  int              // the one that fails, counted from 1; 0: none
	half    bool             // it does its work and fails
	loseAt  int              // the one at which the link goes
	drop    func(*tc.Shaper) // options that are lost on the way
	before  func(change int) // called before each change
	next    int              // link index
}

func newKernel(names ...string) *fakeKernel {
	k := &fakeKernel{roots: map[int]tc.Qdisc{}, led: map[int]int{}, theirs: map[int]int{}, block: map[int]uint32{}, next: 2}
	for _, n := range names {
		k.add(n)
	}
	return k
}

func (k *fakeKernel) add(name string) int {
	k.next++
	l := Link{Index: k.next, Name: name, Up: true, Queues: 1, Kind: "device"}
	if strings.HasPrefix(name, "ifb4") {
		l.Kind = "ifb"
	}
	k.links = append(k.links, l)
	return k.next
}

// addMade adds an ifb of ours.
func (k *fakeKernel) addMade(name string) int {
	i := k.add(name)
	k.links[len(k.links)-1].Made = true
	return i
}

func (k *fakeKernel) rename(from, to string) {
	for i := range k.links {
		if k.links[i].Name == from {
			k.links[i].Name = to
		}
	}
}

func (k *fakeKernel) index(name string) int {
	for _, l := range k.links {
		if l.Name == name {
			return l.Index
		}
	}
	return 0
}

func (k *fakeKernel) remove(name string) {
	i := k.index(name)
	delete(k.roots, i)
	delete(k.led, i)
	k.links = slices.DeleteFunc(k.links, func(l Link) bool { return l.Index == i })
}

// meet is where a test and a process of its bubble see what the other did.
func (k *fakeKernel) meet() (again func()) {
	k.turns.Add(1)
	return func() { k.turns.Add(1) }
}

// pass lets time go by, and all that is due in it happen.
func (b box) pass(d time.Duration) {
	defer b.k.meet()()
	time.Sleep(d)
	synctest.Wait()
}

// change counts a call about link, and lets it fail if it is the one. do is what it does.
func (k *fakeKernel) change(link int, do func()) error {
	defer k.meet()()
	k.changes++
	if k.before != nil {
		k.before(k.changes)
	}
	if k.changes == k.loseAt {
		for _, l := range k.links {
			if l.Index == link {
				k.remove(l.Name)
			}
		}
	}
	if !slices.ContainsFunc(k.links, func(l Link) bool { return l.Index == link }) {
		return ErrNoLink
	}
	fails := k.changes == k.failAt
	if !fails || k.half {
		do()
	}
	if fails {
		return errFake
	}
	return nil
}

func (k *fakeKernel) Rights() error { return k.denied }
func (k *fakeKernel) Missing(kinds []tc.Kind) ([]tc.Kind, error) {
	return slices.DeleteFunc(slices.Clone(kinds), func(kind tc.Kind) bool { return !slices.Contains(k.missing, kind) }), nil
}
func (k *fakeKernel) Links() ([]Link, error) {
	defer k.meet()()
	return slices.Clone(k.links), nil
}
func (k *fakeKernel) Qdiscs(link int) ([]tc.Qdisc, error) {
	q, ok := k.roots[link]
	if !ok {
		q = tc.Qdisc{Kind: "noqueue", Default: true}
	}
	q.Parent = tc.Root
	list := []tc.Qdisc{q}
	if b := k.block[link]; b != 0 {
		list = append(list, tc.Qdisc{Kind: tc.KindIngress, Parent: tc.Ingress, Block: b})
	}
	return list, nil
}
func (k *fakeKernel) Redirected(link, ifb int) (ours, others bool, err error) {
	to, leads := k.led[link]
	if leads && !slices.ContainsFunc(k.links, func(l Link) bool { return l.Index == to }) {
		to = 0
	}
	return leads && to == ifb, ifb != 0 && k.theirs[link] == ifb, nil
}

func (k *fakeKernel) set(link int, s tc.Shaper) {
	if k.drop != nil {
		k.drop(&s)
	}
	q := tc.Qdisc{Kind: s.Kind, Shaper: s, Handle: tc.CakeHandle}
	if s.Kind == tc.KindHTB {
		q.Handle = tc.HTBHandle
	}
	k.roots[link] = q
}

func (k *fakeKernel) SetRoot(link int, s tc.Shaper) error {
	return k.change(link, func() { k.set(link, s) })
}
func (k *fakeKernel) RestoreRoot(link int, q tc.Qdisc) error {
	if q.Kind == k.refused {
		return errFake
	}
	return k.change(link, func() { k.roots[link] = q })
}
func (k *fakeKernel) DeleteRoot(link int) error {
	return k.change(link, func() { delete(k.roots, link) })
}
func (k *fakeKernel) SetIngress(link int, ifb string, s tc.Shaper) error {
	return k.change(link, func() {
		if k.index(ifb) == 0 {
			k.addMade(ifb)
		}
		k.set(k.index(ifb), s)
		k.led[link] = k.index(ifb)
	})
}
func (k *fakeKernel) DeleteIngress(link int, ifb string) error {
	return k.change(link, func() {
		delete(k.led, link)
		switch i := k.index(ifb); {
		case slices.ContainsFunc(k.links, func(l Link) bool { return l.Index == i && l.Made }) && !slices.Contains(slices.Collect(maps.Values(k.theirs)), i):
			k.remove(ifb)
		case k.roots[i].Handle == tc.CakeHandle || k.roots[i].Handle == tc.HTBHandle:
			delete(k.roots, i)
		}
	})
}
func (k *fakeKernel) RestoreIngress(link int, ifb string, q tc.Qdisc) error {
	return k.change(link, func() {
		delete(k.led, link)
		if k.roots[k.index(ifb)] = q; q.Kind == "" {
			delete(k.roots, k.index(ifb))
		}
	})
}

// picture is all that stands, for comparison. The index of an ifb is no part of it.
func (k *fakeKernel) picture() string {
	text := ""
	for _, l := range slices.SortedFunc(slices.Values(k.links), func(a, b Link) int { return strings.Compare(a.Name, b.Name) }) {
		q := k.roots[l.Index]
		to := ""
		for _, o := range k.links {
			if k.led[l.Index] == o.Index {
				to = o.Name
			}
		}
		text += fmt.Sprintf("%s: %s %x %+v %q -> %s\n", l.Name, q.Kind, q.Handle, q.Shaper, q.Raw, to)
	}
	return text
}

// fakeTable is one that others made.
type fakeTable struct{ owned bool }

// fakeMarks is a table in memory. It shares its count of changes with a kernel.
type fakeMarks struct {
	k          *fakeKernel
	has        *dscpmark.Config
	alien      bool
	table      *fakeTable // of others, without rules; in the place of all else
	collisions []string
	bad        error // of the fingerprint
	readErr    error
}

func (f *fakeMarks) Fingerprint(c dscpmark.Config) (string, error) {
	return fmt.Sprint(c), f.bad
}
func (f *fakeMarks) Script(c dscpmark.Config) (string, error) { return fmt.Sprint(c), nil }
func (f *fakeMarks) Read() (s dscpmark.State, err error) {
	defer f.k.meet()()
	if f.readErr != nil {
		return s, f.readErr
	}
	if f.table != nil {
		return dscpmark.State{Present: true, Damage: "not ours", Owned: f.table.owned}, nil
	}
	if f.alien {
		return dscpmark.State{Present: true, Damage: "not ours", Rules: []dscpmark.Rule{{Chain: "x"}}}, nil
	}
	if f.has != nil {
		s.Present, s.Fingerprint = true, fmt.Sprint(*f.has)
	}
	return s, nil
}
func (f *fakeMarks) Apply(c dscpmark.Config) error {
	return f.k.change(f.k.links[0].Index, func() { f.has, f.alien, f.table = &c, false, nil })
}
func (f *fakeMarks) Delete() error {
	return f.k.change(f.k.links[0].Index, func() { f.has, f.alien, f.table = nil, false, nil })
}
func (f *fakeMarks) Check(dscpmark.Config) error                  { return f.readErr }
func (f *fakeMarks) Collisions(dscpmark.Config) ([]string, error) { return f.collisions, nil }

// box is a machine of fakes.
type box struct {
	*Machine
	k *fakeKernel
	f *fakeMarks
	d *disktest.Disk

	life func() // called at each operation, see mortal
}

// snapshot is all that is on the disk.
func (b box) snapshot() (text string) {
	for _, name := range b.d.Names() {
		if strings.HasSuffix(name, ".tmp") {
			continue // what a crash left, which the next Replace removes
		}
		data, _ := b.d.Bytes(name)
		text += name + ": " + string(data) + "\n"
	}
	return text
}

func newBox(t testing.TB, names ...string) box {
	k := newKernel(names...)
	f := &fakeMarks{k: k}
	m := &Machine{Kernel: k, Marks: f, Dir: "/run/netshape", Boot: "boot1"}
	d := disktest.New()
	m.FS = d.FS()
	turn := make(chan struct{}, 1)
	m.Lock = func(ctx context.Context, _ string) (func() error, error) {
		select {
		case turn <- struct{}{}:
			return func() error { <-turn; return nil }, disk.MakeDir(d.FS(), m.Dir)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	m.Rearguard = func(context.Context, string, time.Duration) error { return nil }
	return box{m, k, f, d, nil}
}

// picture is all that stands in the kernel.
func (b box) picture() string { return b.k.picture() + fmt.Sprint(b.f.has != nil, b.f.has) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func cakeAt(rate string) Interface {
	return must(Parse(Spec{Name: "eth1", Kind: KindCake, Up: rate}))
}

func (b box) plan(t testing.TB, d Desired) Plan {
	t.Helper()
	o, err := b.Observe(Plan{desired: d}.Interfaces()...)
	if err == nil {
		err = b.Collide(&o, d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Make(d, o, false)
}

func (b box) apply(t testing.TB, d Desired) Applied {
	t.Helper()
	done, err := b.Apply(t.Context(), b.plan(t, d), 0)
	if err != nil {
		t.Fatal(err)
	}
	return done
}
