package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// silences are servers that hold a connection and say nothing, or too little.
// Each returns when the other side has had enough.
var silences = map[string]func(l *liar, c net.Conn, br *bufio.Reader){
	"never reads":             func(l *liar, _ net.Conn, _ *bufio.Reader) { <-l.over },
	"reads and never answers": func(_ *liar, c net.Conn, br *bufio.Reader) { io.Copy(io.Discard, br) },
	"drips a header": func(l *liar, c net.Conn, br *bufio.Reader) {
		l.request(br)
		drip(c, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nX-Long: "+strings.Repeat("x", 10_000))
	},
	"drips a body": func(l *liar, c net.Conn, br *bufio.Reader) {
		l.request(br)
		io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n")
		drip(c, `{"id":"`+strings.Repeat("x", 10_000))
	},
	"keeps the last line back": func(l *liar, c net.Conn, br *bufio.Reader) {
		l.request(br)
		io.WriteString(c, "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n{\"id\":\"r-1\"}\r\n0\r\n")
		io.Copy(io.Discard, br)
	},
	"drips a page": func(l *liar, c net.Conn, br *bufio.Reader) {
		l.request(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")
		drip(c, "2710\r\n"+strings.Repeat("<", 10_000))
	},
}

func drip(c net.Conn, text string) {
	for i := range len(text) {
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Each attempt that hangs ends in its time and is made again; the run as a whole
// has no such limit.
func TestSilentServersAreLeft(t *testing.T) {
	const hung = 3
	for name, silence := range silences {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var used atomic.Int64
			api := newLiar(t, func(l *liar, c net.Conn, br *bufio.Reader, n int) {
				if _, err := br.Peek(1); err != nil {
					return // opened ahead and not used
				}
				if used.Add(1) <= hung {
					silence(l, c, br)
					return
				}
				answers(always(thanks))(l, c, br, n)
			})
			left(t, lying{url: api.url(), records: 20}, hung)
			if keys, _, _ := api.heard(t); keys != 20 {
				t.Errorf("%d keys", keys)
			}
		})
	}
	t.Run("no connection", func(t *testing.T) {
		t.Parallel()
		api := newLiar(t, answers(always(thanks)))
		var dials atomic.Int64
		left(t, lying{url: api.url(), records: 20, dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) <= hung+4 { // some are opened ahead
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}, hung)
	})
}

func left(t *testing.T, l lying, hung int64) {
	t.Helper()
	l.args = append(l.args, "--request-timeout", "400ms", "--connect-timeout", "400ms", "--max-attempts", "10")
	d := l.upload(t)
	d.is(t, exitOK, int64(l.records), 0)
	if d.Retries < hung || d.DurationS > 15 {
		t.Errorf("%d retries in %v s", d.Retries, d.DurationS)
	}
}

// A silence is called by what it is: by the side that is silent, and never by
// words about an answer that is malformed.
func TestSilencesAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		size                     int // what no buffer takes is for those who do not read: it costs others time
		timeout                  string
		reason, verdict, outcome string
	}{
		"never reads":              {900_000, "800ms", "read: i/o timeout", "service slow", "unknown"},
		"reads and never answers":  {0, "200ms", "read: i/o timeout", "service slow", "unknown"},
		"drips a body":             {0, "200ms", "read: i/o timeout", "service slow", "unknown"},
		"keeps the last line back": {0, "200ms", "read: i/o timeout", "service slow", "unknown"},
		"drips a page": {0, "5s", // time enough for the head on a busy machine
			"status 200: answer is text/html, not JSON: a captive portal or a proxy?", "link down", "exhausted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newLiar(t, func(l *liar, c net.Conn, br *bufio.Reader, _ int) { silences[name](l, c, br) })
			d := lying{
				url: api.url(), records: 8, size: tc.size,
				args: []string{"--max-attempts", "1", "--request-timeout", tc.timeout, "--concurrency", "8", "--breaker-threshold", "100"},
			}.upload(t)
			d.is(t, exitWaiting, 0, 8)
			if d.Verdict != tc.verdict || len(d.Reasons) != 1 || d.Reasons[0].Reason != tc.reason || d.Reasons[0].Outcome != tc.outcome || d.Reasons[0].Count != 8 {
				t.Errorf("%s, %s: %+v", d.Verdict, d.VerdictWhy, d.Reasons)
			}
		})
	}
}
