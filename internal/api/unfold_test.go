package api

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"
	"time"
)

func gzipped(t testing.TB, text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnfolded(t *testing.T) {
	whole, long := gzipped(t, `{"id":"r"}`), gzipped(t, `{"id":"r","x":"`+strings.Repeat("x", 1<<20)+`"}`)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-5] ^= 1 // in its checksum
	for _, tc := range []struct {
		name, coding string
		status       int
		body         []byte
		complete     bool
		class        Class
		receipt      string
		says         string
	}{
		{"gzip", "gzip", 200, whole, true, Acked, "r", ""},
		{"x-gzip, in capitals", " X-GZIP", 201, whole, true, Acked, "r", ""},
		{"identity", "identity", 200, []byte(`{"id":"r"}`), true, Acked, "r", ""},
		{"unfolds beyond the limit", "gzip", 200, long, true, Acked, "r", ""},
		{"its beginning only", "gzip", 200, long[:len(long)/2], false, Acked, "r", ""},
		{"nothing", "gzip", 204, nil, true, Acked, "", ""},
		{"damaged", "gzip", 200, damaged, true, Retry, "", "answer is coded as damaged gzip"},
		{"no gzip at all", "gzip", 200, []byte(`{"id":"r"}`), true, Retry, "", "damaged gzip"},
		{"an error inside", "gzip", 200, gzipped(t, `{"error":"database down"}`), true, Retry, "", "database down"},
		{"a refusal", "gzip", 422, gzipped(t, `{"title":"bad house number"}`), true, Rejected, "", "bad house number"},
		{"in progress", "gzip", 409, gzipped(t, `{"code":"in_progress"}`), true, Retry, "", "in_progress"},
		{"brotli", "br", 200, []byte("\x0b\x02\x80{}\x03"), true, Retry, "", "answer is coded as br, which was not asked for"},
		{"two codings", "gzip, br", 422, whole, true, Rejected, "", "coded as gzip, br"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := Answer{Status: tc.status, Header: header("Content-Type", "application/json", "Content-Encoding", tc.coding), Body: tc.body, BodyComplete: tc.complete}
			o := Classify(a, nil, true, time.Now(), Policy{})
			if o.Class != tc.class || o.Receipt != tc.receipt || !strings.Contains(o.Problem, tc.says) {
				t.Errorf("%+v", o)
			}
			if tc.status == 200 && o.Class == Retry && !errors.Is(o.Err, ErrNotAPI) {
				t.Errorf("%v", o.Err)
			}
		})
	}
}

func FuzzUnfolded(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add(gzipped(f, `{"id":"r"}`), true)
	f.Add(gzipped(f, strings.Repeat("x", 1<<20)), false)
	f.Fuzz(func(t *testing.T, body []byte, complete bool) {
		in := Answer{Status: 200, Header: header("Content-Encoding", "gzip"), Body: body, BodyComplete: complete}
		a, unread := in.unfolded()
		if len(a.Body) > maxAnswer || a.BodyComplete && (!complete || unread != "") {
			t.Errorf("%d bytes, complete %v, %q", len(a.Body), a.BodyComplete, unread)
		}
		holds(t, in, Classify(in, nil, true, time.Now(), Policy{}))
	})
}
