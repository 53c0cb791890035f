package probe

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"golang.org/x/net/dns/dnsmessage"
	"pgregory.net/rapid"
)

func TestEchoRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := echoRequest(true, rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "nonce"))
		sum := uint32(0)
		for i := 0; i < len(b); i += 2 {
			sum += uint32(b[i])<<8 | uint32(b[i+1])
		}
		for sum > 0xffff {
			sum = sum>>16 + sum&0xffff
		}
		if sum != 0xffff || len(b) != 16 || b[0] != 8 {
			t.Errorf("% x: sum %#x", b, sum)
		}
	})
}

func TestEchoReply(t *testing.T) {
	nonce := []byte("\x01\xff\x02\xfe\x03\xfd\x04\xfc")
	b := echoRequest(true, nonce)
	if echoReply(b, true, nonce) {
		t.Error("a request is taken for a reply")
	}
	b[0] = 0
	six := echoRequest(false, nonce)
	six[0] = 129
	for _, c := range []struct {
		b    []byte
		v4   bool
		want bool
	}{{b, true, true}, {b, false, false}, {six, false, true}, {six, true, false}, {b[:15], true, false}, {b[:7], true, false}, {nil, true, false}} {
		if got := echoReply(c.b, c.v4, nonce); got != c.want {
			t.Errorf("% x, IPv4 %v: %v", c.b, c.v4, got)
		}
	}
	for ihl, want := range map[byte]int{5: 40, 6: 36, 0: 40, 15: 0} {
		if got := len(withoutHeader(append([]byte{0x40 | ihl}, make([]byte, 59)...))); got != want {
			t.Errorf("IHL %d: %d bytes, want %d", ihl, got, want)
		}
	}
	if withoutHeader(make([]byte, 19)) != nil {
		t.Error("a header that is cut short")
	}
}

// answer is one to a query, changed.
func answer(t testing.TB, change func(*dnsmessage.Message)) []byte {
	q, err := query(7, "example.org.", "A")
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err = m.Unpack(q); err != nil {
		t.Fatal(err)
	}
	m.Response = true
	h := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
	m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}}}
	change(&m)
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCheckDNS(t *testing.T) {
	alias := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("example.org."), Type: dnsmessage.TypeCNAME, Class: dnsmessage.ClassINET},
		Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("example.net.")}}
	for _, c := range []struct {
		name   string
		change func(*dnsmessage.Message)
		ours   bool
		why    string
	}{
		{"answer", func(*dnsmessage.Message) {}, true, ""},
		{"answer to an alias", func(m *dnsmessage.Message) { m.Answers = append([]dnsmessage.Resource{alias}, m.Answers...) }, true, ""},
		{"letters of another case", func(m *dnsmessage.Message) { m.Questions[0].Name = dnsmessage.MustNewName("EXAMPLE.org.") }, true, ""},
		{"cut", func(m *dnsmessage.Message) { m.Truncated, m.Answers = true, nil }, true, ""},
		{"alias only", func(m *dnsmessage.Message) { m.Answers = []dnsmessage.Resource{alias} }, true, "no A in the answer"},
		{"empty", func(m *dnsmessage.Message) { m.Answers = nil }, true, "no A in the answer"},
		{"no such name", func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeNameError }, true, "NameError"},
		{"server fails", func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeServerFailure }, true, "ServerFailure"},
		{"refused", func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeRefused }, true, "Refused"},
		{"another id", func(m *dnsmessage.Message) { m.ID++ }, false, ""},
		{"a query", func(m *dnsmessage.Message) { m.Response = false }, false, ""},
		{"another name", func(m *dnsmessage.Message) { m.Questions[0].Name = dnsmessage.MustNewName("example.net.") }, false, ""},
		{"another type", func(m *dnsmessage.Message) { m.Questions[0].Type = dnsmessage.TypeAAAA }, false, ""},
		{"no question", func(m *dnsmessage.Message) { m.Questions = nil }, false, ""},
	} {
		ours, err := checkDNS(answer(t, c.change), 7, "example.org.", "A")
		if ours != c.ours || (err != nil) != (c.why != "") || err != nil && (!errors.Is(err, errWrongAnswer) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, %v, want %v, %q", c.name, ours, err, c.ours, c.why)
		}
	}
	for want, why := range map[string]string{"192.0.2.1": "", "192.0.2.2": "no 192.0.2.2 in the answer"} {
		for name, change := range map[string]func(*dnsmessage.Message){
			"first": func(m *dnsmessage.Message) { m.Answers = append(m.Answers, alias) },
			"last":  func(m *dnsmessage.Message) { m.Answers = append([]dnsmessage.Resource{alias}, m.Answers...) },
			"cut":   func(m *dnsmessage.Message) { m.Truncated = true },
		} {
			ours, err := checkDNS(answer(t, change), 7, "example.org.", want)
			if !ours || (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
				t.Errorf("%s, %s wanted: %v, %v", name, want, ours, err)
			}
		}
	}
	six := answer(t, func(m *dnsmessage.Message) {
		m.Questions[0].Type, m.Answers[0].Header.Type = dnsmessage.TypeAAAA, dnsmessage.TypeAAAA
		m.Answers[0].Body = &dnsmessage.AAAAResource{AAAA: [16]byte{0x20, 1, 0xd, 0xb8, 15: 1}}
	})
	for want, right := range map[string]bool{"2001:db8::1": true, "2001:db8::2": false, "AAAA": true} {
		if ours, err := checkDNS(six, 7, "example.org.", want); !ours || (err == nil) != right {
			t.Errorf("%s wanted: %v, %v", want, ours, err)
		}
	}
	if _, err := checkDNS(answer(t, func(m *dnsmessage.Message) { m.Truncated, m.Answers = true, nil }), 7, "example.org.", "192.0.2.1"); err == nil {
		t.Error("an answer that was cut does not have the address, and is right")
	}
	whole := answer(t, func(*dnsmessage.Message) {})
	if ours, err := checkDNS(whole[:len(whole)-1], 7, "example.org.", "A"); !ours || !errors.Is(err, errWrongAnswer) {
		t.Errorf("without its end: %v, %v", ours, err)
	}
}

