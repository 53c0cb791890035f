package api

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/retry"
)

// Classify says what an answer, or its absence, means. It is pure. wrote tells
// whether any byte of the request left this side. err and a may both be set: an
// answer whose body was cut off still rejects or defers by its status, but never
// acks. One that took too long and is no API's is called by that.
func Classify(a Answer, err error, wrote bool, now time.Time, p Policy) Outcome {
	a, unread := a.unfolded()
	if err != nil && (a.Status == 0 || a.Status/100 == 2) && !(isForeign(a, p) && errors.Is(err, ErrTimeout)) {
		if a.Status != 0 {
			err = fmt.Errorf("answer %d cut off: %w", a.Status, err)
		}
		return classifyError(err, wrote, now, p)
	}
	o := Outcome{Status: a.Status, Wrote: wrote, Header: limitHeaders(a.Header)}
	if a.Status/100 == 2 {
		classifySuccess(&o, a, unread, p)
		return o
	}
	d, isJSON := readDoc(a.Body, a.BodyComplete)
	if o.Problem = p.problem(a, d, isJSON); unread != "" {
		o.Problem = unreadable(unread)
	}
	classifyStatus(&o, a, d, p)
	if o.Class == Retry {
		o.RetryAfter, o.HasRetryAfter = retry.ParseRetryAfter(a.Header, now)
	}
	o.Throttled = a.Status == 429 || a.Status == 503 && o.HasRetryAfter
	return o
}

// classifyStatus is the table for everything that is not 2xx.
func classifyStatus(o *Outcome, a Answer, d doc, p Policy) {
	s := a.Status
	switch {
	case s == 408, s == 421, s == 425, s == 429, s/100 == 5:
		// 511 (RFC 6585 §6) is a captive portal that admits it.
		o.Class, o.Breaker = Retry, breaker.Fail
	case s == 401:
		o.Class, o.Breaker = AuthFailed, breaker.Neutral
	case s == 407:
		o.Class, o.Breaker = ConfigFault, breaker.Neutral
	case s == 409 && d.inProgress():
		// The first attempt is still being worked on: the path is well.
		o.Class, o.Breaker = Retry, breaker.OK
	case s/100 == 4 && slices.Contains(p.RetryStatus, s):
		o.Class, o.Breaker = Retry, breaker.Neutral
	case s == 400 && plainOnTLSPort(a.Body):
		o.Class, o.Breaker = ConfigFault, breaker.Neutral
	case (s == 403 || s == 404 || s == 405) && mediaType(a.Header) == "text/html":
		// A page for people: a proxy or a login page says so, an API about its
		// record does not. Were it the API after all, no record is condemned.
		o.Class, o.Breaker, o.Err = Retry, breaker.Fail, ErrNotAPI
	case s/100 == 4:
		o.Class, o.Breaker = Rejected, breaker.OK
	case s/100 == 3:
		o.Class, o.Breaker = ConfigFault, breaker.Neutral
		o.Err, o.Problem = ErrRedirect, p.redirectProblem(s, a.Header)
	default:
		// 101 without an Upgrade, or a number HTTP does not know.
		o.Class, o.Breaker = Retry, breaker.Fail
		o.Problem = fmt.Sprintf("unexpected status %d", s)
	}
}

// classifySuccess tells an ack from a captive portal and from an error that was
// sent with a 2xx status. unread is the coding of a body that could not be read.
func classifySuccess(o *Outcome, a Answer, unread string, p Policy) {
	o.Class, o.Breaker = Retry, breaker.Fail
	d, isJSON := readDoc(a.Body, a.BodyComplete)
	typ := mediaType(a.Header)
	switch {
	case a.Status == 207: // RFC 4918 §13: what became of the record is inside
		o.Problem = "207 multi-status: not an answer to one record"
	case typ == "application/problem+json": // RFC 9457: it has no other use
		if o.Problem = p.problem(a, d, isJSON); o.Problem == "" {
			o.Problem = "a problem document that says nothing"
		}
	case a.BodyComplete && isBlank(a.Body):
	case p.accepts(typ):
	case isForeign(a, p):
		o.Problem = p.show(fmt.Sprintf("answer is %s, not JSON: a captive portal or a proxy?", typ), maxProblem)
	case unread != "":
		o.Problem = unreadable(unread)
	case !isJSON:
		o.Problem = "answer is not valid JSON"
	default:
		// Below: JSON that may still speak of an error.
	}
	if o.Problem != "" {
		o.Err = ErrNotAPI
		return
	}
	receipt := d.receipt()
	if receipt == "" {
		receipt = a.Header.Get("Location")
	}
	if d.badStatus || (d.hasError || d.failed) && receipt == "" {
		o.Problem = p.problem(a, d, isJSON)
		o.Err = ErrNotAPI
		return
	}
	o.Receipt = p.show(receipt, maxReceipt)
	o.Class, o.Breaker = Acked, breaker.OK
}

