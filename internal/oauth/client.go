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
	"sync"
	"time"

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
	RefreshToken secret.Secret                 // when set, tokens are granted for it, else for the client's secret
	Reread       func() (secret.Secret, error) // the client's secret as it is now, asked when it was denied; nil: it stays
	Scopes       []string
	Audience     string
	AuthStyle    AuthStyle

	// CacheFile keeps the token from run to run and shares it between processes,
	// under a lock, CacheFile.lock. A refresh token that the server replaces at
	// each use is lost with the process unless there is one. Where the file cannot
	// be used a source's first token is ErrCache; later the run goes on in memory,
	// and the file is tried again.
	CacheFile string

	MinInterval time.Duration // between requests, unless a token is refused; 10 s
	Ahead       float64       // part of the lifetime that is left when a token is renewed; 0.2
	Timeout     time.Duration // of a request; 10 s

	TLS   *tls.Config                                                       // nil: the system's authorities; TLS 1.2 at least
	Proxy func(*http.Request) (*url.URL, error)                             // nil: none
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer's

	Warn func(string) // told when the cache file fails; nil: nobody
	Lost func(string) // told in its place when a refresh token may be lost with it, and when it is kept after all; nil: Warn
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
	return keeper{&refresher{name: c.endpoint(), fetch: c.fetch, timeout: 3 * cfg.Timeout, minInterval: cfg.MinInterval, ahead: cfg.Ahead}, c}, nil
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

	mu      sync.Mutex    // held while a token is asked for
	opened  bool          // guarded by mu; the cache file could be used once
	last    kept          // guarded by mu; what was granted last
	unsaved bool          // guarded by mu; it is in no file
	before  secret.Secret // guarded by mu; the refresh token of the file when it was seen last
	tried   time.Time     // guarded by mu; when last was to be saved
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
	if c.Lost == nil {
		c.Lost = c.Warn
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
	c.mu.Lock()
	defer c.mu.Unlock()
	var k kept
	if c.CacheFile != "" {
		found, unlock, ok, err := c.open(ctx)
		if err != nil {
			return grant{}, err
		}
		if k = found; ok {
			defer unlock()
		}
		if g, ok := k.grant(old, time.Now()); ok {
			c.masks.AddToken(g.value)
			return g, nil
		}
	}
	refresh := c.RefreshToken
	for _, later := range []secret.Secret{c.last.refresh, k.refresh} {
		if !later.IsZero() {
			refresh = later
		}
	}
	if c.unsaved {
		refresh = c.last.refresh
	}
	g, err := c.renew(ctx, refresh)
	if errors.Is(err, ErrDenied) && c.changed() {
		return c.renew(ctx, refresh)
	}
	return g, err
}

// changed takes the client's secret anew, and says whether it is another one.
func (c *client) changed() bool {
	if c.Reread == nil {
		return false
	}
	s, err := c.Reread()
	if err != nil || s.Equal(c.ClientSecret) {
		return false
	}
	c.ClientSecret = s
	c.masks.Add(s)
	c.masks.Add(secret.New(c.basic()))
	return true
}

// renew asks for a token and keeps it. requires mu.
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
