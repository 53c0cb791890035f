package api

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"trafficup/internal/breaker"
)

func header(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(kv); i += 2 {
		h.Add(kv[i], kv[i+1])
	}
	return h
}

func TestClassifyAnswers(t *testing.T) {
	const ok, fail, neutral = breaker.OK, breaker.Fail, breaker.Neutral
	js, pj, html := "application/json; charset=utf-8", "application/problem+json", "text/html"
	for _, tc := range []struct {
		name    string
		status  int
		typ     string
		body    string
		class   Class
		verdict breaker.Verdict
		receipt string
	}{
		{"json", 201, js, `{"id":"r-1"}`, Acked, ok, "r-1"},
		{"number id", 200, js, `{"id":17}`, Acked, ok, "17"},
		{"receipt_id", 200, js, `{"receipt_id":"r2"}`, Acked, ok, "r2"},
		{"receipt", 200, js, `{"id":null,"receipt":"r3"}`, Acked, ok, "r3"},
		{"bom", 200, js, "\xef\xbb\xbf{\"id\":\"r\"}", Acked, ok, "r"},
		{"empty", 204, "", "", Acked, ok, ""},
		{"empty html", 200, html, "", Acked, ok, ""},
		{"blank json", 200, js, "\n", Acked, ok, ""},
		{"array", 200, js, "[]", Acked, ok, ""},
		{"no type json", 200, "", "{}", Acked, ok, ""},
		{"no type text", 200, "", "hello", Retry, fail, ""},
		{"vendor json", 200, "application/vnd.api+json", "{}", Acked, ok, ""},
		{"captive portal", 200, html, "<html>log in</html>", Retry, fail, ""},
		{"html called json", 200, js, "<html>", Retry, fail, ""},
		{"cut json", 200, js, `{"id":"r"`, Retry, fail, ""},
		{"trailing", 200, js, `{} x`, Retry, fail, ""},
		{"text", 200, "text/plain", "ok", Retry, fail, ""},
		{"error in 200", 200, js, `{"error":"database down"}`, Retry, fail, ""},
		{"error object", 200, js, `{"error":{"code":"x"}}`, Retry, fail, ""},
		{"error and receipt", 200, js, `{"error":"warned","id":"r"}`, Acked, ok, "r"},
		{"null error", 200, js, `{"error":null}`, Acked, ok, ""},
		{"false error", 200, js, `{"error":false}`, Acked, ok, ""},
		{"multi status", 207, js, `{"id":"m"}`, Retry, fail, ""},
		{"multi status with inner refusal", 207, js, `{"results":[{"status":200},{"status":429}]}`, Retry, fail, ""},
		{"errors in 200", 200, js, `{"errors":[{"code":"x"}]}`, Retry, fail, ""},
		{"problem in 200", 200, pj, `{"type":"about:blank","title":"Service Unavailable","status":503}`, Retry, fail, ""},
		{"problem with a receipt in 200", 200, "Application/Problem+JSON; charset=utf-8", `{"id":"r"}`, Retry, fail, ""},
		{"empty problem in 200", 200, pj, "", Retry, fail, ""},
		{"status of a failure in 200", 200, js, `{"status":503,"id":"e-17"}`, Retry, fail, ""},
		{"status of a failure, as 5e2", 200, js, `{"status":5e2}`, Retry, fail, ""},
		{"status of a success in 200", 200, js, `{"status":201,"id":"r"}`, Acked, ok, "r"},
		{"status in words in 200", 200, js, `{"status":"accepted"}`, Acked, ok, ""},
		{"no success in 200", 200, js, `{"success":false,"message":"database down"}`, Retry, fail, ""},
		{"not ok in 200", 201, js, `{"ok":false}`, Retry, fail, ""},
		{"no success, but a receipt", 200, js, `{"success":false,"id":"r"}`, Acked, ok, "r"},
		{"success in 200", 200, js, `{"success":true,"ok":true}`, Acked, ok, ""},
		{"an inner status in 200", 200, js, `{"station":{"status":500,"ok":false}}`, Acked, ok, ""},
		{"no errors in 200", 200, js, `{"errors":[],"id":"r"}`, Acked, ok, "r"},
		{"forbidden by a page", 403, html, `<html>log in</html>`, Retry, fail, ""},
		{"forbidden by the API", 403, pj, `{"title":"forbidden"}`, Rejected, ok, ""},
		{"too large, by a page", 413, html, `<html>too large</html>`, Rejected, ok, ""},
		{"multi error", 207, js, `{"error":"one failed"}`, Retry, fail, ""},
		{"unauthorised", 401, js, "{}", AuthFailed, neutral, ""},
		{"proxy login", 407, html, "", ConfigFault, neutral, ""},
		{"network login", 511, html, "<html>", Retry, fail, ""},
		{"in progress type", 409, pj, `{"type":"https://x.example/idempotency-in-progress"}`, Retry, ok, ""},
		{"in progress title", 409, pj, `{"title":"A request is outstanding for this Idempotency-Key"}`, Retry, ok, ""},
		{"in progress code", 409, js, `{"error":{"code":"idempotency_key_in_use"}}`, Retry, ok, ""},
		{"conflict", 409, pj, `{"type":"https://x.example/already-aired"}`, Rejected, ok, ""},
		{"bare conflict", 409, "", "", Rejected, ok, ""},
		{"invalid", 422, pj, `{"title":"bad house number"}`, Rejected, ok, ""},
		{"plain on tls port", 400, "text/plain", "Client sent an HTTP request to an HTTPS server.\n", ConfigFault, neutral, ""},
		{"upgrade", 101, "", "", Retry, fail, ""},
		{"status 999", 999, "", "", Retry, fail, ""},
		{"status 0xx", 42, "", "", Retry, fail, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := header()
			if tc.typ != "" {
				h.Set("Content-Type", tc.typ)
			}
			o := Classify(Answer{Status: tc.status, Header: h, Body: []byte(tc.body), BodyComplete: true}, nil, true, time.Now(), Policy{})
			if o.Class != tc.class || o.Breaker != tc.verdict || o.Receipt != tc.receipt || o.Status != tc.status || !o.Wrote {
				t.Errorf("%d %q: got %v, verdict %v, receipt %q, problem %q", tc.status, tc.body, o.Class, o.Breaker, o.Receipt, o.Problem)
			}
		})
	}
	down := Answer{Status: 200, Header: header("Content-Type", js), Body: []byte(`{"success":false,"message":"database down"}`), BodyComplete: true}
	if o := Classify(down, nil, true, time.Now(), Policy{}); !errors.Is(o.Err, ErrNotAPI) || o.Problem != "database down" {
		t.Errorf("%v, %q", o.Err, o.Problem)
	}
	for _, s := range []int{408, 421, 425, 429, 500, 501, 502, 503, 504, 505, 507, 520, 599} {
		if o := Classify(Answer{Status: s, BodyComplete: true}, nil, true, time.Now(), Policy{}); o.Class != Retry || o.Breaker != fail {
			t.Errorf("%d: %v %v", s, o.Class, o.Breaker)
		}
	}
	for _, s := range []int{400, 402, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422, 423, 451, 499} {
		if o := Classify(Answer{Status: s, BodyComplete: true}, nil, true, time.Now(), Policy{}); o.Class != Rejected || o.Breaker != ok {
			t.Errorf("%d: %v %v", s, o.Class, o.Breaker)
		}
	}
}

