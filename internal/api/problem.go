package api

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"trafficup/internal/secret"
)

const (
	maxProblem = 1024 // bytes
	maxReceipt = 256  // bytes
	maxExcerpt = 200  // bytes of a body that is no problem document
)

// doc holds the members of a JSON answer that matter: those of RFC 9457 and
// the usual spellings of an error and a receipt.
type doc struct {
	typ, title, detail, code, message string
	id, receiptID, receiptText        string
	hasError                          bool // an "error" member that says something
	badStatus                         bool // a "status" that would be one of a failure
	failed                            bool // "success" or "ok" is false
}

// readDoc reads a JSON answer. ok is false where body is not JSON. It is lenient
// about repeated names and bad UTF-8: the answer is only looked at. A body of
// which only the beginning is at hand (complete false) is JSON as far as it goes.
func readDoc(body []byte, complete bool) (d doc, ok bool) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	asFarAs := func(err error) bool {
		return !complete && !isBlank(body) && (errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF)
	}
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return d, asFarAs(err)
		}
		return d, atEnd(dec)
	}
	if _, err := dec.ReadToken(); err != nil {
		return d, false
	}
	for dec.PeekKind() != '}' {
		tok, err := dec.ReadToken()
		if err != nil {
			return d, asFarAs(err)
		}
		name := tok.String()
		val, err := dec.ReadValue()
		if err != nil {
			return d, asFarAs(err)
		}
		d.take(name, val)
	}
	if _, err := dec.ReadToken(); err != nil {
		return d, asFarAs(err)
	}
	return d, atEnd(dec)
}

func atEnd(dec *jsontext.Decoder) bool {
	_, err := dec.ReadToken()
	return err == io.EOF
}

func (d *doc) take(name string, val jsontext.Value) {
	set := func(dst *string) {
		if *dst == "" {
			*dst = scalar(val)
		}
	}
	switch name {
	case "type":
		set(&d.typ)
	case "title":
		set(&d.title)
	case "detail":
		set(&d.detail)
	case "code":
		set(&d.code)
	case "message":
		set(&d.message)
	case "id":
		set(&d.id)
	case "receipt_id":
		set(&d.receiptID)
	case "receipt":
		set(&d.receiptText)
	case "status":
		n, err := strconv.ParseFloat(string(val), 64)
		d.badStatus = d.badStatus || err == nil && n >= 400
	case "success", "ok":
		d.failed = d.failed || val.Kind() == 'f'
	case "error", "errors":
		d.takeError(val)
	}
}

// takeError reads "error": a text, or an object as Stripe and many others send.
func (d *doc) takeError(val jsontext.Value) {
	switch val.Kind() {
	case '{':
		inner, ok := readDoc(val, true)
		d.hasError = d.hasError || !ok || len(bytes.TrimSpace(val)) > len("{}")
		for _, p := range []struct{ dst, src *string }{
			{&d.typ, &inner.typ}, {&d.title, &inner.title}, {&d.detail, &inner.detail},
			{&d.code, &inner.code}, {&d.message, &inner.message},
		} {
			if *p.dst == "" {
				*p.dst = *p.src
			}
		}
	case '"', '0':
		if s := scalar(val); s != "" && s != "0" {
			d.hasError = true
			if d.message == "" {
				d.message = s
			}
		}
	case '[':
		d.hasError = d.hasError || len(bytes.TrimSpace(val)) > len("[]")
	case 't':
		d.hasError = true
	}
}

// scalar is the text of a JSON string or number, else "".
func scalar(val jsontext.Value) string {
	switch val.Kind() {
	case '"':
		b, _ := jsontext.AppendUnquote(nil, val) // bad UTF-8 comes out replaced
		return string(b)
	case '0':
		return string(val)
	}
	return ""
}

func (d doc) receipt() string {
	for _, s := range []string{d.id, d.receiptID, d.receiptText} {
		if s != "" {
			return s
		}
	}
	return ""
}

var sameWords = strings.NewReplacer(" ", "", "-", "", "_", "")

// inProgress reports whether a 409 says that the first request with this key is
// still being worked on (draft-ietf-httpapi-idempotency-key-header-07 §2.6),
// rather than that the record contradicts another.
func (d doc) inProgress() bool {
	for _, s := range []string{d.typ, d.code, d.title, d.message} {
		s = sameWords.Replace(strings.ToLower(s))
		for _, w := range []string{"inprogress", "outstanding", "beingprocessed", "stillprocessing", "keyinuse", "concurrentrequest"} {
			if strings.Contains(s, w) {
				return true
			}
		}
	}
	return false
}

// problem makes one printable line of a refusal: the members of RFC 9457, else
// the beginning of the body.
func (p Policy) problem(a Answer, d doc, isJSON bool) string {
	var parts []string
	for _, s := range []string{d.title, d.code, d.message, d.detail} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	text := strings.Join(parts, ": ")
	if d.typ != "" && d.typ != "about:blank" {
		text = strings.TrimSpace(fmt.Sprintf("%s (%s)", text, d.typ))
	}
	if text == "" && (isJSON || isText(mediaType(a.Header))) {
		head := secret.Hide(string(a.Body), p.hidden...) // all of it: a secret that is cut is not found
		head = head[:min(len(head), 4*maxExcerpt)]
		return clip(strings.Join(strings.Fields(head), " "), maxExcerpt)
	}
	return p.show(text, maxProblem)
}

// show is clip without the secrets that s may repeat.
func (p Policy) show(s string, limit int) string { return clip(secret.Hide(s, p.hidden...), limit) }

func isText(t string) bool { return t == "" || strings.HasPrefix(t, "text/") || isJSONType(t) }

func isBlank(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }

// clip makes s printable and at most limit bytes long. Control characters,
// direction overrides and invalid bytes come out escaped, so that an answer
// cannot paint a terminal or forge a log line.
func clip(s string, limit int) string {
	const more = "..."
	var b []byte
	cut := 0 // where to cut if the rest does not fit
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			b = fmt.Appendf(b, `\x%02x`, s[0])
		case !unicode.IsPrint(r):
			q := strconv.AppendQuoteRuneToASCII(nil, r)
			b = append(b, q[1:len(q)-1]...)
		default:
			b = append(b, s[:n]...)
		}
		s = s[n:]
		switch {
		case len(b) > limit:
			return string(b[:cut]) + more
		case len(b) <= limit-len(more):
			cut = len(b)
		}
	}
	return string(b)
}
