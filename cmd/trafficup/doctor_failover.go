package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"trafficup/internal/doctor"
	"trafficup/internal/edge"
	"trafficup/internal/failover"
	routes "trafficup/internal/route"
)

// switches tells that the configuration is for failover.
func (d *examination) switches() bool { return len(d.c.Failover.Uplinks) > 0 }

// failoverChecks are those of a machine with several uplinks. root is /.
func (d *examination) failoverChecks(root fs.FS) []doctor.Check {
	if !d.switches() {
		return nil
	}
	s, err := d.c.failover()
	if err != nil {
		_, hint := explain(err)
		return []doctor.Check{knownFinding(doctor.Finding{Result: doctor.Failed, What: "failover", Message: err.Error(), Do: hint})}
	}
	timeout := s.decide.Rules.Timeout
	return []doctor.Check{
		{What: "failover", Look: func(ctx context.Context) []doctor.Finding { return d.failover(ctx, s, root) }},
		{What: "targets", Bound: timeout + doctor.Bound, Look: func(ctx context.Context) []doctor.Finding { return askTargets(ctx, s) }},
	}
}

func (d *examination) failover(ctx context.Context, s failoverSetup, root fs.FS) (all []doctor.Finding) {
	for _, w := range s.warnings() {
		text, do, _ := strings.Cut(w, "; ")
		all = append(all, doctor.Finding{Result: doctor.Warning, What: "failover", Message: text, Do: cmp.Or(do, "docs/failover.md says when that is right")})
	}
	seen, err := edge.See(ctx)
	if err != nil {
		return append(all, doctor.Finding{Result: doctor.Failed, What: "failover", Message: err.Error(), Do: "run it on the machine that has the uplinks; see whether ip rule and ip route work here"})
	}
	return append(all, d.c.judged(s, seen, root)...)
}

// askTargets asks each target once by each uplink, by the tables of failover, which
// have to stand: nothing is set up here.
func askTargets(ctx context.Context, s failoverSetup) []doctor.Finding {
	seen, err := edge.See(ctx)
	if err != nil {
		return nil // told of already
	}
	l := s.layout.Numbered()
	for _, u := range l.Uplinks {
		if !slices.ContainsFunc(seen.Kernel.Rules, func(r routes.Rule) bool {
			return r.Protocol == l.Protocol && r.Mark == u.Mark && r.Mask == l.Mask && r.Table == u.Table
		}) {
			f := doctor.Finding{Result: doctor.Warning, What: "targets", Message: "not asked: the tables of failover do not stand, without which no uplink can be told from another", Do: "start failover, and look again: trafficup failover run"}
			if l.Simple {
				f = doctor.Finding{Result: doctor.OK, What: "targets", Message: "not asked: in simple mode an uplink that is not in use cannot be"}
			}
			return []doctor.Finding{f}
		}
	}
	local := edge.NewLocal(&edge.Local{Layout: s.layout, Targets: s.targets, Timeout: s.decide.Rules.Timeout, Bad: s.bad})
	if _, err := local.Look(0); err != nil {
		return []doctor.Finding{{Result: doctor.Failed, What: "targets", Message: "not asked: " + err.Error(), Do: "run it as root"}}
	}
	targets := s.edgeTargets()
	answers := make([][]failover.Answer, len(l.Uplinks))
	var asking sync.WaitGroup
	for u := range answers {
		answers[u] = make([]failover.Answer, len(targets))
		for t := range targets {
			asking.Go(func() {
				a, _ := local.Probe(ctx, u, t)
				a.Target, a.Class = targets[t].Name, targets[t].Class
				answers[u][t] = a
			})
		}
	}
	asking.Wait()
	return judgeAnswers(s, answers)
}

// judgeAnswers is one line for each target and one for each uplink.
func judgeAnswers(s failoverSetup, answers [][]failover.Answer) (all []doctor.Finding) {
	for t := range s.targets {
		good := 0
		var words []string
		for u, of := range s.decide.Uplinks {
			a := answers[u][t]
			text := a.Why
			if a.OK {
				good++
				text = a.RTT.Round(100 * time.Microsecond).String()
			}
			words = append(words, of.Name+" "+text)
		}
		f := doctor.Finding{Result: doctor.OK, What: "target", Message: answers[0][t].Target + ": " + strings.Join(words, "; ")}
		if good == 0 {
			f.Result, f.Do = doctor.Warning, "no uplink gets an answer from it now: if that stays so, write another one in its place, to failover.targets"
		} else if good < len(answers) {
			f.Result, f.Do = doctor.Warning, "see what is between it and the uplink that it does not answer by: ask it by hand, or look at what the provider lets through"
		}
		all = append(all, f)
	}
	dead := 0
	for u, of := range s.decide.Uplinks {
		r := failover.Judge(0, answers[u], s.quorum)
		f := doctor.Finding{Result: doctor.OK, What: "answers by " + of.Name, Message: fmt.Sprintf("enough: %d are wanted, and one of each kind", s.quorum)}
		if !r.OK {
			dead++
			f.Result, f.Message, f.Do = doctor.Warning, r.Why, "by this look it is down; what failover makes of it: trafficup failover status"
		}
		all = append(all, f)
	}
	for n := range all[len(s.targets):] {
		if dead == len(answers) {
			all[len(s.targets)+n].Result = doctor.Failed
		}
	}
	return all
}
