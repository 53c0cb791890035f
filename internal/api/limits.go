package api

import (
	"net/http"
	"slices"
	"strings"
)

// kept are headers of an answer that Outcome.Header holds, beside those of rate limits.
var kept = []string{"Retry-After", "Ratelimit", "Date", "Age"}

// limitHeaders copies what an answer says of rate limits and of the server's
// clock, see Outcome.Header.
func limitHeaders(h http.Header) http.Header {
	var out http.Header
	for name, values := range h {
		if !slices.Contains(kept, name) && !strings.HasPrefix(name, "Ratelimit-") && !strings.HasPrefix(name, "X-Ratelimit-") {
			continue
		}
		if out == nil {
			out = http.Header{}
		}
		out[name] = values
	}
	return out
}
