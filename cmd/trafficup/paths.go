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

func (p pathSetup) newClient(sys *system, c Config, mark *marking) (client, string, error) {
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
		Unmarked: mark.unmarked("path " + p.name),
	}
	var err error
	if cfg.Socket.DSCP, err = mark.of(p); err != nil {
		return nil, "", fmt.Errorf("dscp: %w", err)
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
		if err != nil {
			return nil, "", err // and no client that is none
		}
		return cl, "", nil
	}
	via := ""
	if proxy != nil {
		via = proxy.Host
	}
	t, err := api.NewTransport(cfg, api.TransportConfig{HTTP2: p.HTTP == 2, Proxy: proxy})
	if err != nil {
		return nil, via, err
	}
	return t, via, nil
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
	proxies map[string]string              // by path: the host it goes through
	tokens  oauth.Source                   // nil: none
	held    float64                        // calls per second that the first path may make; 0: any number
	shared  *sharing                       // nil in a dry run
	carrier *carrier                       // nil in a dry run
	mark    *marking
	class   string // of its calls, where a ceiling is shared: upload, nightly, replay, backfill
}

// routing is what the ways to the API are made with.
type routing struct {
	sys      *system
	c        Config
	command  string // upload or replay
	dir      string // of the state
	runID    string
	tokens   oauth.Source // nil: requests carry none
	deadline time.Time    // zero: none
	mark     *marking
	traffic  string // class of the run's packets: bulk or interactive
	u        *ui
}

// class is that of the run's calls, one of [priorities].
func (b routing) class() string {
	if _, named := priorities[b.c.Upload.Priority]; named {
		return b.c.Upload.Priority
	}
	return b.command
}

// newRoute builds the ways to the API.
func newRoute(b routing) (*route, error) {
	sys, c, u := b.sys, b.c, b.u
	setups := c.pathSetups()
	shared, err := b.share()
	if err != nil {
		return nil, err
	}
	r := &route{
		setups: setups, limits: map[string]*ratelimit.Adaptive{}, rates: map[string]*limiter{}, proxies: map[string]string{},
		chooser: c.newChooser(setups, u, shared.clock.Correction), tokens: b.tokens, held: slower(c.Upload.Rate, setups[0].Rate), shared: shared,
		class: b.class(), mark: b.mark, carrier: c.newCarrier(sys, b.traffic, shared.client, u),
	}
	store, budget := c.breakerStore(b.dir), c.budget()
	if shared.store != nil {
		store = shared.store
	}
	for n, p := range setups {
		cl, via, err := p.newClient(sys, c, b.mark)
		if err != nil {
			r.close()
			return nil, usageError("", "path %s: %w", p.name, err)
		}
		if w := api.KeyWarning(p.TLS.KeyFile); w != "" {
			u.warn(w)
		}
		if r.proxies[p.name] = via; via != "" {
			u.note(fmt.Sprintf("%s goes through the proxy %s", p.name, via))
		}
		r.clients = append(r.clients, cl)
		path := r.newPath(b, n, cl, store, budget)
		if c.Upload.Concurrency.Auto() {
			limit := ratelimit.NewAdaptive(ratelimit.AdaptiveConfig{Max: c.workers()})
			path.Permits, r.limits[p.name] = permits{limit}, limit
		}
		r.paths = append(r.paths, path)
	}
	return r, nil
}

// newPath builds the path n of the setups, which sends through cl.
func (r *route) newPath(b routing, n int, cl client, store breaker.Store, budget *retry.Budget) uploader.Path {
	p, c, u := r.setups[n], b.c, b.u
	r.rates[p.name] = newLimiter(p.Rate, 0)
	cfg := breaker.Config{
		Threshold: c.Breaker.Threshold, Window: c.Breaker.Window, Open: c.Breaker.Open, OpenMax: c.Breaker.OpenMax,
		ProbeLease: c.Upload.ConnectTimeout + c.Upload.RequestTimeout, Jitter: c.Breaker.Jitter,
		Deadline: b.deadline,
		Eager:    func(now time.Time) bool { return r.chooser.InWindow(n, now) },
	}
	if r.shared.store != nil {
		cfg.Fresh = time.Millisecond // its copy is kept fresh without being asked
	}
	br := breaker.New(cfg, store, p.breakerKey(c.Breaker.Store), func(news breaker.News) {
		if news.Moved() && news.Is.Phase == breaker.HalfOpen {
			cl.Renew() // the probe is to find the path as it is now
		}
		if is := heldOpen(news.Is); is != heldOpen(news.Was) {
			r.chooser.Held(n, is, time.Now())
		}
		u.breakerNews(p.name, news)
	})
	steer := ratelimit.NewSteer()
	return uploader.Path{
		Name: p.name, Sender: &sender{path: p.name, warn: u.warn, client: cl, runID: b.runID, tokens: b.tokens, masks: c.masks(), steer: steer, shared: r.shared},
		Breaker: &pathBreaker{b: br, warn: u.warn, judged: func(v breaker.Verdict, is breaker.State) { r.shared.judged(p.name, v, is, time.Now()) }},
		Gate:    &gate{asked: func(until, now time.Time) { r.chooser.Asked(n, until, now) }}, Budget: budget, Limiter: steer, Rate: r.rates[p.name],
	}
}

// budget is that of all paths together, so that their number does not multiply
// calls. A link that goes takes with it all that is in flight: it has to bear that
// once.
func (c Config) budget() *retry.Budget {
	floor := c.Retry.BudgetMin
	if floor > 0 {
		floor = max(floor, c.workers())
	}
	return retry.NewBudget(c.Retry.Budget, floor)
}

