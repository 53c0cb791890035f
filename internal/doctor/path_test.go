package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"trafficup/internal/api"
)

// newCert makes a certificate that signs itself, and its key.
func newCert(t *testing.T, from, to time.Time, hosts ...string) (cert tls.Certificate, certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "trafficup test"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, DNSNames: hosts,
		IPAddresses: []net.IP{net.IPv6loopback},
	}
	if len(hosts) == 0 {
		form.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	if cert, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return cert, certPEM, keyPEM
}

// serve serves h on loopback, with the certificate if there is one.
func serve(t *testing.T, cert *tls.Certificate, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	if cert == nil {
		srv.Start()
	} else {
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
		srv.StartTLS()
	}
	t.Cleanup(srv.Close)
	return srv.URL
}

// newPath is the path to a URL, with the authorities that are trusted.
func newPath(t *testing.T, to string, trust []byte, proxy string, http2 bool) Path {
	t.Helper()
	cfg := api.Config{URL: to, ConnectTimeout: 2 * time.Second, RequestTimeout: 2 * time.Second, TLS: &tls.Config{RootCAs: x509.NewCertPool()}}
	cfg.TLS.RootCAs.AppendCertsFromPEM(trust)
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	via := api.TransportConfig{HTTP2: http2}
	if proxy != "" {
		if via.Proxy, err = url.Parse(proxy); err != nil {
			t.Fatal(err)
		}
		proxy = via.Proxy.Host
	}
	tr, err := api.NewTransport(cfg, via)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return Path{Name: "primary", Key: "paths.primary", Scheme: u.Scheme, Host: u.Host, Proxy: proxy, ProxyFrom: "the environment", Probe: tr.Probe, Timeout: 2 * time.Second}
}

func answers(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for n := 0; n < len(header); n += 2 {
			w.Header().Set(header[n], header[n+1])
		}
		w.WriteHeader(status)
	}
}

