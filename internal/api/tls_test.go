package api

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"trafficup/internal/breaker"
)

// lacks ends a test for which this machine lacks a part; where all parts have to
// be there, it fails.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("this machine lacks %s", what)
	}
	t.Skipf("this machine lacks %s", what)
}

// trustingServer is a configuration that knows srv's certificate; nil for plain HTTP.
func trustingServer(srv *httptest.Server) *tls.Config {
	if srv.Certificate() == nil {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return &tls.Config{RootCAs: pool}
}

// newCert makes a certificate that signs itself, and its key.
func newCert(t *testing.T, from, to time.Time, names ...string) (cert tls.Certificate, certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "trafficup test"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	cert, err = tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return cert, certPEM, keyPEM
}

// newTLSServer accepts every request that gets through to it.
func newTLSServer(t *testing.T, cfg *tls.Config, h http.HandlerFunc) *httptest.Server {
	if h == nil {
		h = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	}
	srv := httptest.NewUnstartedServer(h)
	srv.TLS = cfg
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// Connections that grow old cost a shorter handshake each, not a whole one.
func TestSessionsAreResumed(t *testing.T) {
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			var hits, resumed atomic.Int64
			srv := newTLSServer(t, &tls.Config{MaxVersion: version}, func(w http.ResponseWriter, r *http.Request) {
				hits.Add(1)
				if r.TLS.DidResume {
					resumed.Add(1)
				}
				w.WriteHeader(http.StatusNoContent)
			})
			c := newTestClient(t, srv.URL, func(cfg *Config) { cfg.TLS, cfg.MaxAge = trustingServer(srv), 1 })
			for i := range 10 {
				if o := c.Send(t.Context(), record(i)); o.Class != Acked {
					t.Fatalf("%+v", o)
				}
			}
			c.Renew()
			c.Warm(t.Context(), 1)
			if hits.Load() != 10 || resumed.Load() != 9 {
				t.Errorf("%d requests, %d on resumed sessions", hits.Load(), resumed.Load())
			}
		})
	}
}

func TestHandshakeFaults(t *testing.T) {
	now := time.Now()
	day := 24 * time.Hour
	good, goodPEM, _ := newCert(t, now.Add(-day), now.Add(day), "127.0.0.1")
	expired, expiredPEM, _ := newCert(t, now.Add(-2*day), now.Add(-day), "127.0.0.1")
	early, earlyPEM, _ := newCert(t, now.Add(day), now.Add(2*day), "127.0.0.1")
	other, otherPEM, _ := newCert(t, now.Add(-day), now.Add(day), "other.example")
	for _, tc := range []struct {
		name    string
		server  *tls.Config
		trust   []byte
		class   Class
		verdict breaker.Verdict
		says    string
	}{
		{"good", &tls.Config{Certificates: []tls.Certificate{good}}, goodPEM, Acked, breaker.OK, ""},
		{"expired", &tls.Config{Certificates: []tls.Certificate{expired}}, expiredPEM, ConfigFault, breaker.Neutral, "expired"},
		{"not yet valid", &tls.Config{Certificates: []tls.Certificate{early}}, earlyPEM, ConfigFault, breaker.Neutral, "not yet valid"},
		{"wrong host", &tls.Config{Certificates: []tls.Certificate{other}}, otherPEM, ConfigFault, breaker.Neutral, "127.0.0.1"},
		{"unknown authority", &tls.Config{Certificates: []tls.Certificate{good}}, otherPEM, ConfigFault, breaker.Neutral, "unknown authority"},
		{"wants ours", &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert}, goodPEM, ConfigFault, breaker.Neutral, "certificate required"},
		{"too old a version", &tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, goodPEM, ConfigFault, breaker.Neutral, ErrTLSVersion.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := newTLSServer(t, tc.server, nil)
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(tc.trust)
			c := newTestClient(t, srv.URL, func(cfg *Config) { cfg.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10} })
			o := c.Send(t.Context(), record(1))
			if o.Class != tc.class || o.Breaker != tc.verdict || !strings.Contains(o.Problem, tc.says) || errors.Is(o.Err, ErrClock) {
				t.Fatalf("%+v", o)
			}
			if tc.class != ConfigFault || strings.Contains(o.Problem, "remote error") {
				return // of an alert only the words are kept
			}
			// The same on a board that woke up without a clock.
			o = Classify(Answer{}, o.Err, false, time.Unix(60, 0), Policy{})
			if o.Class != ConfigFault || !errors.Is(o.Err, ErrClock) || !strings.Contains(o.Problem, "the clock is wrong: it shows 1970-01-01 00:01") {
				t.Errorf("%+v", o)
			}
		})
	}
}

