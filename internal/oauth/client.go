package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"trafficup/internal/atomicfile"
	"trafficup/internal/disk"
	"trafficup/internal/secret"
)

// AuthStyle is how a client shows its secret to the token endpoint.
type AuthStyle int

const (
	InHeader AuthStyle = iota // client_secret_basic, which every server must know
	InBody                    // client_secret_post
)

// Config says where tokens come from. TokenURL and ClientID are needed.
type Config struct {
	TokenURL     string // https, or http to this machine
	ClientID     string
	ClientSecret secret.Secret
	RefreshToken secret.Secret // when set, tokens are granted for it, else for the client's secret
	Scopes       []string
	Audience     string
	AuthStyle    AuthStyle

	// CacheFile keeps the token from run to run and shares it between processes,
	// under a lock, CacheFile.lock. A refresh token that the server replaces at
	// each use is lost with the process unless there is one.
	CacheFile string

	MinInterval time.Duration // between requests, unless a token is refused; 10 s
	Ahead       float64       // part of the lifetime that is left when a token is renewed; 0.2
	Timeout     time.Duration // of a request; 10 s

	TLS   *tls.Config                                                       // nil: the system's authorities; TLS 1.2 at least
	Proxy func(*http.Request) (*url.URL, error)                             // nil: none
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer's

	Warn func(string) // told when the cache file fails; nil: nobody
}

// OAuth2 returns the source of tokens that cfg describes. It connects to nothing.
//
// One request is made at a time, of all processes that share a cache file. It is
// made MinInterval after the one before at the earliest, or at once when a token
// is refused. A valid token is given out while it is renewed.
func OAuth2(cfg Config) (Source, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.MinInterval <= 0 {
		cfg.MinInterval = minInterval
	}
	if cfg.Ahead <= 0 || cfg.Ahead >= 1 {
		cfg.Ahead = ahead
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	c := newClient(cfg)
	return &refresher{fetch: c.fetch, timeout: 3 * cfg.Timeout, minInterval: cfg.MinInterval, ahead: cfg.Ahead}, nil
}

func (cfg Config) check() error {
	u, err := url.Parse(cfg.TokenURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("token URL %q is not an http or https URL", secret.RedactURL(cfg.TokenURL))
	case u.User != nil || u.Fragment != "":
		return fmt.Errorf("token URL %q has a user or a fragment; the secret has an option of its own", secret.RedactURL(cfg.TokenURL))
	case u.Scheme == "http" && !local(u.Hostname()):
		return fmt.Errorf("token URL %q would send the secret without encryption; use https", cfg.TokenURL)
	case cfg.ClientID == "":
		return errors.New("client id is missing")
	case cfg.ClientSecret.IsZero() && cfg.RefreshToken.IsZero():
		return errors.New("client secret and refresh token are missing; one is needed")
	}
	return nil
}

func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// client asks the token endpoint. Its fetch runs one at a time.
type client struct {
	Config
	who   string // fingerprint of what a kept token was granted for
	http  *http.Transport
	masks secret.Redactor
	fsys  disk.FS

	rotated secret.Secret // the latest refresh token while it is in no file
}

func newClient(cfg Config) *client {
	t := &tls.Config{}
	if cfg.TLS != nil {
		t = cfg.TLS.Clone()
	}
	t.MinVersion = max(t.MinVersion, tls.VersionTLS12)
	c := &client{Config: cfg, fsys: disk.OS{}, http: &http.Transport{
		TLSClientConfig: t, Proxy: cfg.Proxy, DialContext: cfg.Dial,
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswer,
	}}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	c.masks.Add(cfg.ClientSecret)
	c.masks.Add(secret.New(c.basic()))
	// A token kept for another client, server or right must not be sent. Strings
	// and slices of them always encode.
	id, _ := json.Marshal([]any{cfg.TokenURL, cfg.ClientID, cfg.Scopes, cfg.Audience, cfg.RefreshToken.Reveal()})
	sum := sha256.Sum256(id)
	c.who = hex.EncodeToString(sum[:])
	return c
}

// fetch returns the token of the cache file if it is another one than old, else
// asks for one and keeps it before it is used.
func (c *client) fetch(ctx context.Context, old secret.Secret) (grant, error) {
	var k kept
	if c.CacheFile != "" {
		// Waiting must not eat the time of the request: one that is cut off may
		// cost the refresh token.
		locking, cancel := context.WithTimeout(ctx, 2*c.Timeout)
		defer cancel()
		unlock, err := atomicfile.Lock(locking, c.CacheFile+".lock", "token")
		if err != nil {
			return grant{}, unavailable(err.Error())
		}
		defer func() { _ = unlock() }() // the kernel does it in the end
		k, err = load(c.fsys, c.CacheFile, c.who)
		if errors.Is(err, errCache) {
			c.Warn(err.Error())
		} else if err != nil {
			return grant{}, unavailable(err.Error())
		}
		if g, ok := k.grant(old, time.Now()); ok {
			c.masks.Add(g.value)
			return g, nil
		}
	}
	for _, refresh := range []secret.Secret{c.rotated, k.refresh} { // the latest first
		if !refresh.IsZero() {
			return c.renew(ctx, refresh)
		}
	}
	return c.renew(ctx, c.RefreshToken)
}

// renew asks for a token and keeps it.
func (c *client) renew(ctx context.Context, refresh secret.Secret) (grant, error) {
	a, err := c.ask(ctx, refresh)
	if err != nil {
		return grant{}, err
	}
	g, err := a.grant()
	if err != nil {
		return grant{}, unavailable(err.Error())
	}
	if !refresh.IsZero() && a.RefreshToken != "" {
		refresh = secret.New(a.RefreshToken)
	}
	c.keep(g, refresh)
	return g, nil
}

// keep makes a grant durable. When that fails the run goes on with what it has in
// memory: the refresh token that is in the file has been used up either way.
func (c *client) keep(g grant, refresh secret.Secret) {
	c.rotated = refresh
	if c.CacheFile == "" {
		return
	}
	k := kept{access: g.value, refresh: refresh, received: time.Now().UTC()}
	if g.lifetime > 0 {
		k.expires = k.received.Add(g.lifetime)
	}
	if err := save(c.fsys, c.CacheFile, c.who, k); err != nil {
		c.Warn(fmt.Sprintf("token is not kept: %v", err))
		return
	}
	c.rotated = secret.Secret{}
}
