package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/breaker"
	"trafficup/internal/dscp"
	"trafficup/internal/netpath"
	"trafficup/internal/ratelimit"
	"trafficup/internal/retry"
	"trafficup/internal/uploader"
	"trafficup/internal/verdict"
)

// pathSetup is one path as configured.
type pathSetup struct {
	name, url string
	PathConfig
}

// pathSetups are all paths, the most wanted first: primary, fallback, and the
// others by name.
func (c Config) pathSetups() ([]pathSetup, error) {
	urls := map[string]string{"primary": c.API.Primary, "fallback": c.API.Fallback}
	names := []string{"primary", "fallback"}
	for _, name := range slices.Sorted(maps.Keys(c.Paths)) {
		switch known := slices.Contains(names, name); {
		case known && c.Paths[name].URL != "":
			return nil, usageError("", "paths.%s.url: this path's URL is api.%[1]s", name)
		case !known && c.Paths[name].URL == "":
			return nil, usageError("", "paths.%s.url: missing: only primary and fallback have theirs elsewhere", name)
		case !known:
			urls[name], names = c.Paths[name].URL, append(names, name)
		}
	}
	if urls["primary"] != "" && urls["primary"] == urls["fallback"] {
		return nil, usageError("leave one of them out", "primary and fallback have the same URL: that is one path")
	}
	var all []pathSetup
	for _, name := range names {
		if urls[name] != "" {
			p := pathSetup{name, urls[name], c.Paths[name]}
			if p.TLS == (TLSConfig{}) {
				p.TLS = c.API.TLS
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// shownURL is a URL without what may be a secret: its query.
func shownURL(raw string) string {
	if before, _, found := strings.Cut(raw, "?"); found {
		return before + "?***"
	}
	return raw
}

// client is what sends on a path: by own connections, or by net/http.
type client interface {
	Send(ctx context.Context, r api.Request) api.Outcome
	Warm(ctx context.Context, n int)
	Renew()
	Close()
}

func (p pathSetup) newClient(sys *system, c Config) (client, string, error) {
	cfg := api.Config{
		URL: p.url, UserAgent: "trafficup/" + versionString(), KeyForm: c.API.KeyForm, Headers: c.API.Headers,
		ConnectTimeout: c.Upload.ConnectTimeout, RequestTimeout: c.Upload.RequestTimeout, MaxIdle: c.workers(), MaxAge: p.MaxAge, Dial: sys.dial,
		Policy: api.Policy{RetryStatus: c.Retry.Status, AcceptTypes: c.API.Accept},
		Socket: api.SocketOptions{
			Interface: p.Interface, Source: p.Source, UserTimeout: p.UserTimeout, Congestion: p.Congestion, KeepAlive: p.KeepAlive,
		},
	}
	var err error
	if p.DSCP != "" {
		if cfg.Socket.DSCP, err = dscp.Parse(p.DSCP); err != nil {
			return nil, "", fmt.Errorf("dscp: %w", err)
		}
	}
	if cfg.TLS, err = api.LoadTLS(p.TLS.CAFile, p.TLS.CertFile, p.TLS.KeyFile); err != nil {
		return nil, "", fmt.Errorf("tls: %w", err)
	}
	proxy, err := api.ProxyFor(p.Proxy, p.url, sys.getenv)
	if err != nil {
		return nil, "", err
	}
	if p.HTTP < 2 && proxy == nil {
		cl, err := api.NewClient(cfg)
		return cl, "", err
	}
	via := ""
	if proxy != nil {
		via = proxy.Host
	}
	t, err := api.NewTransport(cfg, api.TransportConfig{HTTP2: p.HTTP == 2, Proxy: proxy})
	return t, via, err
}

// route is the ways to the API, and what is measured on them.
type route struct {
	setups  []pathSetup
	paths   []uploader.Path
	chooser *netpath.Chooser
	meter   verdict.Collector
	clients []client
	limits  map[string]*ratelimit.Adaptive // by path, with --concurrency=auto
}

// newRoute builds the ways to the API.
func newRoute(sys *system, c Config, dir, runID, token string, u *ui) (*route, error) {
	setups, err := c.pathSetups()
	if err != nil {
		return nil, err
	}
	r := &route{setups: setups, limits: map[string]*ratelimit.Adaptive{}}
	windows, err := c.windows(setups)
	if err != nil {
		return nil, err
	}
	if r.chooser, err = c.newChooser(setups, windows); err != nil {
		return nil, err
	}
	store := c.breakerStore(dir)
	for _, p := range setups {
		cl, via, err := p.newClient(sys, c)
		if err != nil {
			r.close()
			return nil, usageError("", "path %s: %w", p.name, err)
		}
		if w := api.KeyWarning(p.TLS.KeyFile); w != "" {
			u.warn(w)
		}
		if via != "" {
			u.note(fmt.Sprintf("%s goes through the proxy %s", p.name, via))
		}
		r.clients = append(r.clients, cl)
		path := c.newPath(p, cl, store, windows, runID, token, u)
		if c.Upload.Concurrency == "auto" {
			limit := ratelimit.NewAdaptive(ratelimit.AdaptiveConfig{Max: c.workers()})
			path.Permits, r.limits[p.name] = permits{limit}, limit
		}
		r.paths = append(r.paths, path)
	}
	return r, nil
}

func (c Config) newPath(p pathSetup, cl client, store breaker.Store, windows netpath.Windows, runID, token string, u *ui) uploader.Path {
	br := breaker.New(breaker.Config{
		Threshold: c.Breaker.Threshold, Window: c.Breaker.Window, Open: c.Breaker.Open, OpenMax: c.Breaker.OpenMax,
		ProbeLease: c.Upload.ConnectTimeout + c.Upload.RequestTimeout, Jitter: c.Breaker.Jitter,
		Eager: func(now time.Time) bool { _, in := windows.In(p.name, now); return in },
	}, store, p.name+" "+shownURL(p.url), func(from, to breaker.Phase, s breaker.State) {
		if to == breaker.HalfOpen {
			cl.Renew() // the probe is to find the path as it is now
		}
		u.breakerChanged(p.name, from, to, s)
	})
	// A link that goes takes with it all that is in flight: the budget has to bear that once.
	floor := c.Retry.BudgetMin
	if floor > 0 {
		floor = max(floor, c.workers())
	}
	steer := ratelimit.NewSteer()
	return uploader.Path{
		Name: p.name, Sender: &sender{client: cl, runID: runID, token: token, steer: steer}, Breaker: &pathBreaker{b: br, warn: u.warn},
		Gate: new(ratelimit.Gate), Budget: retry.NewBudget(c.Retry.Budget, floor), Limiter: steer, Rate: newLimiter(p.Rate, 0),
	}
}

func (c Config) breakerStore(dir string) breaker.Store {
	if c.Breaker.Store == "file" {
		return breaker.NewFile(dir + "/breaker.json")
	}
	return breaker.NewMemory()
}

// windows are the maintenance windows; each must be of a path that there is.
func (c Config) windows(setups []pathSetup) (netpath.Windows, error) {
	var all netpath.Windows
	for n, m := range c.Maintenance {
		at := fmt.Sprintf("maintenance[%d]", n)
		from, okFrom := m.From.(string)
		to, okTo := m.To.(string)
		if !okFrom || !okTo {
			return nil, usageError("", "%s: from and to are times of day in quotes, such as \"02:00\"", at)
		}
		if !slices.ContainsFunc(setups, func(p pathSetup) bool { return p.name == m.Path }) {
			return nil, usageError("", "%s.path: there is no path %q", at, m.Path)
		}
		w, err := netpath.ParseWindow(netpath.Spec{Path: m.Path, Days: m.Days, From: from, To: to, TZ: m.TZ, Closed: m.Closed})
		if err != nil {
			return nil, usageError("", "%s: %w", at, err)
		}
		all = append(all, w)
	}
	return all, nil
}

// canary is the share of the requests that tries a path which is not trusted yet.
const canary = 0.01

func (c Config) newChooser(setups []pathSetup, windows netpath.Windows) (*netpath.Chooser, error) {
	cfg := netpath.Config{Windows: windows, Failback: c.Upload.Failback, Canary: canary, Quota: map[int]netpath.Quota{}}
	if s := c.Upload.CanaryFallback; s != "" {
		share, err := parseShare(s)
		if err != nil {
			return nil, usageError("", "upload.canary_fallback: %w", err)
		}
		cfg.CanaryFallback = share
	}
	for n, p := range setups {
		cfg.Names = append(cfg.Names, p.name)
		quota, key := p.Quota, "paths."+p.name+".quota"
		if quota == "" && n > 0 {
			quota, key = c.Upload.FallbackQuota, "upload.fallback_quota"
		}
		if quota == "" {
			continue
		}
		if n == 0 {
			return nil, usageError("", "%s: the first path has no quota: without it nothing could be sent", key)
		}
		q, err := parseQuota(quota)
		if err != nil {
			return nil, usageError("", "%s: %w", key, err)
		}
		cfg.Quota[n] = q
	}
	return netpath.NewChooser(cfg), nil
}

func parseQuota(s string) (q netpath.Quota, err error) {
	if strings.HasSuffix(strings.TrimSpace(s), "%") {
		q.Share, err = parseShare(s)
	} else {
		q.Bytes, err = parseSize(s)
	}
	if err == nil && q == (netpath.Quota{}) {
		err = errors.New("nothing at all: leave the path out instead")
	}
	return q, err
}

// warm opens a connection or two on the first path, unless that is closed, so that
// the first records do not all wait for handshakes.
func (r *route) warm(ctx context.Context, n int) {
	if _, _, closed := r.chooser.Closed(0, time.Now()); !closed {
		r.clients[0].Warm(ctx, n)
	}
}

func (r *route) close() {
	for _, cl := range r.clients {
		cl.Close()
	}
}

// hear takes an attempt into the measurements.
func (r *route) hear(a uploader.Attempted) {
	o := a.Outcome
	op, isOp := errors.AsType[*net.OpError](o.Err)
	m := verdict.Attempt{
		Path: a.Path, Duration: o.Duration, Status: o.Status, Wrote: o.Wrote, Throttled: o.Throttled,
		Timeout: errors.Is(o.Err, api.ErrTimeout), Foreign: errors.Is(o.Err, api.ErrNotAPI),
		Misset: o.Class == uploader.ClassConfig, WaitedByRate: a.RateWait, GateWait: a.GateWait,
	}
	if o.Status == 0 && o.Err != nil && !m.Timeout && !m.Foreign && !errors.Is(o.Err, api.ErrCancelled) {
		// No answer, whatever kept it away: no connection, or one that broke.
		m.Dial = !o.Wrote && isOp && op.Op == "dial"
		m.Reset = !m.Dial || errors.Is(o.Err, syscall.ECONNREFUSED)
	}
	if l := o.Link; l != nil {
		m.HasLink, m.RTT, m.RTTVar, m.MinRTT, m.Segments, m.Retransmits, m.Lost = true, l.RTT, l.RTTVar, l.MinRTT, l.Segments, l.Retransmits, l.Lost
	}
	r.meter.Add(m)
}

// chooser gives netpath's the uploader's shape.
type chooser struct{ *netpath.Chooser }

var toNetpath = map[uploader.Verdict]netpath.Verdict{
	uploader.VerdictOK: netpath.OK, uploader.VerdictFail: netpath.Fail, uploader.VerdictNeutral: netpath.Neutral,
}

func (c chooser) Done(path int, v uploader.Verdict, bytes int, now time.Time) {
	c.Chooser.Done(path, toNetpath[v], bytes, now)
}

// permits gives the adaptive limit the uploader's shape.
type permits struct{ a *ratelimit.Adaptive }

func (p permits) Acquire(ctx context.Context) error { return p.a.Acquire(ctx) }

func (p permits) Release(a uploader.Attempted, gated bool) {
	s := ratelimit.Sample{Duration: a.Outcome.Duration, Frozen: gated, Shrink: a.Outcome.Throttled || errors.Is(a.Outcome.Err, api.ErrTimeout) || a.Outcome.Status == 503}
	if a.Outcome.Link != nil {
		s.RTT = a.Outcome.Link.RTT
	}
	p.a.Release(s, time.Now())
}
