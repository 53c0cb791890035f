package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
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
// alarm is warn for what the next run will suffer from.
func (c Config) tokenSource(sys *system, dir string, mark *marking, warn, alarm func(string)) (oauth.Source, error) {
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
	return c.oauthSource(sys, dir, mark, warn, alarm)
}

// tokenCache is the file that tokens of an OAuth 2 server are kept in.
func (c Config) tokenCache(dir string) string {
	return cmp.Or(c.API.Auth.OAuth.CacheFile, filepath.Join(dir, "token.json"))
}

func (c Config) oauthSource(sys *system, dir string, mark *marking, warn, alarm func(string)) (oauth.Source, error) {
	o := c.API.Auth.OAuth
	cfg := oauth.Config{
		TokenURL: o.TokenURL, ClientID: o.ClientID, ClientSecret: o.ClientSecret, RefreshToken: o.RefreshToken,
		Scopes: o.Scopes, Audience: o.Audience, CacheFile: c.tokenCache(dir), Dial: mark.dialer(sys, "token endpoint"), Warn: warn, Lost: alarm,
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
	if o.ClientSecretFile != "" {
		path, _ := credential(o.ClientSecretFile, sys.getenv)
		cfg.Reread = func() (secret.Secret, error) {
			value, _, err := secret.ReadFile(path)
			return value, err
		}
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
	a, r := c.API.Auth, c.Redis
	for _, s := range append([]secret.Secret{a.Token, a.OAuth.ClientSecret, a.OAuth.RefreshToken, r.Password, r.Sentinel.Password}, slices.Collect(maps.Values(c.API.Headers))...) {
		m.Add(s)
	}
	if u, err := url.Parse(r.URL); err == nil {
		if password, set := u.User.Password(); set {
			m.Add(secret.New(password))
		}
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
	if words := c.API.Auth.TokenCommand; len(words) == 1 && strings.ContainsAny(words[0], " \t|") {
		c.Fault("api.auth.token_command", "write a list, such as [cat, /etc/token]: no shell takes it apart")
	}
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

// renew says what is to become of a record whose token the API refused. One that
// only this path refuses goes by another.
func (s *sender) renew(ctx context.Context, refused oauth.Token, out uploader.Outcome) uploader.Outcome {
	next, err := s.tokens.Refuse(ctx, refused.Generation, s.path)
	switch {
	case err == nil:
		s.masks.AddToken(next.Value)
		out.Renewed = true
	case errors.Is(err, oauth.ErrPath):
		s.picky.Do(func() { s.warn(s.path + ": refuses the token that another path takes (401); no other is asked for") })
		out.Class, out.Verdict = uploader.ClassRetry, uploader.VerdictFail
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
func authorise(sys *system, c Config, dir string, mark *marking, u *ui) (oauth.Source, error) {
	tokens, err := c.tokenSource(sys, dir, mark, u.warn, u.alarm)
	if err != nil {
		return nil, usageError(tokenHint, "token: %w", err)
	}
	if tokens == nil {
		return nil, nil
	}
	err = firstToken(sys, c, tokens)
	switch {
	case err != nil && c.API.Auth.TokenFile != "" && sys.soft.Err() == nil:
		hint := tokenHint
		if path, guarded := credential(c.API.Auth.TokenFile, sys.getenv); !guarded {
			if whole, aerr := filepath.Abs(path); aerr == nil {
				hint = "put the token alone into " + whole + ", then run the same command again"
			}
		}
		return nil, &failure{exitAuth, hint, fmt.Errorf("token: %w", err)}
	case errors.Is(err, oauth.ErrCache):
		return nil, &failure{exitFailed, cacheHint(c.tokenCache(dir)), fmt.Errorf("token: %w", err)}
	case errors.Is(err, oauth.ErrDenied):
		return nil, &failure{exitAuth, tokenHint, fmt.Errorf("token: %w", err)}
	case errors.Is(err, oauth.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		u.warn("token: " + err.Error() + "; it is asked for again")
	case err != nil && sys.soft.Err() == nil:
		return nil, usageError(tokenHint, "token: %w", err)
	}
	return tokens, nil
}

// cacheHint says what to do about a cache of tokens that cannot be used.
func cacheHint(file string) string {
	if above := filepath.Dir(file); !isDir(above) {
		return "mkdir -p -m 700 " + quoted(above) + ", or set api.auth.oauth.cache_file"
	}
	return "it and its lock have to be files that this user may read and write: ls -ld " + quoted(file) + "*; move away what is none, or set api.auth.oauth.cache_file"
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// fileWait is how long a token file may be away or half written at the start: it
// may be about to be replaced.
const fileWait = 3 * time.Second

// firstToken asks for the first token, within the time of a request.
func firstToken(sys *system, c Config, tokens oauth.Source) error {
	ctx, cancel := context.WithTimeout(sys.soft, c.Upload.RequestTimeout)
	defer cancel()
	for end := time.Now().Add(fileWait); ; {
		_, err := tokens.Token(ctx)
		if err == nil || c.API.Auth.TokenFile == "" || !time.Now().Before(end) {
			return err
		}
		select {
		case <-time.After(fileWait / 10):
		case <-ctx.Done():
			return err
		}
	}
}
