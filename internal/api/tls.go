package api

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// tlsConfig is cfg.TLS made fit for the host. Sessions are kept for as long as
// the client lives: they save a round trip per new connection.
func (cfg Config) tlsConfig(host string, protos ...string) *tls.Config {
	c := &tls.Config{}
	if cfg.TLS != nil {
		c = cfg.TLS.Clone()
	}
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	if c.ServerName == "" {
		c.ServerName = host
	}
	if c.ClientSessionCache == nil {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	c.NextProtos = protos
	return c
}

// LoadTLS reads PEM files: the authorities that are trusted in place of the
// system's, and the certificate, with its chain, and key by which this side
// shows who it is. Empty names mean the system's authorities and no certificate.
// Whether the key file is open to others is for [KeyWarning] to say.
func LoadTLS(caFile, certFile, keyFile string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pool, err := loadAuthorities(caFile)
		if err != nil {
			return nil, fmt.Errorf("ca file %s: %w", caFile, err)
		}
		cfg.RootCAs = pool
	}
	switch {
	case certFile == "" && keyFile == "":
		return cfg, nil
	case keyFile == "":
		return nil, fmt.Errorf("certificate file %s: its key file is missing; name both", certFile)
	case certFile == "":
		return nil, fmt.Errorf("key file %s: its certificate file is missing; name both", keyFile)
	}
	cert, err := loadCertificate(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	cfg.Certificates = []tls.Certificate{cert}
	return cfg, nil
}

func loadAuthorities(name string) (*x509.CertPool, error) {
	rest, err := readPEM(name)
	if err != nil {
		return nil, err
	}
	pool, n := x509.NewCertPool(), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		n++
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d is damaged: %w", n, err)
		}
		pool.AddCert(cert)
	}
	if n == 0 {
		return nil, errors.New("no certificate in it; want PEM, or convert it: openssl x509 -inform der -in FILE -out FILE.pem")
	}
	return pool, nil
}

func loadCertificate(certFile, keyFile string) (tls.Certificate, error) {
	certPEM, err := readPEM(certFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate file %s: %w", certFile, err)
	}
	keyPEM, err := readPEM(keyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("key file %s: %w", keyFile, err)
	}
	if strings.Contains(string(keyPEM), "ENCRYPTED") {
		return tls.Certificate{}, fmt.Errorf("key file %s: it is locked with a passphrase; unlock it: openssl pkey -in FILE -out FILE.pem", keyFile)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate file %s and key file %s: %w; want PEM files that belong together", certFile, keyFile, err)
	}
	return cert, nil
}

// readPEM reads a file that may be a pipe but is not endless.
func readPEM(name string) ([]byte, error) {
	const limit = 1 << 20
	f, err := os.Open(name)
	if err != nil {
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			err = pe.Err // the caller names the file
		}
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && len(b) > limit {
		err = fmt.Errorf("more than %d bytes: not a file of certificates", limit)
	}
	return b, err
}

// KeyWarning says that others than the owner may use the key file, and what to
// do about it; "" when all is well, or the file cannot be looked at.
func KeyWarning(keyFile string) string {
	info, err := os.Stat(keyFile)
	if err != nil || runtime.GOOS == "windows" || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
		return ""
	}
	return fmt.Sprintf("key file %s is open to others (mode %04o); close it: chmod 600 %s", keyFile, info.Mode().Perm(), keyFile)
}

// built is when this program was made, or a time before that. No clock that is
// right shows an earlier one.
var built = sync.OnceValue(func() time.Time {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if t, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
				return t
			}
		}
	}
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
})

// clockFault names the likelier reason of a refused certificate, where there is one.
func clockFault(err error, now time.Time) error {
	if !now.Before(built()) {
		return err
	}
	return fmt.Errorf("%w: it shows %s, before this program was made; set it: %w", ErrClock, now.UTC().Format("2006-01-02 15:04"), err)
}
