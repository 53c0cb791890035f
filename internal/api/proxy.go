package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// Errors found in Outcome.Err with errors.Is, of paths that lead through a proxy.
var (
	ErrProxyLogin = errors.New("proxy asks for a login") // 407, whatever was sent as one
	ErrProxy      = errors.New("proxy did not connect")  // any other answer to CONNECT than 200
)

// ProxyFor returns the proxy that requests to target, a URL, go through; nil
// means none. It is pure. setting is one of
//
//   - "" or "env": as HTTP_PROXY, HTTPS_PROXY and NO_PROXY say, or these in
//     lower case where the upper is not set,
//   - "none",
//   - a URL: http, https, socks5 or socks5h, perhaps with a login; http when
//     there is no scheme, and then with a port.
//
// A loopback target is never reached through a proxy. Errors do not repeat the
// setting, which may hold a login; print a result by its Host or Redacted.
func ProxyFor(setting, target string, getenv func(string) string) (*url.URL, error) {
	if setting == "none" {
		return nil, nil
	}
	to, err := url.Parse(target)
	if err != nil {
		return nil, errors.New("proxy: what it is to lead to is not a URL")
	}
	name, value, except := "proxy", setting, ""
	if setting == "" || setting == "env" {
		name, value = lookup(getenv, strings.ToUpper(to.Scheme)+"_PROXY")
		_, except = lookup(getenv, "NO_PROXY")
	}
	if value == "" {
		return nil, nil
	}
	// Whether, the library decides; through which, is not left to it: it takes
	// what it cannot read for no proxy.
	to.Host = strings.ToLower(to.Host)
	rules := httpproxy.Config{HTTPProxy: "http://proxy", HTTPSProxy: "http://proxy", NoProxy: except}
	if use, err := rules.ProxyFunc()(to); use == nil || err != nil {
		return nil, err
	}
	return parseProxy(name, value)
}

func lookup(getenv func(string) string, upper string) (name, value string) {
	if v := getenv(upper); v != "" {
		return upper, v
	}
	lower := strings.ToLower(upper)
	return lower, getenv(lower)
}

// parseProxy keeps the parser's reason to itself: it quotes what may be a password.
func parseProxy(name, value string) (*url.URL, error) {
	bare := !strings.Contains(value, "://")
	if bare {
		value = "http://" + value
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || bare && u.Port() == "" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s: not a proxy's address; want http://host:port, with what is special in a login percent-encoded", name)
	case u.Scheme == "http", u.Scheme == "https", u.Scheme == "socks5", u.Scheme == "socks5h":
		return u, nil
	}
	return nil, fmt.Errorf("%s: want http, https, socks5 or socks5h before ://", name)
}

// connected judges a proxy's answer to CONNECT, of which net/http would keep
// the reason phrase alone.
func connected(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	switch {
	case resp.StatusCode == http.StatusOK:
		return nil
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return ErrProxyLogin
	}
	return fmt.Errorf("%w: it answered %s", ErrProxy, clip(resp.Status, maxExcerpt))
}

// relayed reports that a proxy reads the answers, and so can give its own.
func (t *Transport) relayed() bool { return t.proxy != nil && t.proxy.Scheme == "http" && !t.secure }

// ownAnswer reports that a proxy gave the answer and did not pass it on. It may
// say so (RFC 9209 §2.1: an error, and not this status received), or show it: a proxy
// puts its name into what it passes on (RFC 9110 §7.6.3), unless it is one that
// does not, as unnamed says. Only refusals and failures of a gateway are looked at
// in that way; 409 and 422 speak of a record's content, which no proxy judges.
func ownAnswer(a Answer, unnamed bool) bool {
	s := a.Status
	switch {
	case s/100 != 4 && s/100 != 5, s == 401, s == 407, s == 409, s == 422, s == 429:
		return false
	case proxyFailed(a.Header.Values("Proxy-Status"), s):
		return true
	case s/100 == 4 && mediaType(a.Header) == "text/html":
		return true // a page for people
	case s/100 == 4, s == 502, s == 504:
		return !unnamed && a.Header["Via"] == nil
	}
	return false
}

// proxyFailed finds a proxy that had an error of its own among these lists, and
// did not receive status.
func proxyFailed(lists []string, status int) bool {
	same := fmt.Sprint("received-status=", status)
	for member := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		failed, received := false, false
		for param := range strings.SplitSeq(member, ";") {
			param = strings.TrimSpace(param)
			failed = failed || strings.HasPrefix(param, "error=")
			received = received || param == same
		}
		if failed && !received {
			return true
		}
	}
	return false
}

// secureDial returns a dialer that has shaken hands with an https proxy. It is
// not left to net/http, which would offer the proxy HTTP/2, and then not speak
// it, and would show it the certificate that is meant for the API.
func secureDial(dial dialFunc, cfg Config, proxy *url.URL) dialFunc {
	c := cfg.tlsConfig(proxy.Hostname(), "http/1.1")
	c.ServerName, c.Certificates, c.GetClientCertificate = proxy.Hostname(), nil, nil
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		t := tls.Client(raw, c)
		if err := t.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, fmt.Errorf("tls handshake: %w", err)
		}
		return t, nil
	}
}
