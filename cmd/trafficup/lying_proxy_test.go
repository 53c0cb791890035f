package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxied is an API that is reached by its name alone, or by a proxy.
type proxied struct {
	*liar
	trust string
}

func newProxied(t *testing.T) proxied {
	t.Helper()
	cert, trust := selfSigned(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "api.test")
	return proxied{newLiar(t, overTLS(&tls.Config{Certificates: []tls.Certificate{cert}}, answers(always(thanks)))), trust}
}

// dial leads api.test to the API, as a name server would.
func (p proxied) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if addr == "api.test:443" {
		addr = p.Addr().String()
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// relay connects whoever asks to the API.
func (p proxied) relay(l *liar, c net.Conn, br *bufio.Reader, _ int) {
	if req, err := http.ReadRequest(br); err != nil || req.Method != http.MethodConnect || req.Host != "api.test:443" {
		return
	}
	far, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		return
	}
	defer far.Close()
	io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	var wg sync.WaitGroup
	wg.Go(func() { io.Copy(far, br); far.Close() })
	io.Copy(c, far)
	c.Close()
	wg.Wait()
}

// connects answers CONNECT with a text and nothing more.
func connects(answer string) func(*liar, net.Conn, *bufio.Reader, int) {
	return func(_ *liar, c net.Conn, br *bufio.Reader, _ int) {
		if _, err := http.ReadRequest(br); err == nil {
			io.WriteString(c, answer)
			if answer == "" {
				io.Copy(io.Discard, br)
			}
		}
	}
}

// The proxy of the environment is used where it is to be, and what it does wrong
// is told of the proxy.
func TestProxiesOfTheEnvironment(t *testing.T) {
	const busy, login = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 407 Login\r\nContent-Length: 0\r\n\r\n"
	for name, tc := range map[string]struct {
		variable string
		except   string // NO_PROXY, in the same case
		answer   string
		relays   bool
		code     int
		asked    bool
		within   string // time for a connection
		says     []string
	}{
		"upper case":        {"HTTPS_PROXY", "", "", true, exitOK, true, "5s", nil},
		"lower case":        {"https_proxy", "", "", true, exitOK, true, "5s", nil},
		"but not for this":  {"HTTPS_PROXY", "10.0.0.0/8,api.test", login, false, exitOK, false, "5s", nil},
		"nor in lower case": {"https_proxy", "10.0.0.0/8,api.test", login, false, exitOK, false, "5s", nil},
		"wants a login":     {"HTTPS_PROXY", "10.0.0.0/8", login, false, exitUsage, true, "5s", []string{"proxy asks for a login", "hint: put the proxy's login into its URL"}},
		"has no way":        {"HTTPS_PROXY", "", busy, false, exitWaiting, true, "5s", []string{"through proxy ", "proxy did not connect: it answered 502"}},
		"says nothing":      {"HTTPS_PROXY", "", "", false, exitWaiting, true, "200ms", []string{"through proxy "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			far := newProxied(t)
			serve := connects(tc.answer)
			if tc.relays {
				serve = far.relay
			}
			proxy := newLiar(t, serve)
			exception := "NO_PROXY"
			if strings.ToLower(tc.variable) == tc.variable {
				exception = "no_proxy"
			}
			d := lying{
				url: "https://api.test/v1/logs", config: far.trust, records: 10, dial: far.dial,
				env:  map[string]string{tc.variable: "http://" + proxy.Addr().String(), exception: tc.except},
				args: []string{"--max-attempts", "2", "--connect-timeout", tc.within, "--breaker-threshold", "100", "--concurrency", "10"},
			}.upload(t)
			acked, letters := int64(0), 0
			switch tc.code {
			case exitOK:
				acked = 10
			case exitWaiting:
				letters = 10
			}
			d.is(t, tc.code, acked, letters)
			d.says(t, tc.says...)
			if _, _, conns := proxy.heard(t); (conns > 0) != tc.asked || d.Rejected+d.Unknown > 0 {
				t.Errorf("the proxy was asked %d times; %+v", conns, d.Counts)
			}
		})
	}
}

