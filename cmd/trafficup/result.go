package main

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/source"
	"trafficup/internal/uploader"
)

// result is a run as data: what --json prints, what the state directory keeps
// and what the text is made from.
type result struct {
	Type string `json:"message_type"`
	Run  string `json:"run"`
	uploader.Counts
	AckedBefore    int64            `json:"acked_before"` // of the duplicates, those delivered by an earlier run
	Calls          int64            `json:"calls"`
	TurnedAway     int64            `json:"turned_away,omitzero"` // certainly not processed, not among the calls
	Amplification  float64          `json:"amplification"`
	Retries        int64            `json:"retries"`
	Throttled      int64            `json:"throttled"`
	Paths          map[string]int64 `json:"paths"`
	LatencyMS      latencyMS        `json:"latency_ms"`
	DurationS      float64          `json:"duration_s"`
	DeadlineMargin *float64         `json:"deadline_margin_s"`
	Reasons        []reasonCount    `json:"reasons"`
	Faults         []string         `json:"faults"`
	DeadLetters    string           `json:"dead_letters,omitzero"`
	Result         string           `json:"result"`           // complete, or why not
	Verdict        string           `json:"verdict,omitzero"` // link or service: docs/verdict.md
	VerdictPath    string           `json:"verdict_path,omitzero"`
	VerdictWhy     string           `json:"verdict_why,omitzero"`
	LinkRTTMS      *rttMS           `json:"link_rtt_ms"` // of the path of the verdict; null: not measured
	Transitions    int              `json:"breaker_transitions"`
	FallbackS      float64          `json:"fallback_seconds"`
	PlannedS       float64          `json:"fallback_planned_seconds"` // of these, while the first path was in a window
	Stood          []stood          `json:"stood_still"`              // the longest first
	Pauses         []paused         `json:"paused,omitzero"`          // while a metered uplink carried
	MeteredBytes   int64            `json:"metered_bytes,omitzero"`   // of requests while one did
	Rate           float64          `json:"rate,omitzero"`            // that the first path was held to
	Pathways       []pathway        `json:"pathways,omitzero"`
	ClockSkewS     *float64         `json:"clock_skew_s,omitzero"` // what this machine's clock lacks; left out: not known
	Shared         *shared          `json:"shared,omitzero"`       // with other machines
	ForecastS      float64          `json:"forecast_s,omitzero"`   // of a dry run, at the configured rate
	ExitCode       int              `json:"exit_code"`
	DryRun         bool             `json:"dry_run,omitzero"`
	ended          error            // what ended the run before its input did
	stopHint       string           // what to do about what stopped the run
	faultHint      string           // what to do about the first fault
	lines          []string         // of the verdict
	repeat         string           // flags that the next command needs, too
	report         string           // where this is kept; empty: nowhere
	brief          bool             // at most 20 lines of text
}

type latencyMS struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

type rttMS struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// stood is time in which no path could be used.
type stood struct {
	Seconds float64 `json:"seconds"`
	Why     string  `json:"why"`
}

// pathway is one path as it was used.
type pathway struct {
	Name        string  `json:"name"`
	URL         string  `json:"url"` // without secrets
	Calls       int64   `json:"calls"`
	Answered    int64   `json:"answered"`
	RTTMS       float64 `json:"rtt_ms"`
	ServiceMS   float64 `json:"service_ms"`
	Retransmits uint64  `json:"retransmits"`
	Segments    uint64  `json:"segments"`
	Timeouts    int64   `json:"timeouts"`
	Throttled   int64   `json:"throttled"`
	FallbackS   float64 `json:"fallback_seconds"`
	Spent       bool    `json:"quota_spent,omitzero"`
	DSCP        int     `json:"dscp,omitzero"`        // its packets were marked with
	Limit       int     `json:"concurrency,omitzero"` // found by --concurrency=auto
}

type reasonCount struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
	Count   int64  `json:"count"`
	File    string `json:"file"` // of the first of them
	Line    int64  `json:"line"`
}

