package doctor

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Files of ifupdown, as expressions that sed -E has, too: the beginning of what an
// interface is given, and that of anything else.
const (
	ifaceOf  = `^\s*iface\s+%s\s+inet\s`
	endIface = `^\s*(iface|mapping|auto|allow-\w+|source|source-directory|no-auto-down|no-scripts|rename)\s`
)

var (
	endOfStanza = regexp.MustCompile(`(?m)` + endIface)
	metricLine  = regexp.MustCompile(`(?m)^\s*metric\s`)
	gatewayLine = regexp.MustCompile(`(?m)^\s*gateway\s`)
)

// stanza is what a file of ifupdown gives an interface for IPv4, its method first; ""
// is nothing that may set a default.
func stanza(text, name string) string {
	begin := regexp.MustCompile(`(?m)` + fmt.Sprintf(ifaceOf, regexp.QuoteMeta(name)) + `\s*(dhcp|static)`).FindStringSubmatchIndex(text)
	if begin == nil {
		return ""
	}
	text = text[begin[2]:]
	if end := endOfStanza.FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	return text
}

// noMetric tells of a stanza that sets a default without a metric.
func noMetric(stanza string) bool {
	return (strings.HasPrefix(stanza, "dhcp") || gatewayLine.MatchString(stanza)) && !metricLine.MatchString(stanza)
}

// setStanza gives an interface a metric, in place of one that it has.
func setStanza(file, name string, metric uint32) string {
	begin := fmt.Sprintf(ifaceOf, regexp.QuoteMeta(name))
	return fmt.Sprintf(`sed -Ei '/%s/,/%s/{/^\s*metric\s/d};/%[1]s/a\    metric %[3]d' /%[4]s`, begin, endIface, metric, file)
}

// netplanFiles are those of netplan.
func netplanFiles(root fs.FS) []string {
	return listed(root, "etc/netplan/*.yaml", "run/netplan/*.yaml")
}

// netplanAsks tells that netplan has an interface of its section ethernets ask by DHCP
// for its address: only then it takes a metric for that.
func netplanAsks(root fs.FS, name string) (asks bool) {
	for _, file := range netplanFiles(root) {
		var plan struct {
			Network struct {
				Ethernets map[string]struct {
					DHCP4 string `yaml:"dhcp4"`
				} `yaml:"ethernets"`
			} `yaml:"network"`
		}
		if yaml.Unmarshal([]byte(text(root, file)), &plan) != nil {
			continue
		}
		if said := plan.Network.Ethernets[name].DHCP4; said != "" {
			asks = yes(said)
		}
	}
	return asks
}

// networkdAsks is the same of a file of systemd-networkd.
func networkdAsks(root fs.FS, file string) bool {
	said := sections(root, strings.TrimPrefix(file, "/"))["Network"]["DHCP"]
	return yes(said) || said == "ipv4"
}

// yes is the opposite of [no], of words that netplan and systemd have.
func yes(value string) bool {
	return slices.Contains([]string{"yes", "true", "on", "1", "y", "t"}, strings.ToLower(value))
}
