package clockskew

import (
	"testing"
	"time"
)

func TestTwoSources(t *testing.T) {
	for name, c := range map[string]struct {
		api, redis interval
		want       Judgement
		skew       bool
	}{
		"both right":           {interval{-s, s}, interval{0, 2 * ms}, Judgement{Offset: ms, Within: ms}, false},
		"both off":             {interval{4 * s, 6 * s}, interval{5 * s, 5*s + 2*ms}, Judgement{Offset: 5*s + ms, Within: ms}, true},
		"a little apart":       {interval{4 * s, 5 * s}, interval{2 * s, 2 * s}, Judgement{Offset: 3500 * ms, Within: 1500 * ms}, false},
		"that and both off":    {interval{6 * s, 7 * s}, interval{5 * s, 5 * s}, Judgement{Offset: 6 * s, Within: s}, true},
		"apart":                {interval{4 * s, 5 * s}, interval{0, 0}, Judgement{Offset: 4500 * ms, Within: 500 * ms, Apart: true}, false},
		"apart, ours between":  {interval{-3 * s, -2 * s}, interval{s, s}, Judgement{Offset: -2500 * ms, Within: 500 * ms, Apart: true}, false},
		"apart, both behind":   {interval{time.Hour, time.Hour}, interval{time.Minute, time.Minute}, Judgement{Offset: time.Hour, Apart: true}, false},
		"two seconds, no more": {interval{2 * s, 3 * s}, interval{0, 0}, Judgement{Offset: 1500 * ms, Within: 1500 * ms}, false},
	} {
		var st state
		st.api.add(c.api, 0)
		st.redis.add(c.redis, 0)
		text := st.settle(0)
		got := st.judge()
		if len(got.Sources) != 2 || got.Sources[0].Name != "API" || got.Sources[1].Name != "Redis" || !got.Known {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Offset != c.want.Offset || got.Within != c.want.Within || got.Apart != c.want.Apart || got.Skew() != c.skew || (st.used != 0) != c.skew {
			t.Errorf("%s: %+v, used %s", name, got, st.used)
		}
		if (text != "") != (c.skew || c.want.Apart) {
			t.Errorf("%s: told %q", name, text)
		}
	}
}

// What is corrected no more once the clocks disagree is told.
func TestApartLater(t *testing.T) {
	c := newScene()
	c.api(time.Hour, 10*ms, 2*quiet)
	c.hears(t, "behind")
	c.e.Redis(0, ms, c.now)
	c.hears(t, "the same as that of Redis: one is wrong")
	c.corrects(t, 0, 0)
}

func TestWords(t *testing.T) {
	hour := Source{"API", time.Hour, 500 * ms}
	for want, c := range map[string]struct {
		j    Judgement
		used time.Duration
	}{
		"this machine's clock is 2.5s ahead of that of the API and Redis, give or take 10ms: maintenance windows go by the corrected time; set it, and keep it right with chrony or systemd-timesyncd (timedatectl set-ntp true)": {
			Judgement{Offset: -2510 * ms, Within: 10 * ms, Known: true, Sources: []Source{hour, {Name: "Redis"}}}, -2510 * ms},
		"this machine's clock is 1h0m0s behind that of the API and the same as that of Redis: one is wrong, and maintenance windows go by this machine's; set it, and keep all right with chrony or systemd-timesyncd": {
			Judgement{Apart: true, Known: true, Sources: []Source{hour, {Name: "Redis"}}}, 0},
		"this machine's clock agrees with that of Redis again: maintenance windows go by it": {
			Judgement{Known: true, Sources: []Source{{Name: "Redis"}}}, 0},
	} {
		if got := c.j.text(c.used); got != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
}