func TestPathTLS(t *testing.T) {
	now := time.Now()
	_, stranger, _ := newCert(t, now.Add(-day), now.Add(day))
	const direct, clock = "ok proxy: none", "ok clock: within"
	for name, c := range map[string]struct {
		from, to time.Duration
		hosts    []string
		trust    []byte
		want     []string
		do       string
	}{
		"good":        {-day, 100 * day, nil, nil, []string{direct, "ok tls: TLS 1.3, verified, issued by trafficup test; the first certificate of the chain ends on", "ok reach: HEAD is answered with 204 in", clock}, ""},
		"soon":        {-day, 10 * day, nil, nil, []string{direct, "warning tls: in 9 days", "ok reach: ", clock}, "renewed by whoever runs 127.0.0.1:"},
		"last days":   {-day, 2 * day, nil, nil, []string{direct, "failed tls: in 47h0m0s", "ok reach: ", clock}, "renewed"},
		"expired":     {-2 * day, -day, nil, nil, []string{direct, "failed tls: expired"}, "its dates: openssl s_client -connect 127.0.0.1:"},
		"early":       {day, 2 * day, nil, nil, []string{direct, "failed tls: not yet valid"}, "openssl"},
		"self-signed": {-day, 100 * day, nil, stranger, []string{direct, "failed tls: unknown authority"}, "api.tls.ca_file"},
		"wrong host":  {-day, 100 * day, []string{"other.example"}, nil, []string{direct, "failed tls: 127.0.0.1"}, "the name that the certificate is for"},
	} {
		t.Run(name, func(t *testing.T) {
			cert, trust, _ := newCert(t, now.Add(c.from), now.Add(c.to), c.hosts...)
			if c.trust != nil {
				trust = c.trust
			}
			all := newPath(t, serve(t, &cert, answers(204)), trust, "", false).Look(t.Context())
			expect(t, all, c.want...)
			for _, f := range all {
				if f.Path != "primary" || f.What == "tls" && !strings.Contains(f.Do, c.do) {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

func TestPathAnswers(t *testing.T) {
	const direct = "ok proxy: none"
	date := func(ahead time.Duration) string { return time.Now().Add(ahead).UTC().Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		login  bool
		want   []string
	}{
		"any status":        {answers(405), false, []string{"ok reach: HEAD is answered with 405", "ok clock: "}},
		"wants a login":     {answers(401), true, []string{"ok reach: asks for the login", "ok clock: "}},
		"wants one unknown": {answers(401), false, []string{"warning reach: none is configured", "ok clock: "}},
		"login page":        {answers(401, "Content-Type", "text/html"), true, []string{"ok reach: ", "ok clock: "}},
		"portal":            {answers(200, "Content-Type", "text/html; charset=utf-8"), true, []string{"warning reach: a portal", "ok clock: "}},
		"portal that says":  {answers(511), false, []string{"warning reach: a portal", "ok clock: "}},
		"redirect":          {answers(302, "Location", "https://portal.example/?CANARY"), false, []string{"warning reach: a redirect", "ok clock: "}},
		"clock ahead":       {answers(204, "Date", date(-10*time.Minute)), false, []string{"ok reach: ", "failed clock: ahead of the server's"}},
		"clock behind":      {answers(204, "Date", date(10*time.Minute)), false, []string{"ok reach: ", "failed clock: behind the server's"}},
		"clock a bit off":   {answers(204, "Date", date(time.Minute)), false, []string{"ok reach: ", "warning clock: behind"}},
		"no clock":          {answers(204, "Date", ""), false, []string{"ok reach: ", "ok clock: not compared"}},
		"cached":            {answers(204, "Date", date(-10*time.Minute), "Age", "600"), false, []string{"ok reach: ", "ok clock: not compared"}},
		"no HTTP":           {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false, []string{"failed reach: EOF"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPath(t, serve(t, nil, c.answer), nil, "", false)
			p.Login = c.login
			expect(t, p.Look(t.Context()), append([]string{direct}, c.want...)...)
		})
	}
	gone := newPath(t, "http://127.0.0.1:1", nil, "", false)
	expect(t, gone.Look(t.Context()), direct, "failed reach: connection refused")
	cert, trust, _ := newCert(t, time.Now().Add(-day), time.Now().Add(100*day))
	for _, with := range []*tls.Certificate{nil, &cert} {
		all := newPath(t, serve(t, with, answers(204)), trust, "", true).Look(t.Context())
		if expect(t, all, direct, "failed reach: does not speak HTTP/2"); all[1].Do != "set paths.primary.http to 1" {
			t.Errorf("%+v", all)
		}
	}
}

func TestPathProxy(t *testing.T) {
	cert, trust, _ := newCert(t, time.Now().Add(-day), time.Now().Add(100*day))
	far := serve(t, &cert, answers(204))
	relay := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		c, err := net.Dial("tcp", strings.TrimPrefix(far, "https://"))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		w.WriteHeader(http.StatusOK)
		near, br, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer near.Close()
		done := make(chan struct{})
		go func() { defer close(done); _, _ = io.Copy(c, br); _ = c.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(near, c)
		_ = near.Close()
		<-done
	})
	for name, c := range map[string]struct {
		to, proxy string
		want      []string
	}{
		"good":           {far, relay, []string{"ok proxy: 127.0.0.1", "ok tls: ", "ok reach: ", "ok clock: "}},
		"login":          {far, serve(t, nil, answers(407)), []string{"failed proxy: asks for a login"}},
		"login in clear": {"http://api.example", serve(t, nil, answers(407)), []string{"failed proxy: asks for a login"}},
		"refuses":        {far, serve(t, nil, answers(403)), []string{"failed proxy: 403 Forbidden"}},
		"gone":           {far, "http://user:CANARY@127.0.0.1:1", []string{"failed proxy: is not reached"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := newPath(t, c.to, trust, c.proxy, false).Look(t.Context())
			expect(t, all, c.want...)
			for _, f := range all {
				if strings.Contains(f.Message+f.Do, "CANARY") {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

func TestRefused(t *testing.T) {
	p := newPath(t, serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		status := map[string]int{"": 500, "Bearer good": 405, "Bearer known": 403}[r.Header.Get("Authorization")]
		if status == 0 {
			status = 401
		}
		w.WriteHeader(status)
	}), nil, "", false)
	for token, want := range map[string]string{
		"good": "ok login: not refused: HEAD is answered with 405", "known": "warning login: forbids", "bad": "failed login: refuses the token (401)",
	} {
		f := p.Refused(t.Context(), api.Login{Token: token}, "write a new one")
		expect(t, []Finding{f}, want)
		if f.Path != "primary" || f.Result == Failed && f.Do != "write a new one" {
			t.Errorf("%+v", f)
		}
	}
	gone := newPath(t, "http://127.0.0.1:1", nil, "", false)
	expect(t, []Finding{gone.Refused(t.Context(), api.Login{Token: "good"}, "x")}, "warning login: not tried: ")
}

func TestResolve(t *testing.T) {
	p := Path{Timeout: 2 * time.Second}
	for host, want := range map[string][]string{
		"127.0.0.1": nil, "127.0.0.1:8080": nil, "[::1]": nil, "[::1]:8443": nil, "[fe80::1%25eth0]:1": nil,
		"localhost": {"ok dns: localhost has "}, "localhost:8080": {"ok dns: localhost has "},
		"-.invalid": {"failed dns: -.invalid is not found"},
	} {
		p.Host = host
		expect(t, p.resolve(t.Context()), want...)
	}
	p.Host, p.Proxy = "-.invalid", "localhost:3128" // whom nobody here has to know
	expect(t, p.resolve(t.Context()), "ok dns: localhost has ")
	ended, stop := context.WithCancel(t.Context())
	stop()
	p.Proxy = "x.invalid"
	expect(t, p.resolve(ended), "failed dns: x.invalid is not found")
}
