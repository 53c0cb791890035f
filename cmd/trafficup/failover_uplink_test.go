package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What failover could not work with is told by its key; "" is nothing wrong.
func TestFailoverFaults(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const two = "uplinks: [{name: leo, interface: wan0}, {name: lte, interface: wan1}]"
	const asked = ", targets: [{icmp: 192.0.2.1}]"
	window := func(text string) string {
		return "uplinks: [{name: leo, interface: wan0, maintenance: [" + text + "]}, {name: lte, interface: wan1}]" + asked
	}
	gateway := func(text string) string {
		return "uplinks: [{name: leo, interface: wan0, gateway: \"" + text + "\"}, {name: lte, interface: wan1}]" + asked
	}
	for text, want := range map[string]string{
		two + asked + ", mask: \"0x3\", timeout: 50ms": "",
		two: "failover.targets: nobody is asked",
		"uplinks: [{name: leo, interface: wan0}]" + asked:                       "failover.uplinks: one alone leaves nothing to choose",
		"uplinks: [{name: leo, interface: wan0}, {name: lte, interface: wan0}]": "failover.uplinks[1].interface: wan0 is that of leo already",
		"uplinks: [{name: leo, interface: wan0}, {name: leo, interface: wan1}]": "failover.uplinks[1].name: leo is there twice",
		"targets: [{name: example.com}]":                                        "failover.targets[0]: says not how it is asked: write one of icmp, tcp, dns, http",
		"targets: [{icmp: 192.0.2.1, dns: 192.0.2.1}]":                          "failover.targets[0]: a target is one of icmp, tcp, dns, http: this is [icmp dns]",
		two + ", mask: \"0x1\"":                                                 "failover.uplinks: mark 0x2 of lte is not within the mask 0x1 (failover.mask)",
		"uplinks: [{name: a, interface: w0}, {name: b, interface: w1}, {name: c, interface: w2}, {name: d, interface: w3}], mask: \"0x300\"": "failover.uplinks: mark 0x400 of d",
		"timeout: 49ms": "failover.timeout: \"49ms\": at least 50ms",
		"lead: 61m":     "failover.lead: \"1h1m\": at most 1h",
		"uplinks: [{name: \"a, b\", interface: wan0}]":                                        `failover.uplinks[0].name: "a, b": want letters, digits`,
		"uplinks: [{name: auto, interface: wan0}]":                                            `failover.uplinks[0].name: "auto"`,
		"uplinks: [{name: leo.1_a-b, interface: wan0}, {name: lte, interface: wan1}]" + asked: "",

		gateway("auto"):                      "",
		gateway("192.0.2.1"):                 "",
		gateway("192.0.2.x"):                 "failover.uplinks[0].gateway: \"192.0.2.x\" is no address",
		gateway("127.0.0.1"):                 "failover.uplinks[0].gateway: \"127.0.0.1\" is no gateway's",
		gateway("0.0.0.0"):                   "is no gateway's",
		gateway("224.0.0.1"):                 "is no gateway's",
		gateway("255.255.255.255"):           "is no gateway's",
		gateway("fe80::1%wan0"):              "is no gateway's",
		gateway("fe80::1"):                   "",
		gateway("fe80::1") + ", ipv6: false": "failover.uplinks[0].gateway: fe80::1 is of no use without failover.ipv6: true",

		"targets: [{icmp: 192.0.2.1}, {icmp: 192.0.2.1}]":                        "failover.targets[1]: icmp 192.0.2.1 is asked already",
		"targets: [{tcp: \"192.0.2.1:443\"}, {tcp: \"[::ffff:192.0.2.1]:443\"}]": "failover.targets[1]: tcp 192.0.2.1:443 is asked already",
		"targets: [{tcp: \"192.0.2.1:443\"}, {tcp: \"192.0.2.1:80\"}]":           "",
		"targets: [{icmp: 255.255.255.255}]":                                     "failover.targets[0]: icmp target \"255.255.255.255\"",
		"targets: [{icmp: \"2001:db8::1\"}], ipv6: false":                        "failover.targets[0]: icmp 2001:db8::1 is never reached without failover.ipv6: true",
		"targets: [{icmp: \"2001:db8::2\"}]":                                     "",
		window(`{from: "23:30", to: "00:30", hold: true}`):                       "",
		window(`{from: "23:30", to: "00:31", hold: true}`):                       "failover.uplinks[0].maintenance[0].hold: 1h1m0s is too long",
		window(`{from: "00:00", to: "24:00", hold: true}`):                       "failover.uplinks[0].maintenance[0].hold: 24h0m0s is too long",
		window(`{from: "00:00", to: "23:00"}`):                                   "",
		window(`{from: "00:00", to: "23:00"}`) + ", lead: 1h":                    "failover.uplinks[0].maintenance: leo is never used: it is left 1h0m0s before each window",
		window(`{from: "00:00", to: "24:00"}`):                                   "failover.uplinks[0].maintenance: leo is never used",
		window(`{days: [mon], from: "00:00", to: "24:00"}`) + ", lead: 1h":       "",
	} {
		out, err := exec.Command(self, "config", "check", "--config", writeConfig(t, "failover: {"+text+"}\n")).CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s\nwant %s", text, err, out, want)
		}
	}
}

// A hook that is not there is warned of, and is no mistake: it may come.
func TestFailoverHookMissing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for hook, missing := range map[string]bool{"/nowhere/ddns": true, "sh": false} {
		out, err := exec.Command(self, "config", "check", "--config", writeConfig(t, "failover: {hook: ["+hook+"]}\n")).CombinedOutput()
		if err != nil || strings.Contains(string(out), "failover.hook: nothing will run after a switch: ") != missing {
			t.Errorf("%s: %v, %s", hook, err, out)
		}
	}
}
