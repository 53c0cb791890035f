package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/clockskew"
)

// Path is one way to the API, as a run takes it.
type Path struct {
	Name             string
	Key              string // in the configuration: paths.primary
	Scheme, Host     string // of the URL; Host has a port if that has one
	Proxy, ProxyFrom string // host of the proxy, "" for none, and who says so
	Probe            func(ctx context.Context, l api.Login) api.Probed
	Login            bool          // a run shows a login
	Timeout          time.Duration // of the look-up of the name
}

// Look resolves the path's name and makes one request without a login. Probe
// brings its own bounds.
func (p Path) Look(ctx context.Context) []Finding {
	names := make(chan []Finding, 1)
	go func() { names <- p.resolve(ctx) }()
	seen := p.Probe(ctx, api.Login{})
	return of(p.Name, append(<-names, p.judge(seen)...))
}

// resolve looks up whom a run dials: the proxy where there is one.
func (p Path) resolve(ctx context.Context) []Finding {
	const what = "dns"
	host := hostname(p.Host)
	if p.Proxy != "" {
		host = hostname(p.Proxy)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	start := time.Now()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	took := round(time.Since(start))
	if err != nil {
		return []Finding{failed(what, "getent ahosts "+host, "%s is not found: %v (after %v)", host, err, took)}
	}
	var four, six int
	var some []string
	for _, a := range all {
		if a = a.Unmap(); a.Is4() {
			four++
		} else {
			six++
		}
		if len(some) < 4 {
			some = append(some, a.String())
		}
	}
	if len(all) > len(some) {
		some = append(some, "…")
	}
	return []Finding{ok(what, "%s has %d IPv4 and %d IPv6 addresses: %s (in %v)", host, four, six, strings.Join(some, ", "), took)}
}

// judge says what a probe shows, up to the first part that fails: those behind
// it were not seen.
func (p Path) judge(s api.Probed) (all []Finding) {
	if p.Proxy != "" {
		f := p.proxy(s)
		if all = append(all, f); f.Result == Failed {
			return all
		}
	} else {
		all = append(all, ok("proxy", "none (from %s)", p.ProxyFrom))
	}
	if s.TLS != nil {
		all = append(all, p.chain(s.TLS, time.Now()))
	}
	if s.Handshake && s.Sent.IsZero() && !errors.Is(s.Err, api.ErrNotHTTP2) {
		return append(all, p.handshake(s.Err))
	}
	all = append(all, p.reach(s))
	if s.Status == 0 {
		return all
	}
	if offset, give, known := clockskew.FromDate(s.Header, s.Sent, s.Sent.Add(s.Took)); known {
		return append(all, clock(offset, give))
	}
	return append(all, ok("clock", "not compared: the answer has no date of its own"))
}

func (p Path) proxy(s api.Probed) Finding {
	const what = "proxy"
	switch {
	case errors.Is(s.Err, api.ErrProxyLogin), s.Status == http.StatusProxyAuthRequired:
		do := "put the login into its URL: http://USER:PASSWORD@" + p.Proxy
		return failed(what, do, "%s asks for a login, or refuses the one it gets (407)", p.Proxy)
	case errors.Is(s.Err, api.ErrProxy):
		return failed(what, "see what it allows, or set "+p.Key+".proxy to none", "%s: %v", p.Proxy, s.Err)
	case !s.Connected:
		return failed(what, "see whether it is up, or set "+p.Key+".proxy to none", "%s is not reached: %v", p.Proxy, s.Err)
	}
	return ok(what, "%s (from %s)", p.Proxy, p.ProxyFrom)
}

// chain judges the certificates that a server showed, and that were verified.
func (p Path) chain(s *tls.ConnectionState, now time.Time) Finding {
	leaf := s.PeerCertificates[0]
	who := fmt.Sprintf("%s, verified, issued by %s; the first certificate of the chain", tls.VersionName(s.Version), issuer(leaf))
	return expiry("tls", who, now, firstEnd(s.VerifiedChains), "have the certificate renewed by whoever runs "+p.Host)
}

// handshake says why TLS failed.
func (p Path) handshake(err error) Finding {
	addr := p.Host
	if _, _, serr := net.SplitHostPort(addr); serr != nil {
		addr += ":443"
	}
	do := fmt.Sprintf("openssl s_client -connect %s -servername %s", addr, hostname(p.Host))
	if _, is := errors.AsType[x509.UnknownAuthorityError](err); is {
		do = "name the authority in api.tls.ca_file, or bring the system's up to date; who signs: " + do
	} else if invalid, is := errors.AsType[x509.CertificateInvalidError](err); is && invalid.Reason == x509.Expired {
		do = "have the certificate renewed, and see that the clock is right; its dates: " + do
	} else if _, is := errors.AsType[x509.HostnameError](err); is {
		do = "see that the URL has the name that the certificate is for; whose it is: " + do
	}
	text := err.Error()
	if v, is := errors.AsType[*tls.CertificateVerificationError](err); is && len(v.UnverifiedCertificates) > 0 {
		text += "; issued by " + issuer(v.UnverifiedCertificates[0])
	}
	return failed("tls", do, "%s", text)
}

func (p Path) reach(s api.Probed) Finding {
	const what = "reach"
	switch {
	case errors.Is(s.Err, api.ErrNotHTTP2):
		return failed(what, "set "+p.Key+".http to 1", "%v", s.Err)
	case errors.Is(s.Err, api.ErrSocket):
		return failed(what, "see the options under "+p.Key, "%v", s.Err)
	case s.Err != nil:
		return failed(what, "see what is between: ping, traceroute or mtr to "+hostname(p.Host), "%v", s.Err)
	}
	text := fmt.Sprintf("HEAD is answered with %d in %v", s.Status, round(s.Took))
	if s.RTT > 0 {
		text += fmt.Sprintf(", round trip %v", round(s.RTT))
	}
	login := s.Status == http.StatusUnauthorized || s.Status == http.StatusForbidden
	switch kind, _, _ := mime.ParseMediaType(s.Header.Get("Content-Type")); {
	case login && p.Login:
		return ok(what, "%s; it asks for the login", text)
	case kind == "text/html", s.Status == http.StatusNetworkAuthenticationRequired:
		return warning(what, "see who answers: curl -sI "+p.Scheme+"://"+p.Host, "%s: a portal or a web page answers, not an API", text)
	case s.Status/100 == 3:
		return warning(what, "give the URL it leads to, if that is the API: runs follow no redirect", "%s: a redirect", text)
	case login:
		return warning(what, "set one source under api.auth", "%s: it asks for a login, and none is configured", text)
	}
	return ok(what, "%s", text)
}

// Refused makes the request of Look with a login, and judges whether the API
// takes it. do is what helps against a refusal.
func (p Path) Refused(ctx context.Context, l api.Login, do string) Finding {
	const what = "login"
	s := p.Probe(ctx, l)
	f := ok(what, "not refused: HEAD is answered with %d", s.Status)
	switch {
	case s.Err != nil:
		f = warning(what, "see what is said of this path above", "not tried: %v", s.Err)
	case s.Status == http.StatusUnauthorized:
		f = failed(what, do, "the API refuses the token (401)")
	case s.Status == http.StatusForbidden:
		f = warning(what, "ask whoever runs the API for the right to post", "the API knows the token, and forbids a HEAD with it (403)")
	}
	f.Path = p.Name
	return f
}

// hostname is a host without its port, and an address without its brackets.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.Trim(host, "[]")
}

// round keeps of a duration what is worth reading.
func round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