func TestClassifyDetails(t *testing.T) {
	now := time.Now()
	one := func(a Answer, p Policy) Outcome {
		a.BodyComplete = true
		return Classify(a, nil, true, now, p)
	}
	for s := 300; s < 309; s++ {
		o := one(Answer{Status: s, Header: header("Location", "https://user:pw@login.example/x?token=secret")}, Policy{})
		if o.Class != ConfigFault || o.Breaker != breaker.Neutral || !strings.Contains(o.Problem, "login.example") || strings.Contains(o.Problem, "secret") || strings.Contains(o.Problem, "pw") {
			t.Errorf("%d: %+v", s, o)
		}
	}
	if o := one(Answer{Status: 429, Header: header("Retry-After", "3")}, Policy{}); !o.Throttled || !o.HasRetryAfter || o.RetryAfter != 3*time.Second {
		t.Errorf("429: %+v", o)
	}
	if o := one(Answer{Status: 429, Header: header("Retry-After", "3", "Retry-After", "7")}, Policy{}); o.RetryAfter != 7*time.Second {
		t.Errorf("two Retry-After: %+v", o)
	}
	if o := one(Answer{Status: 503}, Policy{}); o.Throttled {
		t.Error("503 without Retry-After is no throttle")
	}
	if o := one(Answer{Status: 503, Header: header("Retry-After", "1")}, Policy{}); !o.Throttled {
		t.Error("503 with Retry-After is a throttle")
	}
	if o := one(Answer{Status: 423}, Policy{RetryStatus: []int{423}}); o.Class != Retry || o.Breaker != breaker.Neutral {
		t.Errorf("configured retry: %+v", o)
	}
	text := Answer{Status: 200, Header: header("Content-Type", "text/plain"), Body: []byte("ok")}
	if o := one(text, Policy{AcceptTypes: []string{"Text/Plain"}}); o.Class != Acked {
		t.Errorf("accepted type: %+v", o)
	}
	if o := one(Answer{Status: 201, Header: header("Location", "/logs/9")}, Policy{}); o.Receipt != "/logs/9" {
		t.Errorf("location: %+v", o)
	}
	long := Answer{Status: 200, Header: header("Content-Type", "application/json"), Body: []byte(`{"id":"r","echo":"` + strings.Repeat("x", 100))}
	if o := Classify(long, nil, true, now, Policy{}); o.Class != Acked || o.Receipt != "r" {
		t.Errorf("json longer than is read: %+v", o)
	}
	evil := Answer{Status: 422, Body: []byte("{\"title\":\"a\\u001b[2J\\u202eb\\nc\",\"detail\":\"" + strings.Repeat("\xff", 5000) + "\"}")}
	if o := one(evil, Policy{}); !strings.HasPrefix(o.Problem, `a\x1b[2J\u202eb\nc: `) || len(o.Problem) > maxProblem {
		t.Errorf("problem: %q", o.Problem)
	}
}