// Servers that are no TLS servers, or hang up: the path fails, no certificate does.
func TestHandshakeThatBreaks(t *testing.T) {
	for name, answer := range map[string]string{"plain": "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "hangs up": "", "half a record": "\x16\x03\x03"} {
		t.Run(name, func(t *testing.T) {
			s := newRawServer(t, func(_ *rawServer, c net.Conn, br *bufio.Reader) {
				br.ReadByte()
				io.WriteString(c, answer)
			})
			c := newTestClient(t, "https://"+s.Addr().String(), nil)
			if o := c.Send(t.Context(), record(1)); o.Class != Retry || o.Breaker != breaker.Fail || o.Wrote || !strings.Contains(o.Problem, "tls handshake") {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestLoadTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	now := time.Now()
	_, certPEM, keyPEM := newCert(t, now.Add(-time.Hour), now.Add(time.Hour), "127.0.0.1")
	_, _, strangeKey := newCert(t, now, now.Add(time.Hour))
	block, _ := pem.Decode(certPEM)
	cert, key := file("cert.pem", certPEM), file("key.pem", keyPEM)
	for _, tc := range []struct{ name, ca, cert, key, says string }{
		{"nothing", "", "", "", ""},
		{"all", file("ca.pem", append(append([]byte("# ours\n"), certPEM...), certPEM...)), cert, key, ""},
		{"authorities only", cert, "", "", ""},
		{"no such file", filepath.Join(dir, "none"), "", "", "none: no such file"},
		{"a directory", dir, "", "", "is a directory"},
		{"der", file("ca.der", block.Bytes), "", "", "openssl x509 -inform der"},
		{"empty", file("empty", nil), "", "", "no certificate in it"},
		{"damaged", file("bad.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes[:100]})), "", "", "certificate 1 is damaged"},
		{"endless", file("big.pem", bytes.Repeat(certPEM, 4000)), "", "", "not a file of certificates"},
		{"without key", "", cert, "", "name both"},
		{"without certificate", "", "", key, "name both"},
		{"strangers", "", cert, file("strange.pem", strangeKey), "belong together"},
		{"swapped", "", key, cert, "belong together"},
		{"no key file", "", cert, filepath.Join(dir, "none"), "none: no such file"},
		{"no certificate file", "", filepath.Join(dir, "none"), key, "none: no such file"},
		{"locked", "", cert, file("locked.pem", []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n")), "openssl pkey"},
	} {
		cfg, err := LoadTLS(tc.ca, tc.cert, tc.key)
		if tc.says != "" {
			if err == nil || !strings.Contains(err.Error(), tc.says) || cfg != nil {
				t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
			}
			continue
		}
		if err != nil || cfg.MinVersion != tls.VersionTLS12 || (cfg.RootCAs != nil) != (tc.ca != "") || len(cfg.Certificates) > 0 != (tc.cert != "") {
			t.Errorf("%s: %+v, %v", tc.name, cfg, err)
		}
	}
}

// Both sides show who they are.
func TestCertificatesFromFiles(t *testing.T) {
	now := time.Now()
	cert, certPEM, keyPEM := newCert(t, now.Add(-time.Hour), now.Add(time.Hour), "127.0.0.1")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	srv := newTLSServer(t, &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}, nil)
	c, k := filepath.Join(t.TempDir(), "c.pem"), filepath.Join(t.TempDir(), "k.pem")
	if err := errors.Join(os.WriteFile(c, certPEM, 0o644), os.WriteFile(k, keyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	cfg, err := LoadTLS(c, c, k)
	if err != nil {
		t.Fatal(err)
	}
	cl := newTestClient(t, srv.URL, func(x *Config) { x.TLS = cfg })
	if o := cl.Send(t.Context(), record(1)); o.Class != Acked {
		t.Errorf("%+v", o)
	}
}

func TestKeyWarning(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode here")
	}
	name := filepath.Join(t.TempDir(), "key.pem")
	if w := KeyWarning(name); w != "" {
		t.Errorf("no file: %q", w)
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, warns := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o644: true, 0o660: true} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if w := KeyWarning(name); (w != "") != warns || warns && !strings.Contains(w, "chmod 600 "+name) {
			t.Errorf("%o: %q", mode, w)
		}
	}
}
