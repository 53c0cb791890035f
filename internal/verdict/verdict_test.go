package verdict

import (
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// kind is a number of like attempts.
type kind struct {
	n int
	a Attempt
}

func collect(kinds ...kind) map[string]Figures {
	var c Collector
	for _, k := range kinds {
		if k.a.Path == "" {
			k.a.Path = "primary"
		}
		for range k.n {
			c.Add(k.a)
		}
	}
	return c.Figures()
}

// answer is a 201 over a link of that round trip by a service of that time, in
// four segments of which none was lost.
func answer(rtt, service time.Duration) Attempt {
	return Attempt{Status: 201, Wrote: true, HasLink: true, RTT: rtt, RTTVar: rtt / 8, Segments: 4, Duration: rtt + service}
}

func with(a Attempt, change func(*Attempt)) Attempt {
	change(&a)
	return a
}

func status(code int) func(*Attempt) { return func(a *Attempt) { a.Status = code } }
func retransmits(n uint64) func(*Attempt) {
	return func(a *Attempt) { a.Retransmits = n; a.Segments += n }
}
func rate(d time.Duration) func(*Attempt)      { return func(a *Attempt) { a.WaitedByRate = d } }
func gate(d time.Duration) func(*Attempt)      { return func(a *Attempt) { a.GateWait = d } }
func path(name string) func(*Attempt)          { return func(a *Attempt) { a.Path = name } }
func unmeasured(a *Attempt)                    { a.HasLink, a.RTT, a.RTTVar, a.Segments = false, 0, 0, 0 }
func told(code int) func(a *Attempt)           { return func(a *Attempt) { a.Status, a.Throttled = code, true } }
func portal(code int) func(a *Attempt)         { return func(a *Attempt) { a.Status, a.Foreign = code, true } }
func fault(d time.Duration, a Attempt) Attempt { a.Duration = d; return a }

var (
	quick    = answer(20*ms, 12*ms)
	noDNS    = fault(2*time.Second, Attempt{Dial: true})
	refused  = fault(20*ms, Attempt{Dial: true, Reset: true})
	timeout  = fault(10*time.Second, Attempt{Timeout: true, Wrote: true})
	stuck    = fault(10*time.Second, Attempt{Timeout: true})
	reset    = fault(300*ms, Attempt{Reset: true, Wrote: true})
	givenUp  = fault(300*ms, Attempt{Wrote: true})
	allDone  = Run{Duration: time.Minute, Delivered: 400}
	someWait = Run{Duration: time.Minute, Delivered: 300, Waiting: 100}
)

var situations = []struct {
	name  string
	kinds []kind
	run   Run
	word  string
	path  string
	why   string // a part of it
}{
	{"nothing sent", nil, Run{}, AllWell, "", "nothing was sent"},
	{"a normal night", []kind{{400, quick}}, allDone, AllWell, "primary", "400 records were delivered in 1m0s"},
	{"a few faults among many", []kind{{400, quick}, {4, timeout}, {4, noDNS}, {4, reset}, {4, with(quick, status(503))}}, allDone, AllWell, "primary", ""},
	{"rejected records are no fault", []kind{{10, quick}, {390, with(quick, status(422))}}, allDone, AllWell, "primary", ""},
	{"deadline on a healthy night", []kind{{300, quick}}, someWait, AllWell, "primary", "neither link nor service is why 100 wait"},
	{"attempts given up by us", []kind{{50, quick}, {50, givenUp}}, someWait, AllWell, "primary", ""},
	{"across an ocean", []kind{{400, answer(160*ms, 30*ms)}}, allDone, AllWell, "primary", ""},
	{"low orbit", []kind{{300, answer(35*ms, 20*ms)}, {100, answer(90*ms, 20*ms)}}, allDone, AllWell, "primary", ""},

	{"geostationary, quick service", []kind{{400, answer(600*ms, 12*ms)}}, allDone, LinkSlow, "primary", "round trip took 6"},
	{"geostationary, service a bit slow", []kind{{400, answer(600*ms, 800*ms)}}, allDone, LinkSlow, "primary", ""},
	{"delay of the network instead of the service", []kind{{400, answer(231*ms, 12*ms)}}, allDone, LinkSlow, "primary", "the service 1"},
	{"every answer 9 s", []kind{{60, answer(2*ms, 9*time.Second)}}, allDone, ServiceSlow, "primary", "the service took 9.0 s"},
	{"every answer 9 s, some beyond the timeout", []kind{{60, answer(2*ms, 9*time.Second)}, {6, timeout}}, someWait, ServiceSlow, "primary", "6 of 66 requests got no answer"},
	{"every second answer slow is not the median", []kind{{201, quick}, {199, answer(20*ms, 9*time.Second)}}, allDone, AllWell, "primary", ""},
	{"both slow, the service slower", []kind{{60, answer(600*ms, 5*time.Second)}}, allDone, ServiceSlow, "primary", ""},
	{"both slow, the link slower", []kind{{60, answer(3*time.Second, 1200*ms)}}, allDone, LinkSlow, "primary", ""},
	{"both equally slow", []kind{{60, answer(2*time.Second, 2*time.Second)}}, allDone, LinkSlow, "primary", ""},
	{"slow without measurements", []kind{{60, with(answer(20*ms, 9*time.Second), unmeasured)}}, allDone, ServiceSlow, "primary", "not measured"},
	{"no answer at all, quick link", []kind{{30, timeout}}, someWait, ServiceSlow, "primary", "30 of 30 requests got no answer in time"},
	{"timeouts of a link of 3 s", []kind{{60, answer(3*time.Second, 50*ms)}, {20, timeout}}, someWait, LinkSlow, "primary", ""},

	{"acknowledgements that ride on answers", []kind{{400, with(answer(230*ms, 0), func(a *Attempt) { a.MinRTT = 195 * ms })}}, allDone, AllWell, "primary", ""},
	{"a queue in the link", []kind{{400, with(answer(900*ms, 12*ms), func(a *Attempt) { a.MinRTT = 30 * ms })}}, allDone, LinkSlow, "primary", "round trip took 8"},

	{"loss of 1 %", []kind{{380, quick}, {20, with(quick, retransmits(1))}}, allDone, AllWell, "primary", ""},
	{"loss of 1 % on a slow link", []kind{{380, answer(231*ms, 12*ms)}, {20, with(answer(231*ms, 12*ms), retransmits(1))}}, allDone, LinkSlow, "primary", ""},
	{"loss of 5 %", []kind{{310, quick}, {90, with(quick, retransmits(1))}}, allDone, LinkLossy, "primary", "5.3 % of 1690 segments"},
	{"loss of 5 % on a slow link", []kind{{310, answer(600*ms, 12*ms)}, {90, with(answer(600*ms, 12*ms), retransmits(1))}}, allDone, LinkLossy, "primary", ""},
	{"loss and what it does", []kind{{100, with(quick, retransmits(1))}, {20, timeout}, {20, reset}}, someWait, LinkLossy, "primary", ""},
	{"a handful lost", []kind{{20, quick}, {4, with(quick, retransmits(1))}}, allDone, AllWell, "primary", ""},
	{"large segments never pass", []kind{{8, with(timeout, func(a *Attempt) {
		a.HasLink, a.RTT, a.Segments, a.Retransmits = true, 20*ms, 8, 6
	})}}, someWait, LinkLossy, "primary", ""},
	{"handshakes sent twice on a link above a second", []kind{{8, with(answer(1500*ms, 9*ms), retransmits(2))}, {40, answer(1500*ms, 9*ms)}}, allDone, LinkSlow, "primary", ""},

	{"a certificate that is refused", []kind{{100, quick}, {9, fault(5*ms, Attempt{Misset: true, Reset: true})}}, allDone, PathMisset, "primary", "9 of 109 attempts met a path that cannot work"},
	{"a redirect", []kind{{9, with(quick, func(a *Attempt) { a.Status, a.Misset = 302, true })}}, someWait, PathMisset, "primary", ""},
	{"dead DNS", []kind{{12, noDNS}}, someWait, LinkDown, "primary", "12 of 12 attempts did not reach the API (12 without a connection"},
	{"a handshake that never ends", []kind{{12, stuck}}, someWait, LinkDown, "primary", ""},
	{"a link that flaps", []kind{{100, quick}, {9, noDNS}}, allDone, LinkDown, "primary", "9 of 109"},
	{"captive portal", []kind{{12, with(quick, portal(200))}}, someWait, LinkDown, "primary", "12 answered by something else"},
	{"captive portal that admits it", []kind{{12, with(quick, status(511))}}, someWait, LinkDown, "primary", ""},

	{"all 503", []kind{{40, with(quick, status(503))}}, someWait, ServiceFailing, "primary", "40 of 40 attempts met a failing service (40 answered 5xx"},
	{"all 503 on a bad link", []kind{{40, with(answer(700*ms, 12*ms), func(a *Attempt) { a.Status, a.Retransmits = 503, 1 })}}, someWait, ServiceFailing, "primary", ""},
	{"slow 504", []kind{{40, with(answer(20*ms, 9*time.Second), status(504))}}, someWait, ServiceFailing, "primary", ""},
	{"nobody listens", []kind{{12, refused}}, someWait, ServiceFailing, "primary", "12 connections refused"},
	{"resets in mid-answer", []kind{{100, quick}, {30, reset}}, allDone, ServiceFailing, "primary", "30 of 130 attempts ended in a broken connection; the link's round trip 20 ms"},
	{"faults of all kinds, none 5 % alone", []kind{{380, quick}, {8, timeout}, {7, reset}, {7, noDNS}}, allDone, ServiceSlow, "primary", ""},

	{"429 at a ceiling", []kind{{300, quick}, {100, with(quick, told(429))}}, allDone, ThrottledByThem, "primary", "100 of 400"},
	{"all 503 with Retry-After", []kind{{40, with(quick, told(503))}}, someWait, ThrottledByThem, "primary", ""},
	{"few 429, long waits", []kind{{395, with(quick, gate(100*ms))}, {5, with(quick, told(429))}}, allDone, ThrottledByThem, "primary", "of the time"},
	{"429 and worse", []kind{{300, quick}, {40, with(quick, told(429))}, {60, with(quick, status(500))}}, allDone, ServiceFailing, "primary", ""},
	{"a ceiling met now and then", []kind{{396, quick}, {4, with(quick, told(429))}}, allDone, AllWell, "primary", ""},
	{"our own rate", []kind{{400, with(quick, rate(160*ms))}}, allDone, ThrottledByUs, "primary", "took 83.3 % of the time"},
	{"our own rate over a satellite", []kind{{400, with(answer(600*ms, 12*ms), rate(5*time.Second))}}, allDone, ThrottledByUs, "primary", ""},
	{"our own rate, hardly felt", []kind{{400, with(quick, rate(10*ms))}}, allDone, AllWell, "primary", ""},

	{"a dead proxy", []kind{{8, fault(ms, Attempt{Proxy: "192.0.2.2:9", Reset: true})}}, someWait, LinkDown, "primary", "8 of 8 attempts got no connection through the proxy 192.0.2.2:9, which refuses connections"},
	{"a silent proxy", []kind{{8, fault(time.Second, Attempt{Proxy: "192.0.2.2:9", Timeout: true})}}, someWait, LinkDown, "primary", "through the proxy 192.0.2.2:9"},
	{"a proxy that is rarely away", []kind{{400, quick}, {2, fault(ms, Attempt{Proxy: "192.0.2.2:9", Reset: true})}, {30, noDNS}}, allDone, LinkDown, "primary", "32 of 432 attempts did not reach the API (32 without"},

	{"few 503, and half of the night lost to them", []kind{{500, quick}, {9, with(quick, status(503))}}, allDone, ServiceFailing, "primary", "9 of 509 attempts met a failing service (9 answered 5xx, 0 connections refused); the run stood still for 40s of 1m0s"},
	{"an outage that asks to come back later", []kind{{500, with(quick, gate(time.Second))}, {9, with(quick, told(503))}}, allDone, ServiceFailing, "primary", "9 answered 5xx"},
	{"half of an outage by Retry-After", []kind{{500, with(quick, gate(time.Second))}, {9, with(quick, told(503))}}, allDone, ServiceFailing, "primary", "the run stood still for 40s of 1m0s because of that"},
	{"a ceiling told by 503", []kind{{300, quick}, {100, with(quick, told(503))}}, allDone, ThrottledByThem, "primary", "(0 by 429, 100 by 503)"},
	{"an outage, hardly felt", []kind{{500, quick}, {9, with(quick, status(503))}}, allDone, AllWell, "primary", ""},
	{"stood still for a path that never failed", []kind{{500, quick}}, allDone, AllWell, "primary", ""},
	{"a closed window", []kind{{400, with(quick, rate(160*ms))}}, Run{Duration: 100 * time.Second, Stood: time.Minute, Closed: time.Minute, Delivered: 400}, Maintenance, "primary", "nothing could be sent for 1m0s of 1m40s"},
	{"a closed window, hardly felt", []kind{{400, with(quick, rate(160*ms))}}, Run{Duration: 200 * time.Second, Stood: time.Minute, Closed: time.Minute, Delivered: 400}, ThrottledByUs, "primary", "besides the standing still"},
	{"closed all the time", nil, Run{Duration: time.Minute, Stood: 55 * time.Second, Closed: 55 * time.Second, Waiting: 9}, Maintenance, "", "nothing was sent, 9 records wait"},
	{"a metered uplink", []kind{{400, with(quick, rate(160*ms))}}, Run{Duration: 100 * time.Second, Stood: time.Minute, Paused: time.Minute, PausedWhy: "the metered uplink lte carried", Delivered: 400}, Paused, "primary", "nothing was sent for 1m0s of 1m40s; the metered uplink lte carried"},
	{"a metered uplink, hardly felt", []kind{{400, with(quick, rate(160*ms))}}, Run{Duration: 200 * time.Second, Stood: time.Minute, Paused: time.Minute, Delivered: 400}, ThrottledByUs, "primary", "besides the standing still"},
	{"metered all the time", nil, Run{Duration: time.Minute, Stood: 55 * time.Second, Paused: 55 * time.Second, PausedWhy: "the metered uplink lte carried", Waiting: 9}, Paused, "", "nothing was sent, 9 records wait; the metered uplink lte carried"},
	{"a breaker that was open before", nil, Run{Duration: time.Minute, Stood: 59 * time.Second, Waiting: 69}, NothingSent, "", "69 records wait; the run stood still for 59s of 1m0s"},
	{"stopped at once", nil, Run{Waiting: 69}, NothingSent, "", "69 records wait"},
	{"a file that is missing", nil, Run{Unread: 1}, InputUnread, "", "1 of the files could not be read to the end; nothing was sent"},
	{"a file that is torn, and a slow link", []kind{{400, answer(600*ms, 12*ms)}}, Run{Duration: time.Minute, Delivered: 400, Unread: 1}, LinkSlow, "primary", ""},
	{"a login that is refused", []kind{{9, with(quick, status(401))}}, Run{Waiting: 9, Stop: Stop{LoginRefused, "not authorised: status 401"}}, LoginRefused, "primary", "status 401"},
	{"a stop goes before what failed", []kind{{9, noDNS}}, Run{Waiting: 9, Stop: Stop{LocalFault, "the disk is full"}}, LocalFault, "primary", "the disk is full"},
	{"all refused alike", []kind{{9, with(quick, status(404))}}, Run{Stop: Stop{RecordsRefused, "every record is refused alike"}}, RecordsRefused, "primary", ""},

	{"a canary to a dead fallback", []kind{{400, quick}, {9, with(noDNS, path("fallback"))}}, Run{Duration: time.Minute, Delivered: 400, First: "primary"}, AllWell, "primary", ""},
	{"the same while records wait", []kind{{400, quick}, {9, with(noDNS, path("fallback"))}}, Run{Duration: time.Minute, Delivered: 399, Waiting: 1, First: "primary"}, LinkDown, "fallback", ""},
	{"a slow fallback that carried a tenth", []kind{{360, quick}, {40, with(answer(600*ms, 9*ms), path("fallback"))}}, Run{Duration: time.Minute, Delivered: 400, First: "primary"}, LinkSlow, "fallback", ""},
	{"a slow fallback that carried nearly nothing", []kind{{390, quick}, {10, with(answer(600*ms, 9*ms), path("fallback"))}}, Run{Duration: time.Minute, Delivered: 400, First: "primary"}, AllWell, "primary", ""},
	{"the first path is never left aside", []kind{{9, noDNS}, {400, with(quick, path("fallback"))}}, Run{Duration: time.Minute, Delivered: 400, First: "primary"}, LinkDown, "primary", ""},

	{"primary down, fallback well", []kind{{9, noDNS}, {400, with(quick, path("fallback"))}}, allDone, LinkDown, "primary", "on primary 9 of 9"},
	{"fallback is a satellite", []kind{{400, quick}, {40, with(answer(600*ms, 9*ms), path("fallback"))}}, allDone, LinkSlow, "fallback", ""},
	{"both slow, the busier is named", []kind{{40, answer(300*ms, 9*ms)}, {400, with(answer(600*ms, 9*ms), path("fallback"))}}, allDone, LinkSlow, "fallback", ""},
	{"both well, the busier is named", []kind{{400, quick}, {40, with(quick, path("fallback"))}}, allDone, AllWell, "primary", ""},
	{"fallback hardly used and slow", []kind{{400, quick}, {3, with(answer(600*ms, 9*ms), path("fallback"))}}, allDone, AllWell, "primary", ""},

	{"tiny and slow", []kind{{3, answer(600*ms, 9*time.Second)}}, Run{Delivered: 3}, AllWell, "primary", "3 answers are too few"},
	{"tiny, delivered in the end", []kind{{3, quick}, {9, noDNS}}, Run{Delivered: 3}, AllWell, "primary", ""},
	{"tiny, not delivered", []kind{{1, quick}, {2, with(quick, status(500))}}, Run{Delivered: 1, Waiting: 1}, ServiceFailing, "primary", ""},
	{"one attempt, timed out", []kind{{1, timeout}}, Run{Waiting: 1}, ServiceSlow, "primary", "1 of 1"},
	{"one attempt, no connection", []kind{{1, noDNS}}, Run{Waiting: 1}, LinkDown, "primary", ""},
	{"five answers are enough", []kind{{5, answer(600*ms, 9*ms)}}, Run{Delivered: 5}, LinkSlow, "primary", ""},
}

// stoodFor is how long a run stood still for the breaker of primary.
var stoodFor = map[string]time.Duration{
	"few 503, and half of the night lost to them": 40 * time.Second,
	"an outage that asks to come back later":      40 * time.Second,
	"half of an outage by Retry-After":            20 * time.Second,
	"an outage, hardly felt":                      20 * time.Second,
	"stood still for a path that never failed":    40 * time.Second,
}

// askedFor is how long it stood still because primary asked it to.
var askedFor = map[string]time.Duration{
	"half of an outage by Retry-After": 20 * time.Second,
	"a ceiling told by 503":            40 * time.Second,
}

func TestJudge(t *testing.T) {
	for _, c := range situations {
		t.Run(c.name, func(t *testing.T) {
			f := collect(c.kinds...)
			if p, ok := f["primary"]; ok {
				p.Down, p.Asked = stoodFor[c.name], askedFor[c.name]
				f["primary"] = p
			}
			v := Judge(f, c.run)
			if v.Word != c.word || v.Path != c.path || !strings.Contains(v.Why, c.why) {
				t.Errorf("%q by %q: %s\nwant %q by %q: …%s…", v.Word, v.Path, v.Why, c.word, c.path, c.why)
			}
			for _, line := range Explain(v, f, []string{"primary", "fallback"}) {
				t.Log(line)
			}
		})
	}
}

func TestEveryWordIsSpoken(t *testing.T) {
	spoken := map[string]bool{}
	for _, c := range situations {
		spoken[c.word] = true
	}
	for _, r := range rules {
		if !spoken[r.word] {
			t.Errorf("no situation for %q", r.word)
		}
	}
}

func TestExplain(t *testing.T) {
	slow := Verdict{LinkSlow, "primary", "on primary the round trip took 231 ms"}
	for _, c := range []struct {
		name string
		f    Figures
		want []string
	}{
		{"nothing sent", Figures{}, []string{"verdict link slow: on primary the round trip took 231 ms"}},
		{"well measured", Figures{
			Attempts: 1000, Answered: 1000, Measured: 1000, Failed: 2, Segments: 4000, Retransmits: 40,
			RTT: Spread{231 * ms, 260 * ms}, Service: Spread{12 * ms, 40 * ms},
		}, []string{"link    rtt 231 ms (p95 260), 1.0 % retransmitted", "service 12 ms (p95 40), 0.2 % failed"}},
		{"all faults", Figures{
			Attempts: 100, Answered: 50, Measured: 50, Segments: 100000, Retransmits: 1, NoDial: 5, Foreign: 5, Refused: 5, Failed: 5, Resets: 5, Timeouts: 5, Throttled: 20,
			RTT: Spread{1500 * ms, 30 * time.Second}, Service: Spread{0, 1500 * ms},
		}, []string{"link    rtt 1.5 s (p95 30.0), <0.1 % retransmitted, 10.0 % did not get through", "service 0.0 ms (p95 1500.0), 15.0 % failed, 5.0 % timed out, 20.0 % throttled"}},
		{"no answer, no measurement", Figures{Attempts: 4, NoDial: 4}, []string{"link    not measured, 100.0 % did not get through", "service did no work, 0.0 % failed"}},
		{"told to come back only", Figures{Attempts: 4, Answered: 4, Throttled: 4}, []string{"link    not measured", "service did no work, 0.0 % failed, 100.0 % throttled"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Explain(slow, map[string]Figures{"primary": c.f}, []string{"primary", "fallback"})
			if len(got) > 3 {
				t.Errorf("%d lines", len(got))
			}
			for i, want := range c.want {
				if got[i] != want {
					t.Errorf("got  %q\nwant %q", got[i], want)
				}
			}
			if last := got[len(got)-1]; !strings.HasPrefix(last, "verdict link slow: ") {
				t.Errorf("ends with %q", last)
			}
		})
	}
}

// Where several paths were used, each has its lines.
func TestExplainNamesPaths(t *testing.T) {
	f := collect(kind{9, noDNS}, kind{400, with(quick, path("fallback"))})
	f["third"] = Figures{}
	got := strings.Join(Explain(Verdict{LinkDown, "primary", "on primary …"}, f, []string{"primary", "fallback", "third"}), "\n")
	want := `link    primary: not measured, 100.0 % did not get through
service primary: did no work, 0.0 % failed
link    fallback: rtt 20 ms (p95 20), 0.0 % retransmitted
service fallback: 12 ms (p95 12), 0.0 % failed
verdict link down: on primary …`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestServiceTime(t *testing.T) {
	for _, c := range []struct {
		name                  string
		duration, rtt, minRTT time.Duration
		hasLink               bool
		wantRTT, wantService  time.Duration
	}{
		{"least unknown", 250 * ms, 231 * ms, 0, true, 231 * ms, 19 * ms},
		{"least not yet known", 250 * ms, 231 * ms, 4294967295 * time.Microsecond, true, 231 * ms, 19 * ms},
		{"acknowledged with the answer", 6 * ms, 6 * ms, 1 * ms, true, 1 * ms, 5 * ms},
		{"acknowledged after 40 ms", 9 * time.Second, 41 * ms, 1 * ms, true, 1 * ms, 8999 * ms},
		{"a queue", 550 * ms, 540 * ms, 20 * ms, true, 500 * ms, 50 * ms},
		{"answer quicker than the smoothed round trip", 90 * ms, 231 * ms, 80 * ms, true, 191 * ms, 0},
		{"no link", 90 * ms, 0, 0, false, 0, 90 * ms},
	} {
		a := Attempt{Path: "p", Status: 200, Duration: c.duration, HasLink: c.hasLink, RTT: c.rtt, MinRTT: c.minRTT}
		f := collect(kind{1, a})["p"]
		if f.RTT.P50 != c.wantRTT || f.Service.P50 != c.wantService {
			t.Errorf("%s: rtt %s, service %s, want %s and %s", c.name, f.RTT.P50, f.Service.P50, c.wantRTT, c.wantService)
		}
	}
}
