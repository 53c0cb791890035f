package api

import (
	"net/http"
	"strings"
)

// limitHeaders copies what an answer says of rate limits, see Outcome.Header.
func limitHeaders(h http.Header) http.Header {
	var out http.Header
	for name, values := range h {
		if name != "Retry-After" && name != "Ratelimit" && !strings.HasPrefix(name, "Ratelimit-") && !strings.HasPrefix(name, "X-Ratelimit-") {
			continue
		}
		if out == nil {
			out = http.Header{}
		}
		out[name] = values
	}
	if out != nil && h["Date"] != nil {
		out["Date"] = h["Date"]
	}
	return out
}