// isForeign reports that a has a body of a type that the API does not answer with.
func isForeign(a Answer, p Policy) bool {
	typ := mediaType(a.Header)
	return typ != "" && !isJSONType(typ) && !p.accepts(typ) && !isBlank(a.Body)
}

func (p Policy) accepts(typ string) bool {
	return typ != "" && slices.ContainsFunc(p.AcceptTypes, func(t string) bool { return strings.EqualFold(t, typ) })
}

// classifyError judges attempts without an answer. They are retried, except
// where this side is misconfigured or the key cannot be sent at all.
func classifyError(err error, wrote bool, now time.Time, p Policy) Outcome {
	o := Outcome{Class: Retry, Breaker: breaker.Fail, Wrote: wrote}
	local := localFault(err)
	switch {
	case errors.Is(err, ErrCancelled), errors.Is(err, context.Canceled), errors.Is(err, ErrClosed):
		o.Breaker = breaker.Neutral
	case errors.Is(err, ErrKey):
		o.Class, o.Breaker = Rejected, breaker.Neutral
	case errors.Is(err, ErrHeader), errors.Is(err, ErrSocket):
		o.Class, o.Breaker = ConfigFault, breaker.Neutral
	case isCertificateFault(err):
		o.Class, o.Breaker = ConfigFault, breaker.Neutral
		err = clockFault(named(ErrCertificate, err), now)
	case isVersionFault(err):
		o.Class, o.Breaker = ConfigFault, breaker.Neutral
		err = named(ErrTLSVersion, err)
	case local != nil && !wrote:
		err = fmt.Errorf("%w: %w", local, err)
		if local == ErrLocalLimit {
			o.Breaker = breaker.Neutral
		}
	}
	o.Err = steady(err, p.hidden)
	o.Problem = clip(o.Err.Error(), maxProblem)
	return o
}

func mediaType(h http.Header) string {
	v := h.Get("Content-Type")
	if t, _, err := mime.ParseMediaType(v); err == nil {
		return t
	}
	v, _, _ = strings.Cut(v, ";")
	return strings.ToLower(strings.TrimSpace(v))
}

func isJSONType(t string) bool {
	return t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json")
}

// unreadable is the problem of a body in a coding that is not understood.
func unreadable(coding string) string {
	return fmt.Sprintf("answer is coded as %s, which was not asked for", coding)
}

func (p Policy) redirectProblem(status int, h http.Header) string {
	loc := h.Get("Location")
	u, err := url.Parse(loc)
	switch {
	case loc == "":
		return fmt.Sprintf("status %d without a location", status)
	case err != nil:
		return fmt.Sprintf("redirected (%d) to an unreadable location", status)
	case u.Host == "":
		return p.show(fmt.Sprintf("redirected (%d) to %s on the same host", status, u.Path), maxProblem)
	}
	// Query and user info stay out: they may carry secrets.
	return p.show(fmt.Sprintf("redirected (%d) to host %s", status, u.Host), maxProblem)
}

// plainOnTLSPort recognises the 400 that net/http and nginx give to plain HTTP
// on a TLS port: a wrong scheme in the URL, not a wrong record.
func plainOnTLSPort(body []byte) bool {
	s := string(body[:min(len(body), 1024)])
	return strings.Contains(s, "HTTP request to an HTTPS server") || strings.Contains(s, "plain HTTP request was sent to HTTPS port")
}
