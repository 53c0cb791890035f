package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"trafficup/internal/config"
	"trafficup/internal/netpath"
	"trafficup/internal/uploader"
	"trafficup/internal/verdict"
)

// measured adds what was measured on the ways to the API.
func (r *result) measured(ways *route, u *ui, s uploader.Summary) {
	r.Transitions = u.breakerChanges()
	if ways.chooser == nil {
		return
	}
	now, names := time.Now(), []string(nil)
	for _, p := range ways.setups {
		names = append(names, p.name)
	}
	figures := ways.meter.Figures()
	run := verdict.Run{
		Duration: s.Duration, Delivered: s.Acked, Waiting: s.Waiting(), Unread: len(s.Faults), First: names[0], Stop: r.stop(),
	}
	held := r.stood(ways.chooser.Stood(now), names, u.whyHeld, figures, &run)
	pauses, windows, sent := ways.carrier.end(now)
	r.paused(pauses, sent, &run)
	r.ClockSkewS, r.Shared = ways.shared.skewS(), ways.shared.report()
	v := verdict.Judge(figures, run)
	v.Why += expected(v.Word, windows)
	if v.Why += held; v.Word == verdict.ThrottledByUs {
		v.Why += r.Shared.throttled(ways.class)
	}
	r.Verdict, r.VerdictPath, r.VerdictWhy = v.Word, v.Path, printable(v.Why)
	r.lines = verdict.Explain(verdict.Verdict{Word: v.Word, Path: v.Path, Why: r.VerdictWhy}, figures, names)
	if f := figures[v.Path]; f.Measured > 0 {
		r.LinkRTTMS = &rttMS{ms(f.RTT.P50), ms(f.RTT.P95)}
	}
	if words := ways.shared.skewWords(); words != "" {
		r.lines = append(r.lines, words)
	}
	r.lines = append(r.lines, r.Shared.lines()...)
	planned, _ := ways.chooser.FallbackFor(now)
	r.PlannedS, r.Rate = planned.Seconds(), ways.held
	for n, st := range ways.chooser.Status(now) {
		r.addPathway(ways, n, st, figures[st.Name])
	}
}

// stop is what ended the run, where that is the verdict.
func (r *result) stop() verdict.Stop {
	for _, s := range []struct {
		err  error
		word string
	}{
		{uploader.ErrLocal, verdict.LocalFault},
		{uploader.ErrAuth, verdict.LoginRefused},
		{uploader.ErrConfig, verdict.PathMisset},
		{uploader.ErrPoison, verdict.RecordsRefused},
		{uploader.ErrClosed, verdict.Maintenance},
	} {
		if errors.Is(r.ended, s.err) {
			return verdict.Stop{Word: s.word, Why: printable(r.ended.Error())}
		}
	}
	if r.ExitCode == exitFailed {
		return verdict.Stop{Word: verdict.LocalFault, Why: "dead letters could not be written"}
	}
	return verdict.Stop{}
}

// stillWords say why a path could not be used.
var stillWords = map[netpath.Cause]string{
	netpath.BreakerOpen: "breaker of %s open", netpath.ServerAsked: "%s asked to wait",
	netpath.InMaintenance: "maintenance of %s", netpath.OverQuota: "quota of %s spent", netpath.HeldOpen: "breaker of %s held open by hand",
}

// stood adds the times in which no path could be used. held continues the verdict's
// words where somebody held a breaker open for half of the run or more.
func (r *result) stood(all []netpath.Still, names []string, reason func(path string) string, figures map[string]verdict.Figures, run *verdict.Run) (held string) {
	for _, still := range all {
		words := r.stoodStill(still, names, reason, figures, run)
		if words != "" && slices.Contains(still.Causes, netpath.HeldOpen) && 2*still.For >= run.Duration {
			held = "; " + words
		}
	}
	if held != "" && errors.Is(r.ended, uploader.ErrHalted) {
		r.stopHint = "trafficup breaker status says until when it is held open, and breaker reset ends that; then run the same command again: every record keeps its key"
	}
	return held
}

// stoodStill adds a time in which no path could be used, unless it is too short to
// be told, and returns why. reason tells why somebody held the breaker of a path
// open; that is no fault of the path.
func (r *result) stoodStill(still netpath.Still, names []string, reason func(path string) string, figures map[string]verdict.Figures, run *verdict.Run) string {
	if still.For < time.Second {
		return ""
	}
	var why []string
	counts := map[netpath.Cause]int{}
	for n, cause := range still.Causes {
		words := fmt.Sprintf(stillWords[cause], names[n])
		if cause == netpath.HeldOpen {
			words += printable(" (" + reason(names[n]) + ")")
		}
		why = append(why, words)
		counts[cause]++
		if f, used := figures[names[n]]; used {
			switch cause {
			case netpath.BreakerOpen:
				f.Down += still.For
			case netpath.ServerAsked:
				f.Asked += still.For
			}
			figures[names[n]] = f
		}
	}
	run.Stood += still.For
	if counts[netpath.InMaintenance] > 0 && counts[netpath.BreakerOpen]+counts[netpath.ServerAsked]+counts[netpath.HeldOpen] == 0 {
		run.Closed += still.For
	}
	words := strings.Join(why, ", ")
	r.Stood = append(r.Stood, stood{still.For.Seconds(), words})
	return words
}

// addPathway adds path n as it was used, and what is to be done about it.
func (r *result) addPathway(ways *route, n int, st netpath.PathStatus, f verdict.Figures) {
	p, first, waits := ways.setups[n], ways.setups[0].name, r.Exhausted+r.Deferred+r.Halted+r.Unknown > 0
	switch {
	case !waits:
	case f.Foreign > 0:
		r.stopHint = "something else answers in place of the API on " + p.name + ", a login page perhaps: log in to that network, then run the same command again"
	case f.NoProxy > 0 && 2*f.NoProxy >= f.Attempts:
		r.stopHint = fmt.Sprintf("%s goes through the proxy %s, which comes from %s: see whether that is right and the proxy is up, then run the same command again", p.name, f.Proxy, p.proxyFrom())
	case st.Spent && errors.Is(r.ended, uploader.ErrHalted):
		r.Result += "; " + p.spent()
		r.stopHint = fmt.Sprintf("see what is wrong with %s; %s may carry as much again with every run: run the same command again to continue, every record keeps its key", first, p.name)
	}
	if n > 0 {
		r.FallbackS += st.FallbackTotal.Seconds()
	}
	limit := 0
	if a := ways.limits[p.name]; a != nil {
		limit = a.Limit()
		r.lines = append(r.lines, fmt.Sprintf("permits %d at once on %s when it ended", limit, p.name))
	}
	r.Pathways = append(r.Pathways, pathway{
		Name: p.name, URL: config.Shown(p.url), Calls: f.Attempts, Answered: f.Answered, RTTMS: ms(f.RTT.P50), ServiceMS: ms(f.Service.P50),
		Retransmits: f.Retransmits, Segments: f.Segments, Timeouts: f.Timeouts, Throttled: f.Throttled,
		FallbackS: st.FallbackTotal.Seconds(), Spent: st.Spent, DSCP: ways.marked(p), Limit: limit,
	})
}

// proxyFrom names where the path's proxy is configured.
func (p pathSetup) proxyFrom() string {
	if p.Proxy == "" || p.Proxy == "env" {
		return "the environment (HTTPS_PROXY, HTTP_PROXY; paths." + p.name + ".proxy: none goes without)"
	}
	return "paths." + p.name + ".proxy"
}
