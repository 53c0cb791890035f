package probe

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func ExampleParseTarget() {
	for _, s := range []TargetSpec{
		{ICMP: "192.0.2.1"},
		{TCP: "203.0.113.1:443"},
		{DNS: "198.51.100.53", Name: "example.org", Want: "A"},
		{HTTP: "http://203.0.113.7/generate_204", Host: "check.example.org"},
		{HTTP: "http://check.example.org/"},
	} {
		t, err := ParseTarget(s)
		fmt.Println(t, err)
	}
	// Output:
	// icmp 192.0.2.1 <nil>
	// tcp 203.0.113.1:443 <nil>
	// dns 198.51.100.53:53 example.org. A <nil>
	// http http://203.0.113.7:80/generate_204 <nil>
	//  invalid AddrPort http target "http://check.example.org/": want an IP address: a name would be looked up by whichever uplink is in use
}

func TestParseTarget(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		spec TargetSpec
		want string // of String, or of the error when it begins with "!"
	}{
		{TargetSpec{ICMP: "2001:db8::1"}, "icmp 2001:db8::1"},
		{TargetSpec{ICMP: "::ffff:192.0.2.1"}, "icmp 192.0.2.1"},
		{TargetSpec{TCP: "[2001:db8::1]:443"}, "tcp [2001:db8::1]:443"},
		{TargetSpec{DNS: "2001:db8::1", Name: "example.org."}, "dns [2001:db8::1]:53 example.org. A"},
		{TargetSpec{DNS: "192.0.2.1:5353", Name: "example.org", Want: "txt"}, "dns 192.0.2.1:5353 example.org. TXT"},
		{TargetSpec{DNS: "192.0.2.1", Name: ".", Want: "NS"}, "dns 192.0.2.1:53 . NS"},
		{TargetSpec{DNS: "192.0.2.1", Name: "example.org", Want: "192.0.2.7"}, "dns 192.0.2.1:53 example.org. 192.0.2.7"},
		{TargetSpec{DNS: "192.0.2.1", Name: "example.org", Want: "::ffff:192.0.2.7"}, "dns 192.0.2.1:53 example.org. 192.0.2.7"},
		{TargetSpec{DNS: "192.0.2.1", Name: "example.org", Want: "2001:DB8:0::7"}, "dns 192.0.2.1:53 example.org. 2001:db8::7"},
		{TargetSpec{HTTP: "http://[2001:db8::1]:8080/a b?c=d"}, "http http://[2001:db8::1]:8080/a%20b?c=d"},
		{TargetSpec{HTTP: "http://192.0.2.1"}, "http http://192.0.2.1:80/"},

		{TargetSpec{}, "!one of icmp, tcp, dns, http"},
		{TargetSpec{ICMP: "192.0.2.1", TCP: "192.0.2.1:443"}, "![icmp tcp]"},
		{TargetSpec{ICMP: "example.org"}, "!a name would be looked up"},
		{TargetSpec{ICMP: "192.0.2.1:7"}, "!has a port"},
		{TargetSpec{ICMP: "127.0.0.1"}, "!beyond an uplink"},
		{TargetSpec{ICMP: "0.0.0.0"}, "!beyond an uplink"},
		{TargetSpec{ICMP: "224.0.0.1"}, "!beyond an uplink"},
		{TargetSpec{ICMP: "fe80::1"}, "!beyond an uplink"},
		{TargetSpec{ICMP: "fd00::1%eth0"}, "!beyond an uplink"},
		{TargetSpec{ICMP: "192.0.2.1", Name: "a"}, "!dns only"},
		{TargetSpec{ICMP: "192.0.2.1", Status: 204}, "!http only"},
		{TargetSpec{TCP: "192.0.2.1"}, "!and a port"},
		{TargetSpec{TCP: "192.0.2.1:0"}, "!and a port"},
		{TargetSpec{TCP: "example.org:443"}, "!and a port"},
		{TargetSpec{DNS: "192.0.2.1"}, "!name is missing"},
		{TargetSpec{DNS: "192.0.2.1", Name: "a..b"}, "!name"},
		{TargetSpec{DNS: "192.0.2.1", Name: long + ".org"}, "!name"},
		{TargetSpec{DNS: "192.0.2.1", Name: strings.Repeat("abc.", 70)}, "!name"},
		{TargetSpec{DNS: "192.0.2.1", Name: "a", Want: "ANY"}, `!want "ANY"`},
		{TargetSpec{DNS: "192.0.2.1", Name: "a", Want: "fe80::7%wan0"}, "!or an address"},
		{TargetSpec{DNS: "192.0.2.1", Name: "a", Want: "192.0.2.0/24"}, "!or an address"},
		{TargetSpec{HTTP: "https://192.0.2.1/"}, "!want http"},
		{TargetSpec{HTTP: "ftp://192.0.2.1/"}, "!want http"},
		{TargetSpec{HTTP: "192.0.2.1/x"}, "!want http"},
		{TargetSpec{HTTP: "http:192.0.2.1"}, "!want http"},
		{TargetSpec{HTTP: "http://192.0.2.1:x/"}, "!port"},
		{TargetSpec{HTTP: "http://me@192.0.2.1/"}, "!has a user"},
		{TargetSpec{HTTP: "http://192.0.2.1/#x"}, "!a fragment"},
		{TargetSpec{HTTP: "http://192.0.2.1/", Host: "a\r\nX: y"}, "!no name of a host"},
		{TargetSpec{HTTP: "http://192.0.2.1/", Host: "a/b"}, "!no name of a host"},
		{TargetSpec{HTTP: "http://192.0.2.1/", Status: 100}, "!status 100"},
		{TargetSpec{HTTP: "http://192.0.2.1/", Status: 204, Body: "x"}, "!has no body"},
		{TargetSpec{HTTP: "http://192.0.2.1/", Body: strings.Repeat("x", 4097)}, "!4097 bytes"},
		{TargetSpec{HTTP: "http://192.0.2.1/", Name: "x"}, "!dns only"},
	} {
		got, err := ParseTarget(c.spec)
		if want, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), want) || got != (Target{}) {
				t.Errorf("%+v: %v, %v, want the error %q", c.spec, got, err, want)
			}
		} else if err != nil || got.String() != c.want {
			t.Errorf("%+v: %q, %v, want %q", c.spec, got, err, c.want)
		}
	}
	for body, status := range map[string]int{"": 204, "ok": 200} {
		if got, err := ParseTarget(TargetSpec{HTTP: "http://192.0.2.1/", Body: body}); err != nil || got.Status != status {
			t.Errorf("%q: %v, %v", body, got.Status, err)
		}
	}
}

