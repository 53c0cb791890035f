package netshape

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// WriteText writes the plan for people: a line for each step, what it comes to in
// tc and nft, why nothing is done, and how many there are.
func (p Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintln(&b, s)
		for _, c := range s.Commands {
			fmt.Fprintf(&b, "      # %s\n", c)
		}
	}
	for _, r := range p.Refusals {
		fmt.Fprintf(&b, "refused: %s\n   hint: %s\n", r.Text, r.Hint)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	fmt.Fprintln(&b, p.Summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// String is the step in one line.
func (s Step) String() string {
	place := "nft table inet trafficup"
	if s.Interface != "" {
		place = fmt.Sprintf("dev %s %s", s.Interface, s.Slot)
	}
	line := fmt.Sprintf("%s %s: %s", s.Op, place, s.Text)
	if s.Why != "" {
		line += " (" + s.Why + ")"
	}
	return line
}

// Summary is the plan in half a line.
func (p Plan) Summary() string {
	n := map[string]int{}
	for _, s := range p.Steps {
		n[s.Op]++
	}
	switch {
	case len(p.Refusals) > 0:
		if len(p.Refusals) == 1 {
			return "refused; nothing changes"
		}
		return fmt.Sprintf("refused for %d reasons; nothing changes", len(p.Refusals))
	case p.Equal:
		return "nothing to do: everything stands as desired"
	}
	return fmt.Sprintf("%d to add, %d to change, %d to remove", n["+"], n["~"], n["-"])
}

// MarshalJSON writes lists as lists, also empty ones.
func (p Plan) MarshalJSON() ([]byte, error) {
	type plain Plan // without this method
	if p.Steps == nil {
		p.Steps = []Step{}
	}
	return json.Marshal(plain(p))
}

// describe is a shaper as tc prints it.
func describe(s tc.Shaper) string {
	switch s.Kind {
	case tc.KindCake:
		return "cake " + strings.Join(cakeWords(s.Cake), " ")
	case tc.KindHTB:
		classes := "one class"
		if s.HTB.Tins {
			classes = "three classes"
		}
		return fmt.Sprintf("htb rate %s, %s above fq_codel %s", FormatRate(s.HTB.Rate), classes, strings.Join(leafWords(s.HTB.Codel), " "))
	}
	if s.Kind == kindIFB {
		return "an ifb that nothing is led to"
	}
	return None
}

func cakeWords(c tc.Cake) []string {
	words := []string{"unlimited"}
	if c.Rate != 0 {
		words = []string{"bandwidth " + FormatRate(c.Rate)}
	}
	words = append(words, c.Diffserv.String(), c.Flows.String(), "rtt "+shortTime(c.RTT))
	flag := func(set bool, yes, no string) {
		if set {
			words = append(words, yes)
		} else if no != "" {
			words = append(words, no)
		}
	}
	flag(c.NAT, "nat", "nonat")
	flag(c.Wash, "wash", "nowash")
	words = append(words, c.AckFilter.String())
	flag(c.SplitGSO, "split-gso", "no-split-gso")
	flag(c.Ingress, "ingress", "")
	if c.HasOverhead {
		words = append(words, fmt.Sprintf("overhead %d", c.Overhead))
	} else {
		words = append(words, "raw")
	}
	flag(c.MPU != 0, fmt.Sprintf("mpu %d", c.MPU), "")
	return words
}

func leafWords(f tc.FqCodel) []string {
	words := []string{
		fmt.Sprintf("limit %d flows %d quantum %d", f.Limit, f.Flows, f.Quantum),
		"target " + shortTime(f.Target), "interval " + shortTime(f.Interval),
	}
	if f.ECN {
		words = append(words, "ecn")
	}
	return words
}

// shortTime is a time in tc's words.
func shortTime(d time.Duration) string { return strings.ReplaceAll(d.String(), "µs", "us") }

// changedInPlace names the options that change, and what that costs.
func changedInPlace(from, to tc.Shaper) string {
	why := "in place, counters stay: " + strings.Join(differences(to, from), ", ")
	if from.Kind == tc.KindHTB && from.HTB.Codel.Flows != to.HTB.Codel.Flows {
		why = "the fq_codel is recreated, its flows cannot change: " + strings.Join(differences(to, from), ", ")
	}
	return why
}

func describeMarks(c *dscpmark.Config) string {
	if c == nil {
		return "marks"
	}
	var classes []string
	for _, k := range c.Classes {
		classes = append(classes, fmt.Sprintf("%s dscp %d", k.Name, k.DSCP))
	}
	return fmt.Sprintf("%s on %s", strings.Join(classes, ", "), strings.Join(c.Interfaces, ", "))
}
