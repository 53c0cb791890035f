package oauth

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Who gives up on an endpoint that hangs says which one it is, and who asks later
// is told at once that it failed, although it is asked again meanwhile.
func TestEndpointHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{slow: time.Minute}
		s := source(t, serve(t, e))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := s.Token(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "token endpoint 127.0.0.1 has not answered for 5s") {
			t.Error(err)
		}
		for range 60 {
			start := time.Now()
			_, err := s.Token(t.Context())
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1: has not answered for 10s") {
				t.Fatal(err)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			time.Sleep(time.Second)
		}
		if n := e.count(); n < 3 || n > 7 { // one in 20 s at least, in 65 s or more
			t.Errorf("%d requests", n)
		}
		e.mu.Lock()
		e.slow = 2 * time.Second // longer than anybody waits
		e.mu.Unlock()
		for range 30 {
			if tok, err := s.Token(t.Context()); err == nil {
				if tok.Generation != 1 {
					t.Error(tok.Generation)
				}
				time.Sleep(time.Minute) // for what hung
				return
			}
			time.Sleep(time.Second)
		}
		t.Error("it is not taken when it comes")
	})
}
