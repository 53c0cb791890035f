package netshape

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// Codes of refusals.
const (
	CodeNoInterface  = "no_interface"
	CodeRenamed      = "renamed"
	CodeNoPermission = "no_permission"
	CodeNoKernel     = "no_kernel_support"
	CodeForeignQdisc = "foreign_qdisc"
	CodeForeignTable = "foreign_table"
	CodePending      = "pending"
	CodeBadMarks     = "bad_marks"
)

// Refusal is a reason to change nothing, and what would be right.
type Refusal struct {
	Code      string `json:"code"`
	Interface string `json:"interface,omitempty"`
	Text      string `json:"text"`
	Hint      string `json:"hint"`
}

// RefusedError is the error of a plan that is refused. It holds at least one Refusal.
type RefusedError struct{ Refusals []Refusal }

func (e *RefusedError) Error() string {
	var texts []string
	for _, r := range e.Refusals {
		texts = append(texts, r.Text)
	}
	return "refused: " + strings.Join(texts, "; ")
}

// ErrChanged is what Apply says when the kernel is not any more as it was when
// the plan was made.
var ErrChanged = errors.New("something changed since the plan was made: make it again")

func (p *Plan) refuse(r Refusal) { p.Refusals = append(p.Refusals, r) }

// refuseGeneral refuses what concerns no single interface.
func (p *Plan) refuseGeneral(d Desired, o Observed) {
	if o.Denied != nil {
		r := Refusal{Code: CodeNoPermission, Text: o.Denied.Error(), Hint: "run it as root, or give the unit AmbientCapabilities=CAP_NET_ADMIN"}
		if o.contained {
			r.Hint = "run it on the host, or as root of a container with --network host --cap-add NET_ADMIN that is not rootless"
		}
		p.refuse(r)
	} else if o.Unreadable != nil {
		p.refuse(Refusal{Code: CodeNoPermission, Text: o.Unreadable.Error(), Hint: "run it as the user who applied, or as root"})
	}
	if q := o.Pending; q != nil {
		p.refuse(Refusal{
			Code: CodePending, Text: fmt.Sprintf("an earlier apply, %s, waits for its confirmation until %s", q.ID, q.Until.Local().Format("15:04:05 MST")),
			Hint: fmt.Sprintf("trafficup netshape confirm %s, or: trafficup netshape rollback %s", q.ID, q.ID),
		})
	}
}

// missingInterface is for an interface that is not there; others are those that are,
// of a plan for several.
func missingInterface(name string, others []string, o Observed) Refusal {
	r := Refusal{
		Code: CodeNoInterface, Interface: name, Text: fmt.Sprintf("there is no interface %s", name),
		Hint: "there are: " + strings.Join(o.Names, ", "),
	}
	if len(others) > 0 {
		r.Hint += "; for the others alone: --iface " + strings.Join(others, " --iface ")
	}
	if o.contained {
		r.Hint += "; a container has those of the host with --network host only"
	}
	return r
}

// kindIFB stands for the devices of that kind among the queues: both are parts
// that a kernel may lack.
const kindIFB tc.Kind = "ifb"

// queues are those of all kinds.
var queues = []tc.Kind{tc.KindCake, tc.KindHTB, tc.KindFqCodel}

// needs are the parts of the kernel that an interface's shaping is made of.
func needs(i Interface) (kinds []tc.Kind) {
	switch i.Kind {
	case KindCake:
		kinds = []tc.Kind{tc.KindCake}
	case KindFqCodel:
		kinds = []tc.Kind{tc.KindHTB, tc.KindFqCodel}
	}
	if i.Ingress.Kind != "" {
		kinds = append(kinds, tc.KindIngress, kindIFB)
	}
	return kinds
}

func missingKind(want Interface, kind tc.Kind) Refusal {
	r := Refusal{Code: CodeNoKernel, Interface: want.Name}
	switch kind {
	case tc.KindCake:
		r.Text = "this kernel has no sch_cake"
		r.Hint = "take --kind fq_codel, which is htb with fq_codel below it and nearly as good, or install the kernel's extra modules and: modprobe sch_cake"
	case kindIFB:
		r.Text = "this kernel has no ifb, through which what comes in is led"
		r.Hint = "leave out --down, or: modprobe ifb"
	default:
		r.Text = fmt.Sprintf("this kernel has no sch_%s", kind)
		r.Hint = fmt.Sprintf("install the kernel's extra modules and: modprobe sch_%s", kind)
		if kind != tc.KindIngress {
			r.Hint += "; or take --kind cake"
		}
	}
	return r
}

