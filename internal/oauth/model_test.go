package oauth

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/secret"
)

// TestGenerations plays random calls against a fetch with random outcomes and
// checks what the source promises: generations count values, a refused token is
// not seen again, requests keep their distance, a valid token is never waited for.
func TestGenerations(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) { generations(rt) })
	})
}

func generations(t *rapid.T) {
	const minInterval = 10 * time.Second
	down := false
	serial, fetches := 0, 0
	var last time.Time
	var refusing bool // the call under way is a refusal, or a token is refused
	life := rapid.SampledFrom([]time.Duration{0, time.Second, 15 * time.Second, 2 * time.Minute})
	next := life.Draw(t, "lifetime")
	r := &refresher{timeout: time.Minute, minInterval: minInterval, ahead: 0.2}
	r.fetch = func(_ context.Context, old secret.Secret) (grant, error) {
		if since := time.Since(last); fetches > 0 && since < minInterval && !refusing {
			t.Fatalf("fetched again after %s", since)
		}
		fetches++
		last = time.Now()
		time.Sleep(patience / 2)
		if down {
			return grant{}, unavailable("down")
		}
		serial++
		return grant{value: secret.New(string(rune('a' + serial))), lifetime: next, left: next}, nil
	}
	ctx := context.Background()
	values := map[uint64]string{}
	refused := map[uint64]bool{}
	var seen uint64
	look := func(tok Token, err error) {
		if err != nil {
			if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrSame) {
				t.Fatal(err)
			}
			return
		}
		if tok.Generation < seen || refused[tok.Generation] {
			t.Fatalf("generation %d after %d, refused: %v", tok.Generation, seen, refused[tok.Generation])
		}
		if v, ok := values[tok.Generation]; ok && v != tok.Value.Reveal() {
			t.Fatalf("generation %d has two values", tok.Generation)
		}
		seen, refusing = tok.Generation, false
		values[seen] = tok.Value.Reveal()
	}
	t.Repeat(map[string]func(*rapid.T){
		"token": func(*rapid.T) {
			r.mu.Lock()
			valid := r.token.Generation > 0 && !r.refused && !r.expired(time.Now())
			r.mu.Unlock()
			start := time.Now()
			look(r.Token(ctx))
			if valid && time.Since(start) > 0 {
				t.Fatal("a valid token was waited for")
			}
		},
		"refuse": func(*rapid.T) {
			before := fetches
			refusing = true
			tok, err := r.Refuse(ctx, seen, "primary")
			if !errors.Is(err, ErrSame) && seen > 0 {
				refused[seen] = true
			}
			if errors.Is(err, ErrSame) {
				refusing = false
			}
			look(tok, err)
			if fetches > before+1 {
				t.Fatalf("%d fetches for one refusal", fetches-before)
			}
		},
		"refuse late": func(t *rapid.T) {
			if seen > 1 {
				look(r.Refuse(ctx, rapid.Uint64Range(1, seen-1).Draw(t, "generation"), "primary"))
			}
		},
		"wait":   func(t *rapid.T) { time.Sleep(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "wait"))) },
		"outage": func(*rapid.T) { down = !down },
		"life":   func(t *rapid.T) { next = life.Draw(t, "lifetime") },
		"":       func(*rapid.T) { synctest.Wait() },
	})
	time.Sleep(time.Minute) // a fetch under way ends
}
