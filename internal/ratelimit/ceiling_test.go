package ratelimit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

type headers = func(h http.Header, l *rate.Limiter, now time.Time, refused bool)

// draft10 says what draft-10 of the standard has a server say.
func draft10(limit int) headers {
	return func(h http.Header, l *rate.Limiter, now time.Time, _ bool) {
		h.Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=1`, limit))
		h.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=1`, int(max(l.TokensAt(now), 0))))
	}
}

// trio says the same the old way, without the window and with a date.
func trio(h http.Header, l *rate.Limiter, now time.Time, _ bool) {
	h.Set("X-RateLimit-Limit", "100")
	h.Set("X-RateLimit-Remaining", fmt.Sprint(int(max(l.TokensAt(now), 0))))
	h.Set("X-RateLimit-Reset", fmt.Sprint(now.Unix()+1))
	h.Set("Date", now.Format(http.TimeFormat))
}

func TestSteerFindsTheCeiling(t *testing.T) {
	t.Parallel()
	for _, with := range []struct {
		name           string
		headers        headers
		least, refused float64
	}{
		{"no headers", nil, 0.95, 0.01},
		{"RateLimit", draft10(100), 0.97, 0.002},
		{"X-RateLimit", trio, 0.97, 0.002},
	} {
		for _, burst := range []int{1, 10, 100} {
			for _, rtt := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 230 * time.Millisecond} {
				for _, workers := range []int{8, 16, 64} {
					if with.name == "X-RateLimit" && workers < 64 {
						continue // differs from RateLimit only in how it is read
					}
					n := night{
						workers: workers, rtt: rtt, rate: 100, burst: burst, length: 120 * time.Second, headers: with.headers,
					}
					s := n.play()
					first, refused := s.between(0, 60)
					later, refusedLater := s.between(60, 120)
					first, later = first/n.asked(), later/n.asked()
					least, most := with.least, with.refused
					if with.headers == nil && workers == 64 {
						// What is under way when the bucket runs dry cannot be called back.
						least, most = 0.93, 0.016
					}
					t.Logf("%-11s %-27s first minute %.1f %%, refused %.2f %%; later %.1f %%, %.2f %%",
						with.name, n, 100*first, 100*refused, 100*later, 100*refusedLater)
					if first < least || refused > most || later < with.least || refusedLater > with.refused {
						t.Errorf("%s, %s: misses the aim", with.name, n)
					}
				}
			}
		}
	}
}

// from lets the server change its rate at a time.
func from(at time.Duration, perSecond rate.Limit) func(time.Duration, *rate.Limiter, time.Time) {
	return func(elapsed time.Duration, l *rate.Limiter, now time.Time) {
		if elapsed >= at && l.Limit() != perSecond {
			l.SetLimitAt(now, perSecond)
		}
	}
}

func TestSteerFollowsACeilingThatMoves(t *testing.T) {
	t.Parallel()
	for _, burst := range []int{1, 10, 100} {
		for _, rtt := range []time.Duration{5 * time.Millisecond, 230 * time.Millisecond} {
			n := night{workers: 64, rtt: rtt, rate: 100, burst: burst, length: 400 * time.Second}
			n.change = from(100*time.Second, 50)
			got, refused := n.play().between(110, 130)
			t.Logf("%s: down to 50/s: %.1f/s after 10 s, refused %.2f %%", n, got, 100*refused)
			if got < 0.8*50 || refused > 0.03 {
				t.Errorf("%s: down to 50/s: %.1f/s after 10 s, refused %.2f %%", n, got, 100*refused)
			}
			n.change = from(100*time.Second, 200)
			got, refused = n.play().between(340, 400)
			t.Logf("%s: up to 200/s: %.1f/s after 4 min, refused %.2f %%", n, got, 100*refused)
			if got < 0.93*200 || refused > 0.01 {
				t.Errorf("%s: up to 200/s: %.1f/s after 4 min, refused %.2f %%", n, got, 100*refused)
			}
		}
	}
}

func TestSteerAgainstHeadersThatLie(t *testing.T) {
	t.Parallel()
	n := night{workers: 64, rtt: 50 * time.Millisecond, rate: 100, burst: 10, length: 120 * time.Second}
	for _, tt := range []struct {
		name    string
		headers headers
		goodput float64
	}{
		{"ten times too much", draft10(1000), 95},
		{"remaining for ever", func(h http.Header, _ *rate.Limiter, _ time.Time, _ bool) {
			h.Set("RateLimit", `"a";r=999999999;t=300`)
		}, 95},
		{"nothing left for a year", func(h http.Header, _ *rate.Limiter, _ time.Time, _ bool) {
			h.Set("RateLimit", `"a";r=0;t=31536000`)
		}, 95},
		// It is the server's to say so, and no lie that could be found out.
		{"half of it", draft10(50), 48},
	} {
		n.headers = tt.headers
		got, refused := n.play().between(0, 120)
		t.Logf("%s: %.1f/s, refused %.2f %%", tt.name, got, 100*refused)
		if got < tt.goodput || refused > 0.01 {
			t.Errorf("%s: %.1f/s, refused %.2f %%", tt.name, got, 100*refused)
		}
	}
}

// A window of a minute, of which a part is used up before the night begins.
func TestSteerSpreadsWhatRemains(t *testing.T) {
	t.Parallel()
	const quota, window = 6000, 60
	left, current := 3000, 0
	n := night{workers: 64, rtt: 50 * time.Millisecond, rate: 1e9, burst: 1, length: 240 * time.Second}
	n.change = func(elapsed time.Duration, l *rate.Limiter, now time.Time) {
		if w := int(elapsed.Seconds()+20) / window; w > current {
			left, current = quota, w
		}
		l.SetBurstAt(now, min(left, 1)) // a bucket that is as good as never empty, or closed
		left = max(left-1, 0)
	}
	n.headers = func(h http.Header, _ *rate.Limiter, now time.Time, _ bool) {
		into := math.Mod(now.Sub(t0).Seconds()+20, window)
		h.Set("RateLimit-Policy", `"minute";q=6000;w=60`)
		h.Set("RateLimit", fmt.Sprintf(`"minute";r=%d;t=%d`, left, int(math.Ceil(window-into))))
	}
	s := n.play()
	cut, refusedCut := s.between(0, 40)
	full, refused := s.between(40, 220)
	t.Logf("cut window: %.1f/s of 75, refused %.2f %%; full ones: %.1f/s of 100, refused %.2f %%", cut, 100*refusedCut, full, 100*refused)
	if cut < 0.97*75 || full < 0.97*100 || max(refused, refusedCut) > 0.002 {
		t.Error("misses the aim")
	}
}

func TestSteerOnALinkThatJitters(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, burst := range []int{10, 100} {
		n := night{
			workers: 64, rtt: 50 * time.Millisecond, rate: 100, burst: burst, length: 150 * time.Second,
			jitter: func(int) time.Duration { return time.Duration(r.Int64N(int64(20 * time.Millisecond))) },
		}
		got, refused := n.play().between(0, 150)
		t.Logf("burst %d: %.1f/s, refused %.2f %%", burst, got, 100*refused)
		if got < 95 || refused > 0.01 {
			t.Errorf("burst %d: %.1f/s, refused %.2f %%", burst, got, 100*refused)
		}
	}
}