// noQueue is for a kernel that has none of the queues that there are kinds for.
func noQueue(name string, missing []tc.Kind) Refusal {
	var modules []string
	for _, k := range queues {
		if slices.Contains(missing, k) {
			modules = append(modules, "sch_"+string(k))
		}
	}
	return Refusal{
		Code: CodeNoKernel, Interface: name, Text: "this kernel has no " + strings.Join(modules, " and no "),
		Hint: "install the package with all modules of the kernel (Debian linux-image, Ubuntu linux-modules-extra, OpenWrt kmod-sched-cake) and: modprobe sch_cake; " +
			"or for --kind fq_codel: modprobe -a sch_htb sch_fq_codel; without these --kind none marks the classes and shapes nothing",
	}
}

func foreignQdisc(name, slot string, p present) Refusal {
	place, have := fmt.Sprintf("the %s of %s", slot, name), p.Root
	if slot == slotIngress {
		place, have = place+", by way of "+ifbName(name)+",", p.Ingress
		if len(p.users) > 0 {
			place += " to which filters of " + strings.Join(p.users, ", ") + " lead,"
		}
	}
	return Refusal{
		Code: CodeForeignQdisc, Interface: name,
		Text: fmt.Sprintf("%s is %v, which somebody else set up", place, have),
		Hint: "find out who did (sqm-scripts, networkd, wondershaper, a hand), or replace it with --force",
	}
}

// blocked is for an interface whose incoming traffic cannot be led to an ifb.
func blocked(name string, p present) Refusal {
	return Refusal{
		Code: CodeForeignQdisc, Interface: name, Text: p.block,
		Hint: "leave out --down, or have what is in the way removed or renamed; --force does not help",
	}
}

// renamed refuses what is set up under another name than that: its ifb, its marks
// and its state have the old one.
func (p present) renamed(name string) (r Refusal, is bool) {
	r = Refusal{Code: CodeRenamed, Interface: name}
	switch {
	case p.Link.Name != name:
		r.Text = fmt.Sprintf("there is no interface %s: it is called %s now", name, p.Link.Name)
		r.Hint = fmt.Sprintf("trafficup netshape clear --iface %s, and apply to %s", p.Link.Name, p.Link.Name)
	case p.as != name:
		r.Text = fmt.Sprintf("%s was set up when its name was %s", name, p.as)
		r.Hint = fmt.Sprintf("trafficup netshape clear --iface %s, and apply again", name)
	case p.moved != "":
		r.Text = fmt.Sprintf("what was set up when it had the name %s is called %s now", name, p.moved)
		r.Hint = fmt.Sprintf("trafficup netshape clear --iface %s, and apply again", p.moved)
	default:
		return r, false
	}
	return r, true
}

func foreignTable() Refusal {
	return Refusal{
		Code: CodeForeignTable, Text: "there is an nft table inet trafficup that is not from this program",
		Hint: "look at it with: nft list table inet trafficup; replace it with --force",
	}
}

// ownedTable is for one that not even force replaces.
func ownedTable() Refusal {
	return Refusal{
		Code: CodeForeignTable, Text: "there is an nft table inet trafficup that a running program owns (flags owner): nobody else can change or delete it",
		Hint: "nft list tables shows which program that is; end it, or leave out the classes",
	}
}

func badMarks(err error) Refusal {
	r := Refusal{
		Code: CodeBadMarks, Text: "marks: " + err.Error(),
		Hint: "correct the class in the configuration; a cgroup exists only while its unit runs",
	}
	if errors.Is(err, dscpmark.ErrManyUplinks) {
		r.Hint = "clear some of the interfaces, or leave out the classes"
	}
	return r
}

func noMarks(err error) Refusal {
	return Refusal{
		Code: CodeNoKernel, Text: "traffic cannot be marked: " + err.Error(),
		Hint: "leave out the classes: the uploader marks its own connections, and the queue goes by that; or install a kernel with nftables",
	}
}
