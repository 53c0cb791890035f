package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/uploader"
	"trafficup/internal/verdict"
)

// selfSigned makes a certificate for loopback, or for another name, and the
// settings by which it is trusted.
func selfSigned(t *testing.T, from, to time.Time, name string) (cert tls.Certificate, trust string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true}
	if ip := net.ParseIP(name); ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	} else {
		tmpl.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, fmt.Sprintf("api: {tls: {ca_file: %q}}", file)
}

func goodCert(t *testing.T) (cert tls.Certificate, trust string) {
	t.Helper()
	return selfSigned(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "127.0.0.1")
}

// overTLS lets a script speak after the handshake.
func overTLS(cfg *tls.Config, serve func(*liar, net.Conn, *bufio.Reader, int)) func(*liar, net.Conn, *bufio.Reader, int) {
	return func(l *liar, c net.Conn, _ *bufio.Reader, n int) {
		tc := tls.Server(c, cfg)
		if tc.Handshake() == nil {
			serve(l, tc, bufio.NewReader(tc), n)
		}
	}
}

func (l *liar) secureURL() string { return strings.Replace(l.url(), "http:", "https:", 1) }

// A certificate that is not trusted, and TLS of long ago, are no fault of any
// record: nothing is sent, nothing condemned, and the next run delivers.
func TestCertificateFaultsCondemnNothing(t *testing.T) {
	now := time.Now()
	good, trust := goodCert(t)
	expired, trustExpired := selfSigned(t, now.Add(-48*time.Hour), now.Add(-24*time.Hour), "127.0.0.1")
	other, trustOther := selfSigned(t, now.Add(-time.Hour), now.Add(time.Hour), "other.example")
	for name, tc := range map[string]struct {
		server *tls.Config
		trust  string
		says   []string
	}{
		"expired":     {&tls.Config{Certificates: []tls.Certificate{expired}}, trustExpired, []string{"expired", "certificate", "clock"}},
		"wrong host":  {&tls.Config{Certificates: []tls.Certificate{other}}, trustOther, []string{"127.0.0.1", "names the host"}},
		"self-signed": {&tls.Config{Certificates: []tls.Certificate{good}}, "", []string{"unknown authority", "tls.ca_file"}},
		"wants ours":  {&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert}, trust, []string{"certificate required", "certificate"}},
		"TLS 1.0":     {&tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, trust, []string{"no longer safe", "TLS 1.2 or later"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newLiar(t, overTLS(tc.server, answers(always(thanks))))
			d := lying{url: server.secureURL(), records: 10, config: tc.trust}.upload(t)
			d.is(t, exitUsage, 0, 0)
			d.says(t, append(tc.says, "hint: ")...)
			if strings.Contains(d.stdout, "check the settings") {
				t.Errorf("a hint that says too little:\n%s", d.stdout)
			}
			if _, calls, _ := server.heard(t); calls > 0 {
				t.Errorf("%d requests came through", calls)
			}
			well := newLiar(t, overTLS(&tls.Config{Certificates: []tls.Certificate{good}}, answers(always(thanks))))
			d.url, d.config = well.secureURL(), trust
			d.lying.upload(t).is(t, exitOK, 10, 0)
		})
	}
}

// With another path the records go by that, and the verdict names the one that is
// set up wrong.
func TestPathThatIsSetUpWrong(t *testing.T) {
	cert, trust := goodCert(t)
	old := newLiar(t, overTLS(&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, answers(always(thanks))))
	well := newLiar(t, overTLS(&tls.Config{Certificates: []tls.Certificate{cert}}, answers(always(thanks))))
	d := lying{url: old.secureURL(), records: 50, config: trust, args: []string{"--fallback-url", well.secureURL()}}.upload(t)
	d.is(t, exitOK, 50, 0)
	if d.Verdict != verdict.PathMisset || d.VerdictPath != "primary" {
		t.Errorf("%s on %s, %s", d.Verdict, d.VerdictPath, d.VerdictWhy)
	}
}

// On a board that woke up in 1970 it is the clock that is named first.
func TestClockIsNamed(t *testing.T) {
	o := api.Classify(api.Answer{}, x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired}, false, time.Unix(60, 0), api.Policy{})
	code, hint := explain(fmt.Errorf("%w: primary: %w", uploader.ErrConfig, o.Err))
	if code != exitUsage || !strings.HasPrefix(hint, "set the clock") || !strings.Contains(o.Problem, "it shows 1970-01-01 00:01") {
		t.Errorf("%d, %q, %q", code, hint, o.Problem)
	}
}

// A handshake that is not answered ends in the time for connections.
func TestSilentHandshakesAreLeft(t *testing.T) {
	cert, trust := goodCert(t)
	const hung = 3
	well := overTLS(&tls.Config{Certificates: []tls.Certificate{cert}}, answers(always(thanks)))
	server := newLiar(t, func(l *liar, c net.Conn, br *bufio.Reader, n int) {
		if n <= hung+4 { // some are opened ahead
			io.Copy(io.Discard, br)
			return
		}
		well(l, c, br, n)
	})
	left(t, lying{url: server.secureURL(), records: 20, config: trust}, hung)
}