func TestClassifyErrors(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		err     error
		class   Class
		verdict breaker.Verdict
	}{
		{io.EOF, Retry, breaker.Fail},
		{syscall.ECONNRESET, Retry, breaker.Fail},
		{&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, Retry, breaker.Fail},
		{ErrTimeout, Retry, breaker.Fail},
		{context.DeadlineExceeded, Retry, breaker.Fail},
		{context.Canceled, Retry, breaker.Neutral},
		{ErrCancelled, Retry, breaker.Neutral},
		{ErrClosed, Retry, breaker.Neutral},
		{ErrKey, Rejected, breaker.Neutral},
		{ErrHeader, ConfigFault, breaker.Neutral},
		{x509.UnknownAuthorityError{}, ConfigFault, breaker.Neutral},
	} {
		for _, wrote := range []bool{false, true} {
			o := Classify(Answer{}, tc.err, wrote, now, Policy{})
			if o.Class != tc.class || o.Breaker != tc.verdict || o.Wrote != wrote || !errors.Is(o.Err, tc.err) && o.Err != tc.err {
				t.Errorf("%v: %+v", tc.err, o)
			}
		}
	}
	alert := func(text string) error { return &net.OpError{Op: "remote error", Err: errors.New(text)} }
	for _, tc := range []struct{ err, is error }{
		{alert("tls: certificate required"), ErrCertificate},
		{alert("tls: unknown certificate authority"), ErrCertificate},
		{alert("tls: protocol version not supported"), ErrTLSVersion},
		{errors.New("tls: server selected unsupported protocol version 301"), ErrTLSVersion},
		{alert("tls: handshake failure"), nil},
	} {
		o := Classify(Answer{}, tc.err, false, now, Policy{})
		if (o.Class == ConfigFault) != (tc.is != nil) || tc.is != nil && (!errors.Is(o.Err, tc.is) || !strings.Contains(o.Problem, tc.is.Error())) {
			t.Errorf("%v: %+v", tc.err, o)
		}
	}
	page := Answer{Status: 200, Header: header("Content-Type", "text/html"), Body: []byte("<ht")}
	if o := Classify(page, fmt.Errorf("%w: slow", ErrTimeout), true, now, Policy{}); o.Class != Retry || o.Status != 200 || !errors.Is(o.Err, ErrNotAPI) {
		t.Errorf("a page that never ends is a page: %+v", o)
	}
	page.Header = header("Content-Type", "application/json")
	if o := Classify(page, fmt.Errorf("%w: slow", ErrTimeout), true, now, Policy{}); o.Class != Retry || o.Status != 0 || !errors.Is(o.Err, ErrTimeout) {
		t.Errorf("an answer that never ends is none: %+v", o)
	}
	if o := Classify(Answer{Status: 201}, io.ErrUnexpectedEOF, true, now, Policy{}); o.Class != Retry || o.Status != 0 || !o.Wrote {
		t.Errorf("a 201 that was cut off must stay unknown: %+v", o)
	}
	if o := Classify(Answer{Status: 413}, io.ErrUnexpectedEOF, true, now, Policy{}); o.Class != Rejected || o.Status != 413 {
		t.Errorf("a 413 that was cut off is still a refusal: %+v", o)
	}
}

