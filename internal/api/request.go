package api

import (
	"fmt"
	"maps"
	"net"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// target is what stays the same in every request of a client.
type target struct {
	secure bool
	addr   string // host:port to dial
	host   string // name to be in the certificate
	head   []byte // request line and constant headers, each ending in CRLF
	auth   string // Authorization from the configuration, used when a request has no token
	quoted bool
}

// ownHeaders are written by this package alone; a second copy of one of them
// would make the request mean different things to different readers.
var ownHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Te", "Trailer", "Expect",
	"Content-Type", "Accept", "Accept-Encoding", "User-Agent", "Idempotency-Key", "X-Trafficup-Run", "X-Trafficup-Attempt"}

func newTarget(cfg Config) (target, error) {
	var t target
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return t, fmt.Errorf("api url: %w", err)
	}
	port := u.Port()
	switch {
	case u.Scheme == "https":
		t.secure = true
		if port == "" {
			port = "443"
		}
	case u.Scheme == "http":
		if port == "" {
			port = "80"
		}
	default:
		return t, fmt.Errorf("api url %q: want http:// or https://", u.Redacted())
	}
	if u.Hostname() == "" {
		return t, fmt.Errorf("api url %q: no host", u.Redacted())
	}
	if u.User != nil {
		return t, fmt.Errorf("api url %q: user info belongs into the auth settings", u.Redacted())
	}
	t.host = u.Hostname()
	t.addr = net.JoinHostPort(t.host, port)
	uri, host := u.RequestURI(), hostHeader(u)
	if !printable(uri, false) || !printable(host, false) {
		return t, fmt.Errorf("api url %q: only ASCII without spaces can be sent; encode the rest", u.Redacted())
	}
	switch cfg.KeyForm {
	case "", "bare":
	case "quoted":
		t.quoted = true
	default:
		return t, fmt.Errorf("key form %q: want bare or quoted", cfg.KeyForm)
	}
	agent := cfg.UserAgent
	if agent == "" {
		agent = "trafficup"
	}
	if !fieldValue(agent) {
		return t, fmt.Errorf("user agent %q: %w", agent, ErrHeader)
	}
	t.head = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nAccept: application/json\r\nAccept-Encoding: identity\r\nContent-Type: application/json\r\n", uri, host, agent)
	return t, t.addHeaders(cfg.Headers)
}

func (t *target) addHeaders(headers map[string]string) error {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value, canon := headers[name], textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !isToken(name):
			return fmt.Errorf("header name %q: not an HTTP token", name)
		case slices.Contains(ownHeaders, canon):
			return fmt.Errorf("header %s is set by trafficup and cannot be configured", canon)
		case seen[canon]:
			return fmt.Errorf("header %s is configured twice", canon)
		case !fieldValue(value):
			// The value stays out of the message: it may be a secret.
			return fmt.Errorf("header %s: %w", canon, ErrHeader)
		}
		seen[canon] = true
		if canon == "Authorization" {
			t.auth = value
			continue
		}
		t.head = fmt.Appendf(t.head, "%s: %s\r\n", name, value)
	}
	return nil
}

// judging is p for the answer to r, whose login it keeps quiet about: a server that
// echoes the login must not bring it into a report.
func (t *target) judging(p Policy, r Request) Policy {
	login := r.Token
	if login == "" {
		_, login, _ = strings.Cut(t.auth, " ") // behind the scheme
	}
	p.hidden = []string{login}
	return p
}

// check finds the values that would break the header section.
func (t *target) check(r Request) error {
	switch {
	case r.Key == "" || !printable(r.Key, true) || strings.TrimSpace(r.Key) != r.Key:
		return fmt.Errorf("%w: %q: want printable ASCII without spaces around it", ErrKey, clip(r.Key, maxExcerpt))
	case !fieldValue(r.RunID):
		return fmt.Errorf("%w: run id", ErrHeader)
	case !fieldValue(r.Token):
		return fmt.Errorf("%w: token", ErrHeader)
	}
	return nil
}

// appendTo appends the request as it goes over the wire.
func (t *target) appendTo(b []byte, r Request) []byte {
	b = append(b, t.head...)
	b = append(b, "Idempotency-Key: "...)
	if t.quoted {
		b = appendQuoted(b, r.Key)
	} else {
		b = append(b, r.Key...)
	}
	if r.Token != "" {
		b = append(b, "\r\nAuthorization: Bearer "...)
		b = append(b, r.Token...)
	} else if t.auth != "" {
		b = append(b, "\r\nAuthorization: "...)
		b = append(b, t.auth...)
	}
	if r.RunID != "" {
		b = append(b, "\r\nX-Trafficup-Run: "...)
		b = append(b, r.RunID...)
	}
	b = append(b, "\r\nX-Trafficup-Attempt: "...)
	b = strconv.AppendInt(b, int64(r.Attempt), 10)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(r.Body)), 10)
	b = append(b, "\r\n\r\n"...)
	return append(b, r.Body...)
}

// appendQuoted writes a structured-field String (RFC 8941 §3.3.3).
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// hostHeader is the authority without the zone of a link-local address, which
// means nothing to the other side (RFC 6874 §4).
func hostHeader(u *url.URL) string {
	before, rest, ok := strings.Cut(u.Host, "%")
	if !ok {
		return u.Host
	}
	_, after, _ := strings.Cut(rest, "]")
	return before + "]" + after
}

// printable reports whether s is visible ASCII, blanks allowed or not.
func printable(s string, blanks bool) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == ' ' && !blanks {
			return false
		}
	}
	return true
}

// fieldValue is narrower than RFC 9110 §5.5: no tab and no bytes above 0x7e.
func fieldValue(s string) bool { return printable(s, true) && strings.TrimSpace(s) == s }

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}