func FuzzCheckDNS(f *testing.F) {
	f.Add(answer(f, func(*dnsmessage.Message) {}))
	f.Add(answer(f, func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeNameError }))
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, err := checkDNS(b, 7, "example.org.", "A")
		if err != nil && (!ours || !errors.Is(err, errWrongAnswer)) {
			t.Errorf("%v, %v", ours, err)
		}
		if _, address := checkDNS(b, 7, "example.org.", "192.0.2.1"); address == nil && err != nil {
			t.Errorf("right with an address, and not with any: %v", err)
		}
	})
}

func TestCheckHTTP(t *testing.T) {
	empty, hello := Target{Status: 204}, Target{Status: 200, Body: "hello"}
	for _, c := range []struct {
		name   string
		t      Target
		answer string
		why    string
	}{
		{"204", empty, "HTTP/1.1 204 No Content\r\n\r\n", ""},
		{"HTTP/1.0", empty, "HTTP/1.0 204 No Content\r\n\r\n", ""},
		{"body", hello, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello, world", ""},
		{"body of one", hello, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", ""},
		{"body until the end", hello, "HTTP/1.0 200 OK\r\n\r\nhello", ""},
		{"chunks", hello, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", ""},
		{"login", empty, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlogin", "status 200, not 204"},
		{"redirect", empty, "HTTP/1.1 302 Found\r\nLocation: http://portal/\r\n\r\n", `sends to "http://portal/"`},
		{"another body", hello, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlogin", `begins with "login"`},
		{"short body", hello, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell", `begins with "hell"`},
		{"no body", hello, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", `begins with ""`},
		{"broken chunk", hello, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no HTTP"},
		{"nothing", empty, "", "no HTTP"},
		{"something else", empty, "SSH-2.0-x\r\n\r\n", "no HTTP"},
		{"header without end", empty, "HTTP/1.1 204 No Content\r\nX: " + strings.Repeat("x", 1<<17), "no HTTP"},
	} {
		r := strings.NewReader(c.answer)
		err := c.t.checkHTTP(r)
		if (err != nil) != (c.why != "") || err != nil && (!errors.Is(err, errWrongAnswer) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
		if read := len(c.answer) - r.Len(); read > longestAnswer {
			t.Errorf("%s: read %d bytes", c.name, read)
		}
	}
	for _, text := range []string{"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"} {
		if err := hello.checkHTTP(io.MultiReader(strings.NewReader(text), iotest.ErrReader(syscall.ECONNRESET))); faultOf(err) != Refused {
			t.Errorf("a reset after %q: %v", text, err)
		}
	}
}

func FuzzCheckHTTP(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello")
	f.Fuzz(func(t *testing.T, text string, status int, body string) {
		err := Target{Status: status, Body: body}.checkHTTP(strings.NewReader(text))
		if err != nil && !errors.Is(err, errWrongAnswer) {
			t.Error(err)
		}
	})
}

func FuzzEchoReply(f *testing.F) {
	nonce := []byte("01234567")
	f.Add([]byte{0x45, 19: 0, 20: 0, 28: '0'}, true, true)
	f.Add(echoRequest(false, nonce), false, false)
	f.Fuzz(func(t *testing.T, b []byte, v4, whole bool) {
		if whole {
			b = withoutHeader(b)
		}
		if echoReply(b, v4, nonce) && !bytes.HasSuffix(b, nonce) {
			t.Errorf("%x is an answer", b)
		}
	})
}
