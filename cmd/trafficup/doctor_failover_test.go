package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"trafficup/internal/config"
	"trafficup/internal/doctor"
	"trafficup/internal/edge"
	"trafficup/internal/failover"
)

func uplinksOf(targets ...config.ProbeTarget) Config {
	c := Config{new(config.Loaded)}
	c.Failover = config.Failover{Preset: "leo", IPv6: true, Targets: targets, Uplinks: []config.FailoverUplink{{Name: "leo", Interface: "wan0"}, {Name: "lte", Role: "backup", Interface: "wan1", Metered: true}}}
	return c
}

func setupOf(t *testing.T, c Config) failoverSetup {
	t.Helper()
	return c.failoverSetup(func(key, format string, a ...any) { t.Errorf(key+": "+format, a...) })
}

func TestTargetWarnings(t *testing.T) {
	icmp := func(a string) config.ProbeTarget { return config.ProbeTarget{ICMP: a} }
	for name, c := range map[string]struct {
		targets []config.ProbeTarget
		want    []string // what each has in it
	}{
		"two of each, in four networks": {[]config.ProbeTarget{icmp("9.9.9.9"), icmp("8.8.8.8"), {TCP: "192.0.2.1:443"}, {HTTP: "http://198.51.100.1/"}}, nil},
		"one of a kind":                 {[]config.ProbeTarget{icmp("9.9.9.9"), icmp("8.8.8.8"), {DNS: "192.0.2.1", Name: "example.com"}}, []string{"one of dns only"}},
		"an address asked twice":        {[]config.ProbeTarget{icmp("9.9.9.9"), icmp("8.8.8.8"), {TCP: "9.9.9.9:443"}, {TCP: "8.8.8.8:443"}}, nil},
		"neighbours":                    {[]config.ProbeTarget{icmp("9.9.9.9"), icmp("9.9.9.10"), icmp("8.8.8.8")}, []string{"9.9.9.9, 9.9.9.10 are in one network (9.9.9.0/24)"}},
		"neighbours of IPv6":            {[]config.ProbeTarget{icmp("2001:db8:1:2::1"), icmp("2001:db8:1:3::1"), icmp("2001:db8:2::1")}, []string{"in one network (2001:db8:1::/48)"}},
		"nobody else":                   {[]config.ProbeTarget{icmp("9.9.9.9"), icmp("9.9.9.10")}, []string{"are in one network", "all are in 9.9.9.0/24"}},
	} {
		got := setupOf(t, uplinksOf(c.targets...)).targetWarnings()
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for i, w := range c.want {
			if !strings.Contains(got[i], w) || !strings.Contains(got[i], "; ") {
				t.Errorf("%s: %q, want %s", name, got[i], w)
			}
		}
	}
}

// What answers is told by target and by uplink, and that nothing does is a failure.
func TestJudgeAnswers(t *testing.T) {
	s := setupOf(t, uplinksOf(config.ProbeTarget{ICMP: "9.9.9.9"}, config.ProbeTarget{ICMP: "8.8.8.8"}))
	good, bad := failover.Answer{Target: "a", Class: "icmp", OK: true, RTT: 41*time.Millisecond + 234*time.Microsecond}, failover.Answer{Target: "a", Class: "icmp", Why: "no answer within 1s"}
	for name, c := range map[string]struct {
		answers [][]failover.Answer
		want    []string
	}{
		"all":        {[][]failover.Answer{{good, good}, {good, good}}, []string{"ok target: a: leo 41.2ms; lte 41.2ms", "ok target: ", "ok answers by leo: ", "ok answers by lte: "}},
		"one by one": {[][]failover.Answer{{good, bad}, {good, good}}, []string{"ok target: ", "warning target: a: leo no answer within 1s; lte 41.2ms", "warning answers by leo: 1 of 2 targets answer, want 2", "ok answers by lte: "}},
		"one is out": {[][]failover.Answer{{bad, good}, {bad, good}}, []string{"warning target: ", "ok target: ", "failed answers by leo: ", "failed answers by lte: "}},
	} {
		got := judgeAnswers(s, c.answers)
		if !slices.EqualFunc(got, c.want, func(f doctor.Finding, w string) bool {
			return strings.HasPrefix(string(f.Result)+" "+f.What+": "+f.Message, w) && (f.Do != "") == (f.Result != doctor.OK)
		}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What is judged is what was configured.
func TestJudgedFailover(t *testing.T) {
	c := uplinksOf(config.ProbeTarget{ICMP: "9.9.9.9"}, config.ProbeTarget{ICMP: "8.8.8.8"})
	found := c.judged(setupOf(t, c), edge.Sight{}, fstest.MapFS{"run/systemd/netif/state": {}})
	for _, want := range []string{"failed uplink leo", "failed uplink lte", "warning neighbour"} {
		if !slices.ContainsFunc(found, func(f doctor.Finding) bool { return string(f.Result)+" "+f.What == want }) {
			t.Errorf("%s is not in %+v", want, found)
		}
	}
	d := examination{c: c}
	if !d.switches() || d.shapes() {
		t.Error("it is for failover alone")
	}
	if len((&examination{c: Config{new(config.Loaded)}}).failoverChecks(fstest.MapFS{})) > 0 {
		t.Error("without uplinks there is something to check")
	}
}
