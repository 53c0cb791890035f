package main

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strings"

	"trafficup/internal/api"
	"trafficup/internal/breaker"
	"trafficup/internal/config"
	"trafficup/internal/redis"
	"trafficup/internal/secret"
)

// leastShared is the lowest ceiling, in calls per second.
const leastShared = 0.01

// hasRedis tells that the configuration says where Redis is.
func (c Config) hasRedis() bool {
	r := c.Redis
	return r.URL != "" || r.Sentinel.Master != "" || len(r.Sentinel.Addrs) > 0 || len(r.Cluster) > 0
}

// group is the name under which machines share: that of the API, however it is
// reached. Neither scheme nor query belong to it.
func (c Config) group() string {
	if c.Redis.Group != "" {
		return c.Redis.Group
	}
	u, err := url.Parse(c.API.Primary)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host) + strings.TrimRight(u.EscapedPath(), "/")
}

// openRedis returns a client for what is configured, which does not connect yet;
// notify hears when Redis is away, and with nil when it is back. warn hears what
// is wrong with files that hold secrets.
func (c Config) openRedis(sys *system, warn func(string), notify func(error)) (*redis.Client, error) {
	r := c.Redis
	if c.group() == "" {
		return nil, usageError("give --url, or redis.group", "no name under which machines share: it is that of the API")
	}
	cfg := redis.Config{
		API: c.group(), URL: r.URL, Cluster: r.Cluster, Username: r.Username, Password: r.Password, Notify: notify,
		Sentinel: redis.Sentinel{Master: r.Sentinel.Master, Addrs: r.Sentinel.Addrs, Username: r.Sentinel.Username, Password: r.Sentinel.Password},
	}
	for _, s := range []struct {
		file string
		into *secret.Secret
	}{{r.PasswordFile, &cfg.Password}, {r.Sentinel.PasswordFile, &cfg.Sentinel.Password}} {
		if s.file == "" {
			continue
		}
		path, guarded := credential(s.file, sys.getenv)
		value, warning, err := secret.ReadFile(path)
		if err != nil {
			return nil, usageError("", "redis: %w", err)
		}
		if warning != "" && !guarded {
			warn(warning)
		}
		*s.into = value
	}
	if r.TLS != (config.TLS{}) {
		var err error
		if cfg.TLS, err = api.LoadTLS(r.TLS.CAFile, r.TLS.CertFile, r.TLS.KeyFile); err != nil {
			return nil, usageError("", "redis: tls: %w", err)
		}
	}
	cl, err := redis.Open(cfg)
	if err != nil {
		return nil, usageError("", "%w", err)
	}
	return cl, nil
}

// checkRedis finds what is wrong about what machines share, without asking anybody.
func (c Config) checkRedis() {
	r := c.Redis
	if c.Breaker.Store == "redis" && !c.hasRedis() {
		c.Fault("breaker.store", "needs to know where Redis is: give redis.url (--redis), redis.sentinel or redis.cluster")
	}
	if c.Upload.SharedRate > 0 && !c.hasRedis() {
		c.Fault("upload.shared_rate", "needs to know where Redis is: give redis.url (--redis), redis.sentinel or redis.cluster")
	}
	if rate := c.Upload.SharedRate; rate > 0 && rate < leastShared {
		c.Fault("upload.shared_rate", "%g: at least %g, or 0 for no limit", rate, leastShared)
	}
	if c.Upload.SharedRate > 0 && c.Origin("redis.uploaders").Layer == "default" {
		c.Warn("redis.uploaders", "is 1: a machine that cannot reach Redis from its start on takes all of upload.shared_rate; say how many share it")
	}
	for _, s := range []struct {
		key  string
		both bool
	}{{"redis.password_file", !r.Password.IsZero() && r.PasswordFile != ""}, {"redis.sentinel.password_file", !r.Sentinel.Password.IsZero() && r.Sentinel.PasswordFile != ""}} {
		if s.both {
			c.Fault(s.key, "goes over password; leave one of them out")
		}
	}
	if u, err := url.Parse(r.URL); err == nil {
		if _, secret := u.User.Password(); secret && strings.HasPrefix(c.Origin("redis.url").Layer, "flag") {
			c.Fault("redis.url", "a password on the command line is seen by everybody: use redis.password_file")
		}
		if u.Scheme == "redis" && (u.User != nil || !r.Password.IsZero() || r.PasswordFile != "") && !loopback(u.Hostname()) && r.TLS == (config.TLS{}) {
			c.Warn("redis.url", "the password goes over the network in clear: use rediss://")
		}
	}
	for n, t := range r.Uplink {
		if host, port, err := net.SplitHostPort(t); err != nil || host == "" || badPort(port) {
			c.Fault(fmt.Sprintf("redis.uplink_targets[%d]", n), "%q is not host:port", secret.RedactURL(t))
		}
	}
	if len(r.Uplink) == 1 {
		c.Fault("redis.uplink_targets", "one server says nothing about this machine's uplink: give two or more")
	}
	if r.Group != "" && strings.TrimSpace(r.Group) != r.Group {
		c.Fault("redis.group", "%q begins or ends with a blank", r.Group)
	}
	if !c.hasRedis() {
		if r.Group != "" || len(r.Uplink) > 0 || r.Required || r.Username != "" || !r.Password.IsZero() || r.PasswordFile != "" {
			c.Fault("redis.url", "is missing; without it, sentinel or cluster the rest of redis is of no use")
		}
		return
	}
	if c.Breaker.Store != "redis" && c.Upload.SharedRate == 0 {
		c.Warn("redis", "shares no more than latencies: for the breakers breaker.store is to be redis, for one ceiling upload.shared_rate is to be set")
	}
	key := "redis.sentinel"
	switch {
	case r.URL != "":
		key = "redis.url"
	case len(r.Cluster) > 0:
		key = "redis.cluster"
	}
	cl, err := redis.Open(redis.Config{
		API: cmp.Or(c.group(), "api"), URL: r.URL, Cluster: r.Cluster,
		Sentinel: redis.Sentinel{Master: r.Sentinel.Master, Addrs: r.Sentinel.Addrs},
	})
	if err != nil {
		c.Fault(key, "%s", strings.TrimPrefix(err.Error(), "redis: "))
		return
	}
	_ = cl.Close() // nothing was sent
}

// openBreakers opens the store that runs share, to be given back with done. file is
// the one in the state directory.
func (c Config) openBreakers(sys *system, file string) (store breaker.Store, done func(), err error) {
	switch c.Breaker.Store {
	case "file":
		return breaker.NewFile(file), func() {}, nil
	case "redis":
		warn := func(text string) { fmt.Fprintf(sys.stderr, "trafficup: warning: %s\n", printable(text)) }
		cl, err := c.openRedis(sys, warn, nil)
		if err != nil {
			return nil, nil, err
		}
		return cl.Breakers(c.Breaker.OpenMax, nil), func() { _ = cl.Close() }, nil
	}
	return nil, nil, usageError("", "breaker.store is %s: the state lives in the memory of each process", c.Breaker.Store)
}
