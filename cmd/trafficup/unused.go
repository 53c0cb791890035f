package main

import (
	"fmt"
	"net"
	"net/url"

	"trafficup/internal/config"
)

// warnUnused warns of options that are set and change nothing.
func (c Config) warnUnused() {
	setups := c.pathSetups()
	if len(setups) == 1 {
		const alone = "changes nothing: there is no path behind the first"
		if c.Upload.FallbackQuota != (config.Quota{}) {
			c.Warn("upload.fallback_quota", alone)
		}
		if c.Upload.CanaryFallback.Part > 0 {
			c.Warn("upload.canary_fallback", alone)
		}
	}
	for _, s := range setups {
		set := s.Proxy != "" && s.Proxy != "env" && s.Proxy != "none"
		if u, err := url.Parse(s.url); set && err == nil && loopback(u.Hostname()) {
			c.Warn("paths."+s.name+".proxy", "is not used: the URL is on this machine")
		}
	}
}

// absentInterfaces names, a line for each path, interfaces that are configured
// and are not here. They may come later: a modem, a tunnel.
func (c Config) absentInterfaces() (lines []string) {
	if c.Upload.DryRun || c.Upload.Sandbox != "" {
		return nil
	}
	for _, s := range c.pathSetups() {
		if s.Interface == "" {
			continue
		}
		if _, err := net.InterfaceByName(s.Interface); err != nil {
			lines = append(lines, fmt.Sprintf("interface %s of path %s does not exist here: ip link shows those that do", s.Interface, s.name))
		}
	}
	return lines
}