// Loopback is never reached through a proxy, and each path asks for itself.
func TestLoopbackNeedsNoProxy(t *testing.T) {
	proxy, near := newLiar(t, connects("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")), newLiar(t, answers(always(thanks)))
	env := map[string]string{"HTTPS_PROXY": "http://" + proxy.Addr().String(), "HTTP_PROXY": "http://" + proxy.Addr().String()}
	lying{url: near.url(), records: 10, env: env}.upload(t).is(t, exitOK, 10, 0)
	if _, _, conns := proxy.heard(t); conns > 0 {
		t.Errorf("the proxy was asked %d times", conns)
	}
	d := lying{url: "https://api.test/v1/logs", records: 10, env: env, args: []string{"--fallback-url", near.url(), "--breaker-threshold", "2", "--breaker-open", "10s", "--breaker-open-max", "10s", "--max-attempts", "10"}}.upload(t)
	d.is(t, exitOK, 10, 0)
	if _, _, conns := proxy.heard(t); conns == 0 || d.Paths["fallback"] != 10 {
		t.Errorf("the proxy was asked %d times; %v", conns, d.Paths)
	}
}

// A proxy that reads the answers gives its own now and then, and no record is
// condemned for that; what the API says is passed on by it and holds.
func TestProxiesThatAnswerThemselves(t *testing.T) {
	const via = "Via: 1.1 relay\r\n"
	with := func(header, answer string) string { return strings.Replace(answer, "\r\n", "\r\n"+header, 1) }
	thanked := with(via, thanks)
	for name, tc := range map[string]struct {
		first   string // for the first five records
		then    string // for the others
		code    int
		acked   int64
		refused int64
		verdict string
	}{
		"forbids in text":             {"", answered("403 Forbidden", "text/plain", "by policy"), exitWaiting, 0, 0, "link down"},
		"forbids in text, later":      {thanked, answered("403 Forbidden", "text/plain", "by policy"), exitWaiting, 5, 0, "link down"},
		"finds nothing, in JSON":      {"", answered("404 Not Found", "application/json", `{"error":"no such host"}`), exitWaiting, 0, 0, "link down"},
		"refuses with a page":         {"", with(via, answered("400 Bad Request", "text/html", "<html>")), exitWaiting, 0, 0, "link down"},
		"has no way, in text":         {"", answered("502 Bad Gateway", "text/plain", "no route"), exitWaiting, 0, 0, "link down"},
		"owns up":                     {"", with(via+"Proxy-Status: far; fwd=miss, relay; error=http_request_denied\r\n", answered("403 No", "application/json", "{}")), exitWaiting, 0, 0, "link down"},
		"passes a refusal on":         {"", with(via, answered("403 No", "application/json", `{"title":"not yours"}`)), exitPerson, 0, 10, "all well"},
		"passes it on with a status":  {"", with(via+"Proxy-Status: relay; error=http_response_incomplete; received-status=403\r\n", answered("403 No", "application/json", "{}")), exitPerson, 0, 10, "all well"},
		"passes it on without a word": {thanks, answered("403 No", "application/json", `{"title":"not yours"}`), exitPerson, 5, 5, "all well"},
		"a conflict is the API's":     {"", answered("422 No", "application/json", `{"title":"bad"}`), exitPerson, 0, 10, "all well"},
		"the API fails":               {"", with(via, answered("502 Bad Gateway", "text/plain", "database")), exitWaiting, 0, 0, "service failing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := newLiar(t, func(l *liar, c net.Conn, br *bufio.Reader, _ int) {
				for {
					req, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					body, _ := io.ReadAll(req.Body)
					l.count(req, body)
					if name := req.Header.Get("Idempotency-Key"); tc.first != "" && name < key(5) {
						io.WriteString(c, tc.first)
					} else {
						io.WriteString(c, tc.then)
					}
				}
			})
			d := lying{
				url: "http://api.test/v1/logs", records: 10, env: map[string]string{"HTTP_PROXY": "http://" + proxy.Addr().String()},
				args: []string{"--concurrency", "1", "--max-attempts", "1", "--breaker-threshold", "100"},
			}.upload(t)
			d.is(t, tc.code, tc.acked, 10-int(tc.acked))
			proxy.heard(t)
			if d.Rejected != tc.refused || d.Unknown > 0 || d.Verdict != tc.verdict {
				t.Errorf("%s, %s; %+v", d.Verdict, d.VerdictWhy, d.Counts)
			}
			if tc.verdict == "link down" {
				d.says(t, "the proxy's own answer")
			}
		})
	}
}