func newResult(runID string, s uploader.Summary, err error, code int, dry bool) result {
	r := result{
		Type: "summary", Run: runID, Counts: s.Counts, AckedBefore: s.AckedBefore, Calls: s.Calls, TurnedAway: s.TurnedAway, Amplification: s.Amplification(),
		Retries: s.Retries, Throttled: s.Throttled, Paths: s.CallsByPath,
		LatencyMS: latencyMS{ms(s.Latency.P50), ms(s.Latency.P95), ms(s.Latency.P99), ms(s.Latency.Max)},
		DurationS: s.Duration.Seconds(), ExitCode: code, DryRun: dry, ended: err,
		Stood: []stood{}, Reasons: []reasonCount{}, Faults: []string{}, Result: "complete",
	}
	if r.Paths == nil {
		r.Paths = map[string]int64{}
	}
	if dry {
		r.Calls, r.Amplification, r.Paths = 0, 0, map[string]int64{}
	}
	for _, x := range s.Reasons {
		r.Reasons = append(r.Reasons, reasonCount{string(x.Bucket), printable(x.Text), x.Count, printable(x.First.File), x.First.Line})
	}
	for _, f := range s.Faults {
		r.Faults = append(r.Faults, printable(f.Error()))
		if fe, ok := errors.AsType[*source.FileError](f); ok && r.faultHint == "" {
			r.faultHint = fe.Hint
		}
	}
	if s.DeadlineMargin != 0 {
		m := s.DeadlineMargin.Seconds()
		r.DeadlineMargin = &m
	}
	switch {
	case err != nil:
		r.Result = "stopped: " + printable(err.Error())
		_, r.stopHint = explain(err)
	case len(s.Faults) > 0:
		r.Result = "not complete: part of the input could not be read"
	case s.Waiting() > 0:
		r.Result = "not complete: some records wait"
	case s.Refused() > 0 || code == exitPerson:
		r.Result = "complete but for records that need a person"
	case code == exitWaiting:
		r.Result = "not complete: some letters wait"
	}
	return r
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (r result) json() ([]byte, error) {
	return json.Marshal(r, jsontext.EscapeForHTML(false), jsontext.AllowInvalidUTF8(true))
}

// saveReport writes the run's data and returns where.
func saveReport(st *state, r result) (string, error) {
	data, err := r.json()
	if err != nil {
		return "", err
	}
	path := filepath.Join(st.runs(), r.Run, "report.json")
	if err := disk.MakeDir(st.fs, filepath.Dir(path)); err != nil {
		return "", err
	}
	return path, disk.Replace(st.fs, path, append(data, '\n'))
}

// maxShown is how many reasons the summary lists when a report has them all.
const maxShown = 5

// text is the summary block. What needs doing comes last, as a command.
func (r result) text(w io.Writer) {
	row := func(name, columns, format string, a ...any) {
		fmt.Fprintf(w, "%-12s %-50s %s\n", name, columns, fmt.Sprintf(format, a...))
	}
	fmt.Fprintf(w, "%-12s %s\n", "Run", r.Run)
	acked := "acked"
	if r.DryRun {
		acked = "valid"
	}
	row("Records", "[read, "+acked+", duplicate, acked before]", "%s  %s  %s  %s",
		thousands(r.Read), thousands(r.Acked), thousands(r.Duplicate-r.AckedBefore), thousands(r.AckedBefore))
	row("Refused", "[invalid, rejected, conflict]", "%s  %s  %s", thousands(r.Invalid), thousands(r.Rejected), thousands(r.Conflict))
	row("Waiting", "[exhausted, deferred, halted, unknown]", "%s  %s  %s  %s", thousands(r.Exhausted), thousands(r.Deferred), thousands(r.Halted), thousands(r.Unknown))
	if !r.DryRun {
		row("Calls", "[sent, retried, throttled, per record]", "%s  %s  %s  %.3f", thousands(r.Calls), thousands(r.Retries), thousands(r.Throttled), r.Amplification)
	}
	if !r.DryRun && !r.brief {
		l := r.LatencyMS
		row("Latency", "[50, 95, 99, max]", "%.1fms  %.1fms  %.1fms  %.1fms", l.P50, l.P95, l.P99, l.Max)
		names, calls := r.pathNames(), []string(nil)
		for _, n := range names {
			calls = append(calls, thousands(r.Paths[n]))
		}
		row("Paths", "["+strings.Join(names, ", ")+"]", "%s", strings.Join(calls, "  "))
	}
	row("Duration", "[total]", "%s", inSeconds(r.DurationS).Round(time.Millisecond))
	if planned, all := inSeconds(r.PlannedS), inSeconds(r.FallbackS); all >= time.Second && !r.brief {
		row("Fallback", "[planned, unplanned]", "%s  %s", planned.Round(time.Second), (all - planned).Round(time.Second))
	}
	most := 3
	if r.brief {
		most = 1
	}
	for _, st := range r.Stood[:min(len(r.Stood), most)] {
		fmt.Fprintf(w, "%-12s %s: %s\n", "Stood still", inSeconds(st.Seconds).Round(time.Second), st.Why)
	}
	for _, line := range r.lines {
		word, rest, _ := strings.Cut(line, " ")
		if r.brief && word != "verdict" {
			continue
		}
		fmt.Fprintf(w, "%-12s %s\n", strings.ToUpper(word[:1])+word[1:], strings.TrimSpace(rest))
	}
	fmt.Fprintf(w, "%-12s %s\n", "Result", r.Result)
	if (len(r.Reasons) > 0 || len(r.Faults) > 0) && !r.brief {
		fmt.Fprintln(w)
	}
	for _, f := range r.firstFew(r.Faults, "files") {
		fmt.Fprintf(w, "  %s\n", f)
	}
	var lines []string
	for _, x := range r.Reasons {
		line := strings.TrimRight(fmt.Sprintf("%6s  %s: %s", thousands(x.Count), x.Outcome, x.Reason), ": ")
		if x.Line > 0 && x.Outcome != string(uploader.Halted) {
			line += fmt.Sprintf("  (%s%s:%d)", map[bool]string{true: "first: "}[x.Count > 1], x.File, x.Line)
		}
		lines = append(lines, line)
	}
	for _, l := range r.firstFew(lines, "reasons") {
		fmt.Fprintln(w, l)
	}
	if r.DeadLetters != "" {
		if !r.brief {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "dead letters are in %s\n", r.DeadLetters)
	}
	if h := r.hint(); h != "" {
		fmt.Fprintf(w, "hint: %s\n", h)
	}
}

// hint is what to type next.
func (r result) hint() string {
	switch {
	case r.faultHint != "":
		return r.faultHint
	case r.ExitCode == exitOK || r.DryRun:
		return ""
	case r.ExitCode == exitFailed:
		return "" // the error that follows has one
	case r.ExitCode == exitAuth:
		return "check the token, then run the same command again"
	case r.ExitCode == exitUsage, r.ExitCode == exitWaiting && r.stopHint != "":
		return r.stopHint
	case r.Halted > 0 || strings.HasPrefix(r.Result, "stopped"):
		return "run the same command again to continue; every record keeps its key"
	case r.ExitCode == exitInput:
		return "see that the files are there and can be read, then run the same command again: what was delivered is not sent twice"
	case r.Exhausted+r.Deferred+r.Unknown > 0 && r.DeadLetters != "":
		return r.replay()
	case r.Rejected > 0:
		return "mend the records and upload them again; if the API was wrong to reject some: " + r.replay()
	case r.DeadLetters != "":
		return "trafficup deadletters list --long " + r.DeadLetters + " shows them; mend the records at their source and upload them again"
	}
	return ""
}

// pathNames are the paths in order of preference.
func (r result) pathNames() []string {
	names := []string{}
	for _, p := range r.Pathways {
		names = append(names, p.Name)
	}
	return names
}

func (r result) replay() string { return "trafficup replay" + r.repeat + " " + r.DeadLetters }

func (r result) firstFew(all []string, what string) []string {
	most, where := maxShown, " in "+r.report
	switch {
	case r.brief:
		most = 3
	case r.report == "":
		return all
	}
	if r.report == "" {
		where = ""
	}
	if len(all) <= most {
		return all
	}
	return append(all[:most:most], fmt.Sprintf("        and %d more %s%s", len(all)-most, what, where))
}

// thousands writes 48210 as 48,210.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
