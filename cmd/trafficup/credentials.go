package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/oauth"
	"trafficup/internal/secret"
	"trafficup/internal/uploader"
)

// tokenSource is where the bearer token comes from; nil: requests carry none.
func (c Config) tokenSource(sys *system, dir string, warn func(string)) (oauth.Source, error) {
	a := c.API.Auth
	switch {
	case !a.Token.IsZero():
		return oauth.Static(a.Token), nil
	case a.TokenFile != "":
		path, guarded := credential(a.TokenFile, sys.getenv)
		if guarded {
			warn = func(string) {}
		}
		return oauth.File(path, warn), nil
	case len(a.TokenCommand) > 0:
		return oauth.Command(a.TokenCommand), nil
	case a.OAuth.TokenURL == "":
		return nil, nil
	}
	return c.oauthSource(sys, dir, warn)
}

func (c Config) oauthSource(sys *system, dir string, warn func(string)) (oauth.Source, error) {
	o := c.API.Auth.OAuth
	cfg := oauth.Config{
		TokenURL: o.TokenURL, ClientID: o.ClientID, ClientSecret: o.ClientSecret, RefreshToken: o.RefreshToken,
		Scopes: o.Scopes, Audience: o.Audience, CacheFile: cmp.Or(o.CacheFile, filepath.Join(dir, "token.json")), Dial: sys.dial, Warn: warn,
	}
	if o.Style == "body" {
		cfg.AuthStyle = oauth.InBody
	}
	for _, s := range []struct {
		file string
		into *secret.Secret
	}{{o.ClientSecretFile, &cfg.ClientSecret}, {o.RefreshTokenFile, &cfg.RefreshToken}} {
		if s.file == "" {
			continue
		}
		path, guarded := credential(s.file, sys.getenv)
		value, warning, err := secret.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if warning != "" && !guarded {
			warn(warning)
		}
		*s.into = value
	}
	proxy, err := api.ProxyFor("", o.TokenURL, sys.getenv)
	if err != nil {
		return nil, err
	}
	cfg.Proxy = func(*http.Request) (*url.URL, error) { return proxy, nil }
	if cfg.TLS, err = api.LoadTLS(c.API.TLS.CAFile, c.API.TLS.CertFile, c.API.TLS.KeyFile); err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return oauth.OAuth2(cfg)
}

// masks knows the secrets of the configuration.
func (c Config) masks() *secret.Redactor {
	m := new(secret.Redactor)
	a := c.API.Auth
	for _, s := range append([]secret.Secret{a.Token, a.OAuth.ClientSecret, a.OAuth.RefreshToken}, slices.Collect(maps.Values(c.API.Headers))...) {
		m.Add(s)
	}
	for _, p := range c.pathSetups() {
		if u, err := url.Parse(p.url); err == nil {
			for _, values := range u.Query() { // some APIs have their key there
				for _, v := range values {
					m.Add(secret.New(v))
				}
			}
		}
	}
	return m
}

// credential is the path of a file that holds a secret. A bare name is looked
// for among those the service manager passes first, whose modes say nothing.
func credential(name string, getenv func(string) string) (path string, guarded bool) {
	if !strings.ContainsRune(name, filepath.Separator) {
		if path, ok := secret.Find(name, getenv); ok {
			return path, true
		}
	}
	return name, false
}

// checkOAuth finds what is missing for an OAuth 2 client, without asking anybody.
func (c Config) checkOAuth() {
	const section = "api.auth.oauth."
	o := c.API.Auth.OAuth
	hasSecret, hasRefresh := !o.ClientSecret.IsZero() || o.ClientSecretFile != "", !o.RefreshToken.IsZero() || o.RefreshTokenFile != ""
	if o.TokenURL == "" {
		if o.ClientID != "" || hasSecret || hasRefresh {
			c.Fault(section+"token_url", "is missing; without it the rest of api.auth.oauth is of no use")
		}
		return
	}
	if u, err := url.Parse(o.TokenURL); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		c.Fault(section+"token_url", "would send the secret in clear: use https")
	}
	if o.ClientID == "" {
		c.Fault(section+"client_id", "is missing")
	}
	if !hasSecret && !hasRefresh {
		c.Fault(section+"client_secret_file", "is missing, and so is refresh_token_file: one is needed")
	}
	if !o.ClientSecret.IsZero() && o.ClientSecretFile != "" {
		c.Fault(section+"client_secret_file", "goes over client_secret; leave one of them out")
	}
	if !o.RefreshToken.IsZero() && o.RefreshTokenFile != "" {
		c.Fault(section+"refresh_token_file", "goes over refresh_token; leave one of them out")
	}
}

// noToken is the outcome of an attempt that has no token to send: nothing was
// sent. For good, the run ends; for now, it waits.
func noToken(err error) uploader.Outcome {
	out := uploader.Outcome{Class: uploader.ClassRetry, Verdict: uploader.VerdictNeutral, Err: fmt.Errorf("token: %w", err)}
	if errors.Is(err, oauth.ErrDenied) || errors.Is(err, oauth.ErrSame) {
		out.Class = uploader.ClassAuth
		return out
	}
	out.NoToken, out.RetryAfter = true, time.Second
	if e, ok := errors.AsType[interface {
		error
		RetryAfter() (time.Duration, bool)
	}](err); ok {
		if d, ok := e.RetryAfter(); ok {
			out.RetryAfter = max(d, time.Second)
		}
	}
	return out
}

// renew says what is to become of a record whose token the API refused.
func (s *sender) renew(ctx context.Context, refused oauth.Token, out uploader.Outcome) uploader.Outcome {
	next, err := s.tokens.Refuse(ctx, refused.Generation)
	switch {
	case err == nil:
		s.masks.Add(next.Value)
		out.Renewed = true
	case errors.Is(err, oauth.ErrDenied), errors.Is(err, oauth.ErrSame):
		out.Err = err
	default:
		wait := noToken(err)
		out.NoToken, out.RetryAfter, out.Err = true, wait.RetryAfter, wait.Err
	}
	return out
}

// authorise makes the source of tokens and asks it once, so that a wrong secret
// is found before anything is read. One that cannot be had now may come later.
func authorise(sys *system, c Config, dir string, u *ui) (oauth.Source, error) {
	tokens, err := c.tokenSource(sys, dir, u.warn)
	if err != nil {
		return nil, usageError("", "token: %w", err)
	}
	if tokens == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(sys.soft, c.Upload.RequestTimeout)
	defer cancel()
	_, err = tokens.Token(ctx)
	switch {
	case errors.Is(err, oauth.ErrDenied):
		return nil, &failure{exitAuth, "", fmt.Errorf("token: %w", err)}
	case errors.Is(err, oauth.ErrUnavailable):
		u.warn("token: " + err.Error() + "; it is asked for again")
	case err != nil && sys.soft.Err() == nil:
		return nil, usageError("", "token: %w", err)
	}
	return tokens, nil
}
