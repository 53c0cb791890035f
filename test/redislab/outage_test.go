//go:build linux

package redislab

import (
	"encoding/json/v2"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
)

const (
	firstOpen   = 2 * time.Second // open times of TestOutage
	longestOpen = 8 * time.Second
)

// TestOutage holds what an outage of the API costs eight uploads together: the
// failures that open one breaker, and one probe at a time after that. Uploads that
// are killed, start again or are new change nothing about it.
func TestOutage(t *testing.T) {
	program(t)
	lasts := time.Minute
	if testing.Short() {
		lasts /= 2
	}
	f := newFleet(t, redis.Config{URL: redistest.Start(t).URL()},
		fmt.Sprintf("  rate: 10\nbreaker: {store: redis, threshold: %d, open: %s, open_max: %s, jitter: %v}\nretry: {max_attempts: 20}\n", threshold, firstOpen, longestOpen, jitter))
	for range eight {
		f.add(80)
	}
	f.startAll()
	time.Sleep(2 * time.Second)
	began := f.fail(true)
	opened := f.api.since(f.opened().Since)
	var newcomer *upload
	for n, disturb := range []func() *upload{
		func() *upload { f.uploads[2].kill(); return f.uploads[2] },
		func() *upload { f.uploads[5].kill(); return f.uploads[5] },
		func() *upload { newcomer = f.add(80); return newcomer },
	} {
		time.Sleep(began + lasts*time.Duration(n+1)/4 - f.now())
		f.undisturbed(disturb)
	}
	f.shown(newcomer)
	time.Sleep(began + lasts - f.now())
	f.fail(false)
	f.finish()
	f.cost(began, opened)
}

// undisturbed kills an upload or makes a new one, starts it, and holds that the
// shared state stays as it is. It does so while the breaker is open.
func (f *fleet) undisturbed(disturb func() *upload) {
	t := f.t
	t.Helper()
	for range 3 {
		var was breaker.State
		redistest.Wait(t, "the breaker to be open for long", func() bool {
			was = f.breaker()
			return was.Phase == breaker.Open && time.Until(was.OpenUntil) > longestOpen/2
		})
		u := disturb()
		u.start()
		redistest.Wait(t, "it to meet the breaker", func() bool { return u.times("breaker open") > 0 })
		is, left := f.breaker(), time.Until(was.OpenUntil)
		if left < 0 {
			continue // the next probe may have been sent meanwhile
		}
		if is != was {
			t.Errorf("%s started: the state became %+v, was %+v", u.name, is, was)
		}
		t.Logf("%s started, %s before the next probe", u.name, left.Round(time.Millisecond))
		return
	}
	t.Errorf("no upload starts within %s", longestOpen/2)
}

// shown holds that the commands show the breaker as it is.
func (f *fleet) shown(u *upload) {
	t := f.t
	t.Helper()
	for range 3 {
		was := f.opened()
		line, err := f.command("breaker", "status", "--json", "--state-dir", u.state()).Output()
		if err != nil {
			t.Fatal(err)
		}
		text, err := f.command("status", "--state-dir", u.state()).Output()
		if err != nil {
			t.Fatal(err)
		}
		if f.breaker() != was {
			continue
		}
		var got struct {
			Path  string    `json:"path"`
			Phase string    `json:"phase"`
			Until time.Time `json:"until"`
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got.Path != "primary" || got.Phase != "open" || !got.Until.Equal(was.OpenUntil) {
			t.Errorf("breaker status shows %s, the state is %+v", line, was)
		}
		if want := "primary: open until " + was.OpenUntil.Format("2006-01-02T15:04:05Z"); !strings.Contains(string(text), want) {
			t.Errorf("status shows no %q:\n%s", want, text)
		}
		return
	}
	t.Error("the breaker changes all the time")
}

// cost holds the calls of an outage against what they may be.
func (f *fleet) cost(began, opened time.Duration) {
	f.t.Helper()
	all := f.answered()
	all = all[slices.IndexFunc(all, func(c call) bool { return !c.ok }):]
	n := slices.IndexFunc(all, func(c call) bool { return c.at >= opened+leastOpen(0) })
	f.opening(all[:max(n, 0)], began, opened)
	all = all[max(n, 0):]
	if n = slices.IndexFunc(all, func(c call) bool { return c.ok }); n < 0 {
		f.t.Fatal("no call was good after the outage")
	}
	f.probed(all[:n+1], opened)
	f.recovered(all[n], all[n+1:])
}

// opening holds that so many calls opened the breaker as it takes failures. Who had
// leave to send when it opened may still have sent after.
func (f *fleet) opening(calls []call, began, opened time.Duration) {
	f.t.Helper()
	failed, last := 0, opened
	for _, c := range calls {
		if !c.ok {
			failed, last = failed+1, max(last, c.at)
		}
	}
	f.t.Logf("%d calls failed to open the breaker, %.2f s after the outage began; %d came after that, the last one %.3f s", failed, (opened - began).Seconds(),
		len(between(calls, opened, last+1)), (last - opened).Seconds())
	if underWay := eight*concurrency - 1; failed > threshold+underWay {
		f.t.Errorf("%d calls failed, want at most %d failures and %d that were under way", failed, threshold, underWay)
	}
}

// leastOpen is the shortest open time after so many failed probes.
func leastOpen(probes int) time.Duration {
	return time.Duration((1 - jitter) * float64(min(firstOpen<<probes, longestOpen)))
}

// probed holds that each probe came after an open time of its own, counted from the
// answer to the one before, and so that there was one at a time.
func (f *fleet) probed(probes []call, opened time.Duration) {
	f.t.Helper()
	var waits []string
	for n, p := range probes {
		wait := p.at - opened
		waits = append(waits, fmt.Sprintf("%.2f", wait.Seconds()))
		if wait < leastOpen(n) {
			f.t.Errorf("probe %d of %d, by %s, came after %s, want at least %s", n, len(probes), p.from(), wait, leastOpen(n))
			return
		}
		opened = p.end
	}
	f.t.Logf("%d probes, the last one good; seconds before each: %s", len(probes), strings.Join(waits, " "))
	if len(probes) < 4 {
		f.t.Error("too few probes for the time of the outage")
	}
}

// recovered holds that no upload had to find out by itself that the API is back. Who
// does not hear of it waits for the end of an open time, and then probes.
func (f *fleet) recovered(good call, all []call) {
	f.t.Helper()
	first := firsts(all)
	stalled := lost(f.stalls.seen(), good.end, good.end+longestOpen)
	var waits []string
	for _, u := range f.uploads {
		c, known := first[u.name]
		if !known && good.from() == u.name {
			continue // that was its last record
		}
		wait := c.at - good.end
		waits = append(waits, fmt.Sprintf("%.2f", wait.Seconds()))
		if !known || wait > longestOpen/4+stalled {
			f.t.Errorf("%s sent its next call %s after the good probe", u.name, wait)
		}
	}
	f.t.Logf("seconds from the end of the good probe to the first call of each: %s; the machine stood still for %s", strings.Join(waits, " "), stalled)
}
