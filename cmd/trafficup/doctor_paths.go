package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/doctor"
	"trafficup/internal/oauth"
)

// examined is a path, with the client that a run would have for it.
type examined struct {
	setup  pathSetup
	way    doctor.Path
	client client
	err    error // of making the client; then there is none
}

func (d *examination) newPaths() (all []examined) {
	mark := d.c.marking(bulk, func(string) {})
	for _, s := range d.c.pathSetups() {
		w := doctor.Path{
			Name: s.name, Key: "paths." + s.name, ProxyFrom: "paths." + s.name + ".proxy",
			Login: d.c.hasToken() || d.configuredLogin(), Timeout: d.c.Upload.ConnectTimeout,
		}
		if s.Proxy == "" || s.Proxy == "env" {
			w.ProxyFrom = "the environment"
		}
		if u, err := url.Parse(s.url); err == nil { // checked before
			w.Scheme, w.Host = u.Scheme, u.Host
		}
		cl, via, err := s.newClient(d.sys, d.c, mark)
		if err == nil {
			w.Proxy, w.Probe = via, cl.(prober).Probe
		}
		all = append(all, examined{s, w, cl, err})
	}
	return all
}

// prober is a client that can ask without sending a record.
type prober interface {
	Probe(ctx context.Context, l api.Login) api.Probed
}

func (d *examination) pathChecks(p examined) (all []doctor.Check) {
	mine := func(what string, see func() []doctor.Finding) {
		all = append(all, doctor.Check{What: what, Path: p.setup.name, Look: func(context.Context) []doctor.Finding {
			found := see()
			for n := range found {
				found[n].Path = p.setup.name
			}
			return found
		}})
	}
	if p.setup.TLS.CertFile != "" {
		mine("certificate", func() []doctor.Finding {
			return doctor.Certificate(p.setup.TLS.CertFile, p.setup.TLS.KeyFile, time.Now())
		})
	}
	if p.setup.Congestion != "" {
		mine("congestion", func() []doctor.Finding {
			return []doctor.Finding{doctor.Congestion(os.DirFS("/proc"), p.setup.Congestion)}
		})
	}
	if p.err != nil {
		mine("settings", func() []doctor.Finding {
			return []doctor.Finding{{Result: doctor.Failed, What: "settings", Message: p.err.Error(), Do: "see the options under " + p.way.Key + " and api.tls: trafficup config show"}}
		})
		return all
	}
	return append(all, doctor.Check{What: "reach", Path: p.setup.name, Bound: d.duration(1), Look: p.way.Look})
}

// loginCheck gets a token as a run does, and shows it to every path.
func (d *examination) loginCheck() doctor.Check {
	return doctor.Check{What: "token", Bound: d.duration(2), Look: func(ctx context.Context) []doctor.Finding {
		if !d.c.hasToken() {
			if d.configuredLogin() {
				return d.show(ctx, api.Login{Configured: true}, "mend the Authorization under api.headers")
			}
			return []doctor.Finding{{Result: doctor.OK, What: "token", Message: "none is configured"}}
		}
		f, login, do := d.token(ctx)
		if login.Token == "" {
			return []doctor.Finding{f}
		}
		return append([]doctor.Finding{f}, d.show(ctx, login, do)...)
	}}
}

// configuredLogin tells that requests carry a login of the configuration.
func (d *examination) configuredLogin() bool {
	for name := range d.c.API.Headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

// token gets one; do is what helps when the API refuses it. One from an OAuth 2
// server is kept where runs keep theirs: a refresh token may be good for one use.
func (d *examination) token(ctx context.Context) (f doctor.Finding, l api.Login, do string) {
	kind, do := d.tokenKind()
	f = doctor.Finding{Result: doctor.Failed, What: "token", Do: do}
	isOAuth := strings.HasPrefix(kind, "OAuth")
	if isOAuth {
		kept := filepath.Dir(d.c.tokenCache(d.dir))
		if _, err := os.Stat(kept); err != nil {
			f.Message, f.Do = kind+": not asked for, as it could not be kept: "+err.Error(), cacheHint(d.c.tokenCache(d.dir))
			if d.c.API.Auth.OAuth.CacheFile == "" {
				f.Result, f.Do = doctor.Warning, "mkdir -p -m 700 "+quoted(kept) // a run makes it
			}
			return f, l, do
		}
	}
	var said atomic.Pointer[string]
	say := func(s string) { said.Store(&s) }
	tokens, err := d.c.tokenSource(d.sys, d.dir, d.c.marking(bulk, func(string) {}), say, say)
	said.Store(nil) // of the files' modes, which are looked at elsewhere
	var token oauth.Token
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, d.c.Upload.RequestTimeout)
		defer cancel()
		token, err = tokens.Token(ctx)
	}
	if err != nil {
		f.Message = kind + ": " + err.Error()
		if errors.Is(err, oauth.ErrCache) {
			f.Do = cacheHint(d.c.tokenCache(d.dir))
		}
		return f, l, do
	}
	d.masks.Add(token.Value)
	f.Result, f.Message, f.Do = doctor.OK, kind+"; "+expires(token.Expires, time.Now()), ""
	if s := said.Load(); s != nil && isOAuth {
		f.Result, f.Message, f.Do = doctor.Warning, f.Message+"; "+*s, "see the rights of the state directory, or set api.auth.oauth.cache_file"
	}
	l.Token = token.Value.Reveal()
	return f, l, do
}

// tokenKind says where the token comes from, and what to do when it is refused.
func (d *examination) tokenKind() (kind, do string) {
	a := d.c.API.Auth
	switch {
	case !a.Token.IsZero():
		return "from the configuration", "set a new one as api.auth.token"
	case a.TokenFile != "":
		path, _ := credential(a.TokenFile, d.sys.getenv)
		return "from the file " + path, "write a new one into the file: " + path
	case len(a.TokenCommand) > 0:
		return "from the command " + a.TokenCommand[0], "see what it prints, and to whom it is granted: " + a.TokenCommand[0]
	}
	grant := "client secret"
	if !a.OAuth.RefreshToken.IsZero() || a.OAuth.RefreshTokenFile != "" {
		grant = "refresh token"
	}
	return "OAuth 2 by " + grant, "see the options under api.auth.oauth, and ask for the rights of client " + a.OAuth.ClientID
}

// show makes every path's request with a login, all at once.
func (d *examination) show(ctx context.Context, l api.Login, do string) []doctor.Finding {
	all := make([]doctor.Finding, 0, len(d.paths))
	var wg sync.WaitGroup
	for _, p := range d.paths {
		if p.err == nil {
			all = append(all, doctor.Finding{})
			into := &all[len(all)-1] // all has room enough to stay where it is
			wg.Go(func() { *into = p.way.Refused(ctx, l, do) })
		}
	}
	wg.Wait()
	return all
}
