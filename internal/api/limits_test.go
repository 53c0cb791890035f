package api

import (
	"net/http"
	"testing"
	"time"
)

func TestLimitHeaders(t *testing.T) {
	all := header("RateLimit", `"d";r=5;t=9`, "RateLimit-Policy", `"d";q=100;w=60`, "ratelimit-reset", "9", "X-RateLimit-Remaining", "5",
		"Retry-After", "1", "Retry-After", "3", "Date", "Sat, 14 Mar 2026 02:00:00 GMT")
	for _, tc := range []struct {
		name       string
		give, want http.Header
	}{
		{"none", header("Content-Type", "text/plain"), nil},
		{"the server's clock", header("Content-Type", "text/plain", "Date", "x", "Age", "3"), header("Date", "x", "Age", "3")},
		{"nothing at all", nil, nil},
		{"all", all, all},
		{"and others", header("Retry-After", "1", "Set-Cookie", "secret", "X-Ratelimiting", "1", "Server", "s"), header("Retry-After", "1")},
		{"no date", header("X-Ratelimit-Limit", "100"), header("X-Ratelimit-Limit", "100")},
	} {
		for _, status := range []int{201, 429, 422, 302} {
			o := Classify(Answer{Status: status, Header: tc.give, BodyComplete: true}, nil, true, time.Now(), Policy{})
			if len(o.Header) != len(tc.want) || (o.Header == nil) != (tc.want == nil) {
				t.Errorf("%s, %d: %v", tc.name, status, o.Header)
			}
			for k := range tc.want {
				if got := o.Header.Values(k); len(got) != len(tc.want.Values(k)) || got[0] != tc.want.Get(k) {
					t.Errorf("%s, %d: %s is %q", tc.name, status, k, got)
				}
			}
		}
	}
	if o := Classify(Answer{Status: 201, Header: all}, http.ErrBodyReadAfterClose, true, time.Now(), Policy{}); o.Header != nil {
		t.Errorf("answer that does not count: %v", o.Header)
	}
}
