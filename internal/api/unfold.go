package api

import (
	"bytes"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// unfolded returns a with its body as it was before it was compressed (RFC 9110
// §8.4), at most 64 KiB of it: some servers compress although they are asked not
// to, and have taken the record nevertheless. unread names the coding of a body
// that cannot be read; that body is left out.
func (a Answer) unfolded() (_ Answer, unread string) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(a.Header.Values("Content-Encoding"), ", ")))
	if coding == "" || coding == "identity" || len(a.Body) == 0 {
		return a, ""
	}
	packed, complete := a.Body, a.BodyComplete
	a.Body, a.BodyComplete = nil, false
	if coding != "gzip" && coding != "x-gzip" {
		return a, clip(coding, maxExcerpt)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return a, "damaged gzip"
	}
	body, whole, err := readBody(nil, z)
	if err != nil && complete {
		return a, "damaged gzip"
	}
	a.Body, a.BodyComplete = body, whole && complete
	return a, ""
}