// What differs from one failure to the next is not in their words.
func TestReasonsAreCounted(t *testing.T) {
	for text, want := range map[string]string{
		"stream error: stream ID 17; INTERNAL_ERROR; received from peer":                                    "stream error: INTERNAL_ERROR; received from peer",
		"http2: server sent GOAWAY and closed the connection; LastStreamID=7, ErrCode=NO_ERROR, debug=\"\"": "http2: server sent GOAWAY and closed the connection; ErrCode=NO_ERROR, debug=\"\"",
		"lookup api.test on 192.0.2.1:53: read udp 192.0.2.9:40953->192.0.2.1:53: i/o timeout":              "lookup api.test on 192.0.2.1:53: read udp 192.0.2.9->192.0.2.1:53: i/o timeout",
		"read tcp [::1]:4321->[::1]:443: connection reset by peer":                                          "read tcp [::1]->[::1]:443: connection reset by peer",
		"dial tcp 192.0.2.1:443: connect: connection refused":                                               "dial tcp 192.0.2.1:443: connect: connection refused",
	} {
		inner := errors.New(text)
		if o := Classify(Answer{}, inner, true, time.Now(), Policy{}); o.Problem != want || o.Err.Error() != want || !errors.Is(o.Err, inner) {
			t.Errorf("%q, %v", o.Problem, o.Err)
		}
	}
}

// holds checks what is true of every outcome.
func holds(t interface{ Fatalf(string, ...any) }, a Answer, o Outcome) {
	switch {
	case o.Class == Unknown:
		t.Fatalf("no class for %d", a.Status)
	case o.Class == Acked && a.Status/100 != 2:
		t.Fatalf("status %d acked", a.Status)
	case o.Class == Rejected && a.Status/100 != 4:
		t.Fatalf("status %d rejected", a.Status)
	case len(o.Problem) > maxProblem || len(o.Receipt) > maxReceipt:
		t.Fatalf("problem of %d bytes, receipt of %d", len(o.Problem), len(o.Receipt))
	case o.RetryAfter < 0:
		t.Fatalf("negative wait %v", o.RetryAfter)
	}
	for _, s := range []string{o.Problem, o.Receipt} {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("not printable: %q", s)
		}
	}
}

func TestClassifyProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Answer{
			Status:       rapid.IntRange(0, 999).Draw(t, "status"),
			Header:       header("Content-Type", rapid.SampledFrom([]string{"", "application/json", "text/html", "a/b;;"}).Draw(t, "type"), "Retry-After", rapid.String().Draw(t, "after"), "Location", rapid.String().Draw(t, "loc")),
			Body:         rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
			BodyComplete: rapid.Bool().Draw(t, "complete"),
		}
		holds(t, a, Classify(a, nil, true, time.Now(), Policy{}))
	})
}

func TestClip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		limit := rapid.IntRange(3, 40).Draw(t, "limit")
		if got := clip(s, limit); len(got) > limit || !utf8.ValidString(got) {
			t.Fatalf("clip(%q, %d) = %q", s, limit, got)
		}
	})
	if got := clip("plain", 5); got != "plain" {
		t.Errorf("a text that fits was changed to %q", got)
	}
}

// FuzzAnswer feeds raw bytes through the same reading as a connection's.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"id\":\"a\"}",
		"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"HTTP/1.0 409 Conflict\r\nContent-Type: application/problem+json\r\n\r\n{\"type\":\"in-progress\"}",
		"HTTP/1.1 429 \r\nRetry-After: 9223372037\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: //a%zz\r\n\r\n", "HTTP/1.1 \r\n", "", "\x16\x03\x01",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		cn := &conn{lim: &limiter{r: strings.NewReader(string(raw))}}
		cn.br = bufio.NewReader(cn.lim)
		a, err := cn.readAnswer()
		holds(t, a, Classify(a, err, true, time.Now(), Policy{}))
	})
}
