package dscpmark

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
)

// Apply makes the table what cfg wants, in one transaction, and reads it back.
// Where it is so already, nothing is done and counters go on. After an error that
// is not of the reading back, nothing has changed.
func Apply(cfg Config) error {
	return with(func(c *nftables.Conn) error {
		was, p, err := prepare(c, cfg)
		if err != nil || was.Fingerprint == p.fingerprint {
			return err
		}
		if err := p.send(c, was.based); err != nil {
			return fmt.Errorf("nftables table inet %s: %w", p.cfg.Table, err)
		}
		is, err := read(c, p.cfg.Table)
		if err == nil && is.Fingerprint != p.fingerprint {
			err = fmt.Errorf("reads back differently: %s", is.Damage)
		}
		if err != nil {
			return fmt.Errorf("nftables table inet %s: %w", p.cfg.Table, err)
		}
		return nil
	})
}

// Check tells whether [Apply] would work, rights and kernel included, by doing
// all of it in a transaction that is bound to fail.
func Check(cfg Config) error {
	return with(func(c *nftables.Conn) error {
		_, p, err := prepare(c, cfg)
		if err != nil {
			return err
		}
		// The table is made anew there, so this chain cannot be in it.
		t := p.batch(c, false)
		c.AddRule(&nftables.Rule{Table: t, Chain: &nftables.Chain{Name: "missing"}, Exprs: []expr.Any{&expr.Counter{}}})
		err = c.Flush() // is never nil
		if failures := leaves(err); len(failures) == 1 && errors.Is(failures[0], os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("nftables table inet %s: %w", p.cfg.Table, refusal(err))
	})
}

// refusal names the first error of a batch: the others follow from it. All that a
// batch refers to is made in it, so what is not found is a kind of expression.
func refusal(err error) error {
	if all := leaves(err); len(all) > 0 {
		err = all[0]
	}
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return named(err)
}

// leaves returns the errors that err was joined of.
func leaves(err error) []error {
	switch e := err.(type) {
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		var out []error
		for _, sub := range e.Unwrap() {
			out = append(out, leaves(sub)...)
		}
		return out
	case *netlink.OpError:
		return []error{e}
	case interface{ Unwrap() error }:
		return leaves(e.Unwrap())
	}
	return []error{err}
}

// Delete removes the table of that name, "" for the default, and so everything
// this package has made. There being none is no error.
func Delete(table string) error {
	return with(func(c *nftables.Conn) error {
		t, err := find(c, cmp.Or(table, defaultTable))
		if err != nil {
			return fmt.Errorf("nftables: %w", named(err))
		}
		if t == nil {
			return nil
		}
		if owned(t) {
			return fmt.Errorf("delete nftables table inet %s: %w", t.Name, ErrOwned)
		}
		c.DelTable(t)
		if err := c.Flush(); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("delete nftables table inet %s: %w", t.Name, named(err))
		}
		return nil
	})
}

// prepare reads what is there and compiles what should be.
func prepare(c *nftables.Conn, cfg Config) (State, program, error) {
	was, err := read(c, cmp.Or(cfg.Table, defaultTable))
	if err == nil && was.Owned {
		err = fmt.Errorf("nftables table inet %s: %w", cmp.Or(cfg.Table, defaultTable), ErrOwned)
	}
	if err != nil {
		return was, program{}, err
	}
	old := map[string]uint32{}
	for _, r := range was.Rules {
		if r.Class != "" {
			old[r.Class] = r.Mark
		}
	}
	p, err := compile(cfg, old)
	return was, p, err
}

// send replaces the rules, and the base chains, too, unless they are right.
func (p program) send(c *nftables.Conn, based bool) error {
	p.batch(c, based)
	return refusal(c.Flush())
}

// batch queues what send sends and returns the table.
func (p program) batch(c *nftables.Conn, based bool) *nftables.Table {
	t := c.AddTable(&nftables.Table{Name: p.cfg.Table, Family: nftables.TableFamilyINet})
	if based {
		c.FlushTable(t)
	} else {
		c.DelTable(t)
		c.AddTable(t)
	}
	chains := map[string]*nftables.Chain{}
	accept := nftables.ChainPolicyAccept
	for _, b := range bases {
		chains[b.name] = c.AddChain(&nftables.Chain{Name: b.name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: b.hook, Priority: &b.priority, Policy: &accept})
	}
	var sets uint32
	for _, r := range p.rules {
		var exprs []expr.Any
		for _, s := range r.parts {
			if s.set != nil {
				sets++
				s.exprs = s.set.queue(c, t, sets, s.exprs)
			}
			exprs = append(exprs, s.exprs...)
		}
		c.AddRule(&nftables.Rule{Table: t, Chain: chains[r.chain], Exprs: exprs, UserData: r.tag.userData()})
	}
	return t
}

// queue queues the set under an id of this transaction, and returns exprs with
// the lookup in it.
func (s *set) queue(c *nftables.Conn, t *nftables.Table, id uint32, exprs []expr.Any) []expr.Any {
	elems := make([]nftables.SetElement, len(s.keys))
	for i, k := range s.keys {
		elems[i].Key = k
	}
	// The error is of sets that are anonymous and not constant.
	_ = c.AddSet(&nftables.Set{Table: t, ID: id, Name: s.lookup.SetName, Anonymous: true, Constant: true, KeyType: s.typ}, elems)
	out := make([]expr.Any, len(exprs))
	for i, e := range exprs {
		if out[i] = e; e == expr.Any(s.lookup) {
			l := *s.lookup
			l.SetID = id
			out[i] = &l
		}
	}
	return out
}

const (
	answerWithin = 10 * time.Second // a kernel that does not understand a batch may not answer to each message
	bufferSize   = 4 << 20          // bytes, for a table of some thousand rules and the answers to them
)

// with calls do with a connection to nftables of this thread's network namespace.
func with(do func(*nftables.Conn) error) error {
	c, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(n *netlink.Conn) error {
		return errors.Join(n.SetReadBuffer(bufferSize), n.SetWriteBuffer(bufferSize), n.SetDeadline(time.Now().Add(answerWithin)))
	}))
	if err != nil {
		return fmt.Errorf("nftables: %w", named(err))
	}
	defer func() { _ = c.CloseLasting() }()
	return do(c)
}

// named wraps what the kernel's error means, where it means one of ours.
func named(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: %w", ErrPermission, err)
	case errors.Is(err, syscall.EPROTONOSUPPORT), errors.Is(err, syscall.EAFNOSUPPORT), errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}
