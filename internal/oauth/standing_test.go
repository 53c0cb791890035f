package oauth

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// step is something that befalls a token on a path: a record it took, an answer
// that says nothing of it, a refusal; or time that goes by.
type step struct {
	path string
	what string        // took, passed, refused or waits
	wait time.Duration // of waits
	want error         // of refused; nil: another token
}

// TestWhoseFaultARefusalIs plays refusals of the newest token.
func TestWhoseFaultARefusalIs(t *testing.T) {
	for name, c := range map[string]struct {
		steps []step
		asked int
	}{
		"one takes, one never does": {[]step{
			{"a", "took", 0, nil}, {"b", "refused", 0, ErrPath}, {"a", "took", 0, nil}, {"b", "refused", 0, ErrPath}, {"b", "refused", 0, ErrPath},
		}, 1},
		"the other answers before it takes": {[]step{
			{"b", "refused", 0, nil}, {"a", "took", 0, nil}, {"b", "refused", 0, ErrPath},
		}, 2},
		"one breaks in mid-run": {[]step{
			{"a", "took", 0, nil}, {"b", "took", 0, nil}, {"b", "refused", 0, nil}, {"b", "refused", 0, ErrPath}, {"a", "took", 0, nil}, {"b", "refused", 0, ErrPath},
		}, 2},
		"revoked": {[]step{
			{"a", "took", 0, nil}, {"b", "took", 0, nil}, {"b", "refused", 0, nil}, {"b", "took", 0, nil}, {"a", "took", 0, nil},
		}, 2},
		"revoked while one was not used": {[]step{
			{"a", "took", 0, nil}, {"b", "refused", 0, ErrPath}, {"a", "refused", 0, nil}, {"b", "took", 0, nil},
		}, 2},
		"every token is refused from now on": {[]step{
			{"a", "took", 0, nil}, {"b", "took", 0, nil}, {"b", "refused", 0, nil}, {"b", "refused", 0, ErrPath}, {"a", "refused", 0, ErrSame},
		}, 2},
		"the other was used long ago": {[]step{
			{"a", "took", 0, nil}, {"", "waits", time.Minute, nil}, {"b", "refused", 0, nil}, {"b", "took", 0, nil},
		}, 2},
		"an error of the other is no witness": {[]step{
			{"a", "passed", 0, nil}, {"b", "refused", 0, nil}, {"a", "passed", 0, nil}, {"b", "refused", 0, ErrSame},
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{expires: "3600"}
				s := source(t, serve(t, e))
				tok := get(t, s)
				for n, st := range c.steps {
					switch st.what {
					case "waits":
						time.Sleep(st.wait)
					case "took", "passed":
						s.Accept(tok.Generation, st.path, st.what == "took")
					case "refused":
						next, err := s.Refuse(t.Context(), tok.Generation, st.path)
						if !errors.Is(err, st.want) || err == nil && next.Generation != tok.Generation+1 {
							t.Fatalf("step %d: %d, %v", n, next.Generation, err)
						}
						if err == nil {
							tok = next
						}
					}
				}
				if n := e.count(); n != c.asked {
					t.Errorf("asked for %d tokens, want %d", n, c.asked)
				}
			})
		})
	}
}