// slower returns the lower of two rates; 0 is none.
func slower(a, b float64) float64 {
	if a > 0 && b > 0 {
		return min(a, b)
	}
	return max(a, b)
}

// gate lets the chooser hear what a path's server asks for.
type gate struct {
	ratelimit.Gate
	asked func(until, now time.Time)
}

func (g *gate) Close(until, now time.Time) {
	g.Gate.Close(until, now)
	g.asked(until, now)
}

// breakerStore is where a run keeps its breakers, unless that is Redis.
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

// newChooser writes the quotas that hold into the setups. u hears of windows that
// begin and end, and of quotas that are spent.
func (c Config) newChooser(setups []pathSetup, u *ui, skew func() time.Duration) *netpath.Chooser {
	cfg := netpath.Config{
		Skew:    skew,
		Windows: c.windows(), Failback: c.Upload.Failback, Canary: c.Upload.Canary.Part, CanaryFallback: c.Upload.CanaryFallback.Part, Quota: map[int]netpath.Quota{},
	}
	for n := range setups {
		p := &setups[n]
		cfg.Names = append(cfg.Names, p.name)
		if p.Quota == (config.Quota{}) && n > 0 {
			p.Quota = c.Upload.FallbackQuota
		}
		if p.Quota != (config.Quota{}) {
			cfg.Quota[n] = netpath.Quota{Bytes: int64(p.Quota.Bytes), Share: p.Quota.Share.Part}
		}
	}
	cfg.Notify = func(path int, n netpath.News, until time.Time) {
		switch name := cfg.Names[path]; n {
		case netpath.WindowBegan:
			u.note(fmt.Sprintf("maintenance of %s has begun, to %s", name, until.UTC().Format("2006-01-02T15:04Z07:00")))
		case netpath.WindowEnded:
			u.note(fmt.Sprintf("maintenance of %s is over", name))
		case netpath.QuotaSpent:
			u.warn(setups[path].spent() + ": this run uses the path no more")
		}
	}
	return netpath.NewChooser(cfg)
}

// spent tells of a path whose quota is used up.
func (p pathSetup) spent() string {
	quota, _ := p.Quota.MarshalText() // it never fails
	return fmt.Sprintf("%s: quota of %s spent", p.name, quota)
}

// warm opens a connection or two on the first path, unless that is closed, so that
// the first records do not all wait for handshakes.
func (r *route) warm(ctx context.Context, n int) {
	_, _, closed := r.chooser.Closed(0, time.Now())
	if _, held := r.carrier.Held(time.Now()); !closed && !held {
		r.clients[0].Warm(ctx, n)
	}
}

// switched leaves the connections behind that were made by another uplink. They keep
// its address, and where that is not translated they are silent from now on: each
// would cost a request its whole timeout to find out, though nothing is wrong with
// the API. A path that is bound to an interface or an address goes where it went.
func (r *route) switched() {
	for n, p := range r.setups {
		if p.Interface == "" && p.Source == "" {
			r.clients[n].Renew()
		}
	}
}

func (r *route) close() {
	if k, ok := r.tokens.(interface{ Keep() }); ok {
		k.Keep()
	}
	for _, cl := range r.clients {
		cl.Close()
	}
	r.shared.close()
}

// hear takes an attempt into the measurements. One that the deadline cut off is no
// fault of anybody.
func (r *route) hear(a uploader.Attempted) {
	o := a.Outcome
	op, isOp := errors.AsType[*net.OpError](o.Err)
	m := verdict.Attempt{
		Path: a.Path, Duration: o.Duration, Status: o.Status, Wrote: o.Wrote, Throttled: o.Throttled,
		Timeout: errors.Is(o.Err, api.ErrTimeout) && !a.Cut, Foreign: errors.Is(o.Err, api.ErrNotAPI),
		Misset: o.Class == uploader.ClassConfig, WaitedByRate: a.RateWait, GateWait: a.GateWait,
	}
	if o.Status == 0 && o.Err != nil && !a.Cut && !m.Timeout && !m.Foreign && !errors.Is(o.Err, api.ErrCancelled) {
		// No answer, whatever kept it away: no connection, or one that broke.
		m.Dial = !o.Wrote && isOp && op.Op == "dial"
		m.Reset = !m.Dial || errors.Is(o.Err, syscall.ECONNREFUSED)
	}
	if via := r.proxies[a.Path]; via != "" && !o.Wrote && (m.Dial || m.Reset || m.Timeout) {
		m.Proxy, m.Reset = via, errors.Is(o.Err, syscall.ECONNREFUSED)
	}
	if l := o.Link; l != nil {
		m.HasLink, m.RTT, m.RTTVar, m.MinRTT, m.Segments, m.Retransmits, m.Lost = true, l.RTT, l.RTTVar, l.MinRTT, l.Segments, l.Retransmits, l.Lost
	}
	r.meter.Add(m)
}

// chooser gives netpath's the uploader's shape.
type chooser struct {
	*netpath.Chooser
	carrier *carrier
}

var toNetpath = map[uploader.Verdict]netpath.Verdict{
	uploader.VerdictOK: netpath.OK, uploader.VerdictFail: netpath.Fail, uploader.VerdictNeutral: netpath.Neutral,
}

func (c chooser) Done(path int, v uploader.Verdict, bytes int, now time.Time) {
	c.carrier.count(bytes)
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