// A target that was accepted is written and read the same, and its request is one
// line and three of header.
func FuzzParseTarget(f *testing.F) {
	f.Add("", "", "", "http://192.0.2.1/x", "", "", "example.org", 200, "hello")
	f.Add("", "", "192.0.2.1", "", "example.org", "A", "", 0, "")
	f.Add("", "[2001:db8::1]:1", "", "", "", "", "", 0, "")
	f.Fuzz(func(t *testing.T, icmp, tcp, dns, http, name, want, host string, status int, body string) {
		got, err := ParseTarget(TargetSpec{icmp, tcp, dns, http, name, want, host, status, body})
		if err != nil {
			return
		}
		if !got.Addr.Addr().IsValid() || got.Addr.Addr().Is4In6() {
			t.Errorf("%+v", got)
		}
		if lines := strings.FieldsFunc(got.request(), func(r rune) bool { return r == '\r' || r == '\n' }); got.Kind == HTTP && (len(lines) != 4 || strings.Count(lines[0], " ") != 2) {
			t.Errorf("%q", got.request())
		}
		if got.Kind == DNS {
			if _, err := query(1, got.Name, got.Want); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestFaultOf(t *testing.T) {
	for want, errs := range map[Fault][]error{
		None: {nil}, Local: {syscall.EMFILE, syscall.ENOBUFS, errors.New("x")}, Refused: {syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE}, Timeout: {syscall.ETIMEDOUT},
		NoRoute: {fmt.Errorf("x: %w: %w", ErrNoRoute, syscall.EPERM)}, NoSource: {ErrNoSource}, NoRights: {ErrNoRights},
	} {
		for _, err := range errs {
			if got := faultOf(err); got != want {
				t.Errorf("%v: %s, want %s", err, got, want)
			}
		}
	}
}
