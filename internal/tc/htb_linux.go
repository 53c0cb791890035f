package tc

import (
	"cmp"
	"fmt"
	"slices"
)

// standing is what is below an HTB of ours.
type standing struct {
	tree
	sound bool  // nothing is there that a tree cannot say
	tins  []Tin // the classes that take packets, from the least urgent on
}

// readHTB adds to a root of ours what its classes tell.
func readHTB(link int, root *Qdisc, qs []Qdisc) error {
	is, err := readTree(link, qs)
	if err != nil {
		return err
	}
	root.Tins = is.tins
	if h, ok := decodeHTB(is.tree); ok && is.sound {
		root.Shaper = Shaper{Kind: KindHTB, HTB: h}
	}
	return nil
}

func readTree(link int, qs []Qdisc) (is standing, err error) {
	is.sound = true
	found, err := list(classes, link, 0)
	if err != nil {
		return is, err
	}
	slices.SortFunc(found, func(a, b message) int { return cmp.Compare(a.handle, b.handle) })
	for _, m := range found {
		if m.kind != KindHTB || m.handle&^0xffff != HTBHandle {
			continue // fq_codel lists its flows as classes
		}
		c, ok := decodeClass(m)
		is.sound = is.sound && ok
		is.classes = append(is.classes, c)
		if name := className(c.id); name != "" {
			is.tins = slices.Insert(is.tins, 0, classTin(name, c, m.stats, qs))
		}
	}
	for _, q := range qs {
		if q.Parent&^0xffff == HTBHandle && !q.Default {
			codel, ok := decodeFqCodel(q.Raw)
			is.sound = is.sound && ok && q.Kind == KindFqCodel
			is.leaves = append(is.leaves, leaf{q.Parent, q.Handle, codel})
		}
	}
	slices.SortFunc(is.leaves, func(a, b leaf) int { return cmp.Compare(a.class, b.class) })
	return is, is.readFilters(link)
}

func (is *standing) readFilters(link int) error {
	found, err := list(filters, link, HTBHandle)
	for _, m := range found {
		if f, ok := decodeFilter(m); ok {
			is.filters = append(is.filters, f)
		} else if m.kind != "u32" {
			is.sound = false
		}
	}
	slices.SortFunc(is.filters, func(a, b filter) int {
		return cmp.Or(cmp.Compare(a.prio, b.prio), cmp.Compare(a.handle, b.handle))
	})
	return err
}

// setHTB turns what is there into h, step by step and with the rate always in
// force, once the root is an HTB of ours.
func setHTB(link int, h HTB) error {
	root, err := readRoot(link)
	if err != nil {
		return err
	}
	if root.Kind != KindHTB || root.Handle != HTBHandle {
		if err := set(qdiscs, head{link: link, handle: HTBHandle, parent: Root}, KindHTB, encodeHTB()); err != nil {
			return known(err)
		}
	}
	qs, err := Read(link)
	if err != nil {
		return err
	}
	is, err := readTree(link, qs)
	if err != nil {
		return err
	}
	want := h.tree()
	for _, c := range want.classes {
		if err := set(classes, head{link: link, handle: c.id, parent: c.parent}, KindHTB, c.encode()); err != nil {
			return fmt.Errorf("class %x: %w", c.id, err)
		}
	}
	for _, l := range is.leaves {
		if err := removeLeaf(link, l, want.leaves); err != nil {
			return fmt.Errorf("what is in class %x: %w", l.class, err)
		}
	}
	for _, l := range want.leaves {
		if err := setLeaf(link, l, is.leaves); err != nil {
			return fmt.Errorf("fq_codel in class %x: %w", l.class, err)
		}
	}
	if !is.sound || !slices.Equal(is.filters, want.filters) {
		if err := setFilters(link, want.filters); err != nil {
			return fmt.Errorf("filters: %w", err)
		}
	}
	return removeClasses(link, is.classes, want.classes)
}

// becomes is true when the kernel can change l to o in place.
func (l leaf) becomes(o leaf) bool { return l.handle == o.handle && l.codel.Flows == o.codel.Flows }

// removeLeaf deletes l unless it is wanted and can become what is.
func removeLeaf(link int, l leaf, want []leaf) error {
	if slices.ContainsFunc(want, l.becomes) {
		return nil
	}
	return remove(qdiscs, head{link: link, handle: l.handle, parent: l.class})
}

// setLeaf makes l or changes the one that is there.
func setLeaf(link int, l leaf, is []leaf) error {
	options := l.codel.encode(slices.ContainsFunc(is, l.becomes))
	return known(set(qdiscs, head{link: link, handle: l.handle, parent: l.class}, KindFqCodel, options))
}

// setFilters replaces all. What comes meanwhile goes to the class for all
// other traffic.
func setFilters(link int, fs []filter) error {
	if err := remove(filters, head{link: link, parent: HTBHandle}); err != nil {
		return err
	}
	for _, f := range fs {
		if err := set(filters, head{link: link, handle: f.handle, parent: f.parent, info: f.info()}, "u32", f.encode()); err != nil {
			return err
		}
	}
	return nil
}

// removeClasses deletes those that are too many, children before parents.
func removeClasses(link int, is, want []class) error {
	for _, c := range slices.Backward(is) {
		if slices.ContainsFunc(want, func(w class) bool { return w.id == c.id }) {
			continue
		}
		if err := remove(classes, head{link: link, handle: c.id, parent: c.parent}); err != nil {
			return fmt.Errorf("class %x: %w", c.id, err)
		}
	}
	return nil
}
