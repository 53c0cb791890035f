package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"syscall"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/breaker"
	"trafficup/internal/config"
	"trafficup/internal/dscp"
	"trafficup/internal/netpath"
	"trafficup/internal/oauth"
	"trafficup/internal/ratelimit"
	"trafficup/internal/retry"
	"trafficup/internal/uploader"
	"trafficup/internal/verdict"
)

// pathSetup is one path as configured.
type pathSetup struct {
	name, url string
	key       string // of the URL in the configuration
	config.Path
}

// pathSetups are all paths, the most wanted first: primary, fallback, and the
// others by name.
func (c Config) pathSetups() []pathSetup {
	urls := map[string]string{"primary": c.API.Primary, "fallback": c.API.Fallback}
	names := []string{"primary", "fallback"}
	for _, name := range slices.Sorted(maps.Keys(c.Paths)) {
		if name != "primary" && name != "fallback" {
			urls[name], names = c.Paths[name].URL, append(names, name)
		}
	}
	var all []pathSetup
	for n, name := range names {
		if urls[name] != "" {
			p := pathSetup{name, urls[name], "paths." + name + ".url", c.Paths[name]}
			if n < 2 {
				p.key = "api." + name
			}
			if p.TLS == (config.TLS{}) {
				p.TLS = c.API.TLS
			}
			all = append(all, p)
		}
	}
	return all
}

// client is what sends on a path: by own connections, or by net/http.
type client interface {
	Send(ctx context.Context, r api.Request) api.Outcome
	Warm(ctx context.Context, n int)
	Renew()
	Close()
}

func (p pathSetup) newClient(sys *system, c Config) (client, string, error) {
	headers := map[string]string{}
	for name, value := range c.API.Headers {
		headers[name] = value.Reveal()
	}
	cfg := api.Config{
		URL: p.url, UserAgent: "trafficup/" + versionString(), KeyForm: c.API.KeyForm, Headers: headers,
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
	rates   map[string]*limiter            // by path, as configured
}

// newRoute builds the ways to the API.
func newRoute(sys *system, c Config, dir, runID string, tokens oauth.Source, u *ui) (*route, error) {
	setups := c.pathSetups()
	r := &route{
		setups: setups, limits: map[string]*ratelimit.Adaptive{}, rates: map[string]*limiter{}, chooser: c.newChooser(setups),
	}
	store := c.breakerStore(dir)
	for n, p := range setups {
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
		path := r.newPath(c, n, cl, store, runID, tokens, u)
		if c.Upload.Concurrency.Auto() {
			limit := ratelimit.NewAdaptive(ratelimit.AdaptiveConfig{Max: c.workers()})
			path.Permits, r.limits[p.name] = permits{limit}, limit
		}
		r.paths = append(r.paths, path)
	}
	return r, nil
}

// newPath builds the path n of the setups, which sends through cl.
func (r *route) newPath(c Config, n int, cl client, store breaker.Store, runID string, tokens oauth.Source, u *ui) uploader.Path {
	p := r.setups[n]
	r.rates[p.name] = newLimiter(p.Rate, 0)
	br := breaker.New(breaker.Config{
		Threshold: c.Breaker.Threshold, Window: c.Breaker.Window, Open: c.Breaker.Open, OpenMax: c.Breaker.OpenMax,
		ProbeLease: c.Upload.ConnectTimeout + c.Upload.RequestTimeout, Jitter: c.Breaker.Jitter,
		Eager: func(now time.Time) bool { return r.chooser.InWindow(n, now) },
	}, store, p.name+" "+config.Shown(p.url), func(from, to breaker.Phase, s breaker.State) {
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
		Name: p.name, Sender: &sender{client: cl, runID: runID, tokens: tokens, masks: c.masks(), steer: steer}, Breaker: &pathBreaker{b: br, warn: u.warn},
		Gate: new(ratelimit.Gate), Budget: retry.NewBudget(c.Retry.Budget, floor), Limiter: steer, Rate: r.rates[p.name],
	}
}

func (c Config) breakerStore(dir string) breaker.Store {
	if c.Breaker.Store == "file" {
		return breaker.NewFile(dir + "/breaker.json")
	}
	return breaker.NewMemory()
}

// windows are the maintenance windows.
func (c Config) windows() (all netpath.Windows) {
	for _, m := range c.Maintenance {
		if w, err := parseWindow(m); err == nil { // checked before
			all = append(all, w)
		}
	}
	return all
}

func parseWindow(m config.MaintenanceTime) (netpath.Window, error) {
	return netpath.ParseWindow(netpath.Spec{Path: m.Path, Days: m.Days, From: string(m.From), To: string(m.To), TZ: m.TZ, Closed: m.Closed})
}

func (c Config) newChooser(setups []pathSetup) *netpath.Chooser {
	cfg := netpath.Config{
		Windows: c.windows(), Failback: c.Upload.Failback, Canary: c.Upload.Canary.Part, CanaryFallback: c.Upload.CanaryFallback.Part, Quota: map[int]netpath.Quota{},
	}
	for n, p := range setups {
		cfg.Names = append(cfg.Names, p.name)
		quota := p.Quota
		if quota == (config.Quota{}) && n > 0 {
			quota = c.Upload.FallbackQuota
		}
		if quota != (config.Quota{}) {
			cfg.Quota[n] = netpath.Quota{Bytes: int64(quota.Bytes), Share: quota.Share.Part}
		}
	}
	return netpath.NewChooser(cfg)
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
