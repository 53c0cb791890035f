// Package sharedlimittest has a stand-in for the Redis that package sharedlimit
// works on. It uses neither sockets nor Lua, so it works in a bubble, and it is
// the model that the scripts are compared with.
package sharedlimittest

import (
	"cmp"
	"math"
	"slices"
)

// Request is the arguments of one lease.
type Request struct {
	Node                             string
	Class                            int // 1, 2 or 3
	Demand, AtOnce, Ceiling, Credit0 int64
	Window                           int64 // ms
}

// Ceiling is what the script keeps in Redis. The zero value knows nobody.
type Ceiling struct {
	Nodes   map[string]Node
	Windows map[int64]Given // by number
}

// Given is how many calls a window has given, before it began and in it.
type Given struct{ Before, Within int64 }

// Node is what it keeps of one.
type Node struct {
	Class                                 int
	Demand, Ceiling, Credit, Last, SeenMS int64
}

// kept is the thousandths of a window that a class has for sure.
var kept = [4]int64{0, 0, 100, 50}

// Lease is the script at a time, in us since 1970.
func (c *Ceiling) Lease(us int64, r Request) [5]int64 {
	ms := us / 1000
	current := ms / r.Window
	for name, n := range c.Nodes {
		if ms-n.SeenMS > 2000 || n.SeenMS-ms > 2000 {
			delete(c.Nodes, name)
		}
	}
	for w := range c.Windows {
		if w != current && w != current+1 {
			delete(c.Windows, w)
		}
	}
	if c.Nodes == nil {
		c.Nodes, c.Windows = map[string]Node{}, map[int64]Given{}
	}
	me, ok := c.Nodes[r.Node]
	if !ok {
		me.Credit = r.Credit0
	}
	me.Class, me.Demand, me.Ceiling, me.SeenMS = r.Class, r.Demand, r.Ceiling, ms
	c.Nodes[r.Node] = me
	ceiling := me.Ceiling
	for _, n := range c.Nodes {
		ceiling = min(ceiling, n.Ceiling)
	}
	quota := ceiling * r.Window / 1000
	budget := func(w int64) int64 { return (w%1000+1)*quota/1000 - w%1000*quota/1000 }

	now, coming := c.Windows[current], c.Windows[current+1]
	free := (budget(current) - now.Before) * ((current+1)*r.Window*1000 - us)
	at := max(min(int64(math.Ceil(float64(free)/float64(r.Window*1000)))-now.Within, r.AtOnce), 0)
	now.Within += at
	next := int64(0)
	if me.Last != current+1 {
		due := c.Shares(quota)[r.Node] + me.Credit
		next = max(min(due/1000, (me.Demand+999)/1000, budget(current+1)-coming.Before), 0)
		me.Credit, me.Last = min(due-1000*next, 1000), current+1
		c.Nodes[r.Node] = me
	}
	c.Windows[current], c.Windows[current+1] = now, Given{Before: coming.Before + next}
	return [5]int64{us, current * r.Window * 1000, at, next, int64(len(c.Nodes))}
}

// Shares divides a window, in thousandths of a call, among the nodes: first what
// is kept for the lower classes, then class after class; within one, the next
// modest node gets an equal part of what is left, or less if it wants less.
func (c *Ceiling) Shares(quota int64) map[string]int64 {
	var wants, parts [4]int64
	var order []string
	for name, n := range c.Nodes {
		wants[n.Class] += n.Demand
		order = append(order, name)
	}
	rest := quota
	for class := 1; class <= 3; class++ {
		parts[class] = min(wants[class], quota*kept[class]/1000)
		rest -= parts[class]
	}
	for class := 1; class <= 3; class++ {
		more := min(wants[class]-parts[class], rest)
		parts[class] += more
		rest -= more
	}
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(cmp.Compare(c.Nodes[a].Demand, c.Nodes[b].Demand), cmp.Compare(a, b))
	})
	shares := map[string]int64{}
	for class := 1; class <= 3; class++ {
		left := int64(0)
		for _, n := range c.Nodes {
			if n.Class == class {
				left++
			}
		}
		for _, name := range order {
			if n := c.Nodes[name]; n.Class == class {
				shares[name] = min(n.Demand, parts[class]/left)
				parts[class] -= shares[name]
				left--
			}
		}
	}
	return shares
}

// Leave is the other script.
func (c *Ceiling) Leave(node string, returned map[int64]int64) {
	delete(c.Nodes, node)
	for w, n := range returned {
		if g, ok := c.Windows[w]; ok {
			g.Before = max(g.Before-n, 0)
			c.Windows[w] = g
		}
	}
}
