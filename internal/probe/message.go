package probe

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"golang.org/x/net/dns/dnsmessage"
)

// echoRequest is one with a checksum, which for IPv6 the kernel makes. Its id is of
// the nonce: with one and the same a probe would be part of the flow of the one
// before, and NAT would treat it as it did that, also when it goes another way.
func echoRequest(v4 bool, nonce []byte) []byte {
	b := append([]byte{128, 0, 0, 0, nonce[0], nonce[1], 0, 1}, nonce...)
	if !v4 {
		return b
	}
	b[0] = 8
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[2:], ^uint16(sum>>16+sum))
	return b
}

// echoReply reports that b answers the request with that nonce. The kernel changes
// the id of a ping socket's request, so that is no sign.
func echoReply(b []byte, v4 bool, nonce []byte) bool {
	kind := byte(129)
	if v4 {
		kind = 0
	}
	return len(b) >= 8 && b[0] == kind && bytes.Equal(b[8:], nonce)
}

// withoutHeader is what follows the header of an IPv4 packet.
func withoutHeader(b []byte) []byte {
	if len(b) < 20 {
		return nil
	}
	return b[min(len(b), max(20, 4*int(b[0]&15))):]
}

// recordTypes are those that can be asked for.
var recordTypes = map[string]dnsmessage.Type{
	"A": dnsmessage.TypeA, "AAAA": dnsmessage.TypeAAAA, "CNAME": dnsmessage.TypeCNAME, "MX": dnsmessage.TypeMX,
	"NS": dnsmessage.TypeNS, "SOA": dnsmessage.TypeSOA, "TXT": dnsmessage.TypeTXT,
}

// question asks for the wanted type of record, or that of the wanted address.
func question(name, want string) (q dnsmessage.Question, err error) {
	kind, ok := recordTypes[want]
	if a, err := netip.ParseAddr(want); err == nil {
		kind, ok = dnsmessage.TypeAAAA, a.Zone() == ""
		if a.Is4() {
			kind = dnsmessage.TypeA
		}
	}
	if !ok {
		return q, fmt.Errorf("want %q: want A, AAAA, CNAME, MX, NS, SOA, TXT or an address", want)
	}
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return q, fmt.Errorf("name %q: %w", name, err)
	}
	return dnsmessage.Question{Name: n, Type: kind, Class: dnsmessage.ClassINET}, nil
}

// query asks a resolver for what is wanted.
func query(id uint16, name, want string) ([]byte, error) {
	q, err := question(name, want)
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: id, RecursionDesired: true}, Questions: []dnsmessage.Question{q}}
	b, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("name %q: %w", name, err)
	}
	return b, nil
}

// checkDNS looks at a datagram. It is not ours when it is no answer to this
// question under this id. An answer is right when it brings a record of the type, or
// with the address, that is wanted; of a type also when it was cut because it brings
// so many.
func checkDNS(b []byte, id uint16, name, want string) (ours bool, err error) {
	q, err := question(name, want)
	if err != nil {
		return false, err
	}
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || !h.Response || h.ID != id {
		return false, nil
	}
	asked, err := p.Question()
	if err != nil || asked.Type != q.Type || asked.Class != q.Class || !strings.EqualFold(asked.Name.String(), q.Name.String()) {
		return false, nil
	}
	if h.RCode != dnsmessage.RCodeSuccess {
		return true, fmt.Errorf("%w: %s", errWrongAnswer, strings.TrimPrefix(h.RCode.String(), "RCode"))
	}
	if h.Truncated && recordTypes[want] != 0 {
		return true, nil
	}
	if err = p.SkipAllQuestions(); err == nil {
		var records []dnsmessage.Resource
		records, err = p.AllAnswers()
		for _, r := range records {
			if r.Header.Type == q.Type && (recordTypes[want] != 0 || addressOf(r) == want) {
				return true, nil
			}
		}
	}
	if err != nil {
		return true, fmt.Errorf("%w: %w", errWrongAnswer, err)
	}
	return true, fmt.Errorf("%w: no %s in the answer", errWrongAnswer, want)
}

// addressOf is the address that a record has, "" when it has none.
func addressOf(r dnsmessage.Resource) string {
	switch b := r.Body.(type) {
	case *dnsmessage.AResource:
		return netip.AddrFrom4(b.A).String()
	case *dnsmessage.AAAAResource:
		return netip.AddrFrom16(b.AAAA).String()
	}
	return ""
}

// request is the whole of one. It does not ask for the connection to be closed: the
// probe resets it.
func (t Target) request() string {
	return "GET " + t.Path + " HTTP/1.1\r\nHost: " + t.Host + "\r\nUser-Agent: trafficup\r\nCache-Control: no-cache\r\n\r\n"
}

// longestAnswer is of HTTP, with its header.
const longestAnswer = 64 << 10

// checkHTTP reads as much of an answer as is needed to tell whether it is the
// wanted one. A redirection is not followed. The body is not closed, which would
// read the rest of it: there is nothing else that closing releases.
func (t Target) checkHTTP(r io.Reader) error {
	a, err := http.ReadResponse(bufio.NewReader(io.LimitReader(r, longestAnswer)), &http.Request{Method: http.MethodGet})
	if err != nil {
		return malformed(err)
	}
	if a.StatusCode != t.Status {
		text := ""
		if to := a.Header.Get("Location"); to != "" {
			text = fmt.Sprintf(", and sends to %.200q", to)
		}
		return fmt.Errorf("%w: status %d, not %d%s", errWrongAnswer, a.StatusCode, t.Status, text)
	}
	body := make([]byte, len(t.Body))
	n, err := io.ReadFull(a.Body, body)
	if string(body[:n]) != t.Body[:n] || err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: the body begins with %.80q", errWrongAnswer, body[:n])
	}
	return malformed(err)
}

// malformed is err as a wrong answer, unless it is the network's.
func malformed(err error) error {
	if _, network := errors.AsType[syscall.Errno](err); err == nil || network || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: no HTTP: %w", errWrongAnswer, err)
}
