package main

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/config"
	"trafficup/internal/dscp"
	"trafficup/internal/envelope"
	"trafficup/internal/oauth"
)

// check finds the mistakes that the tree's own rules cannot see: in values that
// other packages read, and between options.
func (c Config) check(sys *system) {
	if _, err := windowEnd(string(c.Upload.WindowEnd), time.Now()); c.Upload.WindowEnd != "" && err != nil {
		c.Fault("upload.window_end", "%v", err)
	}
	if _, err := envelope.NewValidator(c.rules()); err != nil {
		c.Fault("envelope", "%v", err)
	}
	c.checkPaths(sys)
	for n, m := range c.Maintenance {
		at := fmt.Sprintf("maintenance[%d]", n)
		if _, known := c.Paths[m.Path]; !known && m.Path != "primary" && m.Path != "fallback" && m.Path != "" {
			c.Fault(at+".path", "there is no path %q", m.Path)
		}
		if _, err := parseWindow(m); err != nil {
			c.Fault(at, "%v", err)
		}
	}
	c.checkMetered()
	c.checkHeaders()
	if err := oauth.Valid(c.API.Auth.Token); err != nil {
		c.Fault("api.auth.token", "%v", err)
	}
	c.checkOAuth()
	c.checkNetshape()
	c.checkFailover()
	c.checkRedis()
	c.warnUnused()
}

func (c Config) checkHeaders() {
	for name, value := range c.API.Headers {
		key := "api.headers." + name
		_, err := api.NewClient(api.Config{URL: "https://api.example/", Headers: map[string]string{name: value.Reveal()}})
		switch {
		case err != nil:
			c.Fault(key, "%v", err)
		case strings.EqualFold(name, "Authorization") && c.hasToken():
			c.Fault(key, "the token under api.auth is sent in this header; leave one of them out")
		}
	}
}

func (c Config) checkPaths(sys *system) {
	for name, p := range c.Paths {
		key := "paths." + name
		switch known := name == "primary" || name == "fallback"; {
		case known && p.URL != "":
			c.Fault(key+".url", "this path's URL is api.%s", name)
		case !known && p.URL == "":
			c.Fault(key+".url", "is missing: only primary and fallback have theirs elsewhere")
		case name == "fallback" && c.API.Fallback == "" && c.API.Primary != "":
			c.Warn(key, "is not used: there is no api.fallback")
		}
		if _, err := dscp.Parse(p.DSCP); p.DSCP != "" && err != nil {
			c.Fault(key+".dscp", "%v", err)
		}
		proxy, err := api.ProxyFor(p.Proxy, "https://api.example", sys.getenv)
		switch {
		case err != nil:
			c.Fault(key+".proxy", "%v", err)
		case proxy != nil && badPort(proxy.Port()):
			c.Fault(key+".proxy", "%s is no port", proxy.Port())
		}
	}
	if p := c.API.Primary; p != "" && p == c.API.Fallback {
		c.Fault("api.fallback", "is the URL of api.primary, too: that is one path; leave one of them out")
	}
	setups := c.pathSetups()
	if len(setups) > 0 && setups[0].Quota != (config.Quota{}) {
		c.Fault("paths."+setups[0].name+".quota", "the first path has no quota: without it nothing could be sent")
	}
	for _, s := range setups {
		if u, err := url.Parse(s.url); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) && c.hasToken() {
			c.Warn(s.key, "the token goes over the network in clear: use https")
		}
	}
}

func badPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port != "" && (err != nil || n == 0)
}

func (c Config) hasToken() bool {
	a := c.API.Auth
	return !a.Token.IsZero() || a.TokenFile != "" || len(a.TokenCommand) > 0 || a.OAuth.TokenURL != ""
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
