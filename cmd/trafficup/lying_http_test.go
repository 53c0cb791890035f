package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answers serves answer(n) to the n-th request for a key, each on a connection
// that stays open, unless there is none or it says that it closes.
func answers(answer func(n int) string) func(*liar, net.Conn, *bufio.Reader, int) {
	return func(l *liar, c net.Conn, br *bufio.Reader, _ int) {
		for {
			n := l.request(br)
			if n == 0 {
				return
			}
			text := answer(n)
			io.WriteString(c, text)
			if text == "" || strings.Contains(text, "Connection: close") {
				return
			}
		}
	}
}

func always(text string) func(int) string { return func(int) string { return text } }

// inTurn answers a key's requests one after the other, the last for good.
func inTurn(texts ...string) func(int) string {
	return func(n int) string { return texts[min(n, len(texts))-1] }
}

func answered(status, typ, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, typ, len(body), body)
}

// Answers that are odd, late or said before: what becomes of ten records, and
// with how many calls for each.
func TestOddAnswers(t *testing.T) {
	const html, problem, js = "text/html", "application/problem+json", "application/json"
	busy := answered("503 Busy", "text/plain", strings.Repeat("b", 1024))
	for name, tc := range map[string]struct {
		answer  func(n int) string
		code    int
		acked   int64
		letters int
		calls   int // for each record
		says    string
	}{
		"busy twice": {inTurn(busy, busy, thanks), exitOK, 10, 0, 3, ""},
		"the answer is lost, then in progress, then said again": {
			inTurn("", answered("409 Conflict", js, `{"code":"in_progress"}`), strings.Replace(thanks, "201 Created", "200 OK\r\nIdempotent-Replayed: true", 1)),
			exitOK, 10, 0, 3, "",
		},
		"the key was used for something else": {always(answered("422 No", problem, `{"title":"key reused with another body"}`)), exitPerson, 0, 10, 1, "key reused with another body"},
		"hints before the answer":             {always(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 5) + thanks), exitOK, 10, 0, 1, ""},
		"100 and 102 before the answer":       {always("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + thanks), exitOK, 10, 0, 1, ""},
		"ends with the connection":            {always("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"id\":\"r\"}"), exitOK, 10, 0, 1, ""},
		"204 with a body":                     {always("HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\nHTTP/1."), exitOK, 10, 0, 1, ""},
		"a page instead":                      {always(answered("200 OK", html, "<html>Sign in</html>")), exitWaiting, 0, 10, 2, "not JSON: a captive portal"},
		"an error that says it is well":       {always(answered("200 OK", js, `{"error":"database down"}`)), exitWaiting, 0, 10, 2, "database down"},
		"a network that wants a login":        {always(answered("511 Network Authentication Required", html, "<html>")), exitWaiting, 0, 10, 2, "511"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newLiar(t, answers(tc.answer))
			attempts := "3"
			if tc.code == exitWaiting {
				attempts = "2"
			}
			d := lying{url: api.url(), records: 10, args: []string{"--max-attempts", attempts, "--breaker-threshold", "5"}}.upload(t)
			d.is(t, tc.code, tc.acked, tc.letters)
			d.says(t, tc.says)
			keys, calls, _ := api.heard(t)
			if keys != 10 || calls != 10*tc.calls || d.Calls != int64(calls) {
				t.Errorf("%d keys in %d calls, the report says %d", keys, calls, d.Calls)
			}
			if tc.code == exitWaiting && (d.Transitions == 0 || d.Rejected != 0) {
				t.Errorf("%d rejected, the breaker changed %d times", d.Rejected, d.Transitions)
			}
		})
	}
}

// Of two Retry-After, in whatever case, the longer holds: here it is beyond what
// is waited for.
func TestLongerRetryAfterHolds(t *testing.T) {
	api := newLiar(t, answers(always("HTTP/1.1 429 Slow\r\nretry-after: 1\r\nRETRY-AFTER: 3\r\nContent-Length: 0\r\n\r\n")))
	d := lying{url: api.url(), records: 1, args: []string{"--retry-after-cap", "2s"}}.upload(t)
	d.is(t, exitWaiting, 0, 1)
	d.says(t, "asked to wait 3s")
}

// A redirect is no delivery, whatever the page behind it says. It stops the run
// before anything is condemned, and the next one delivers.
func TestRedirectStopsTheRun(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			api := newLiar(t, answers(always(fmt.Sprintf("HTTP/1.1 %d Moved\r\nLocation: /login?token=sesame\r\nContent-Length: 0\r\n\r\n", status))))
			d := lying{url: api.url(), records: 20}.upload(t)
			d.is(t, exitUsage, 0, 0)
			d.says(t, fmt.Sprintf("redirected (%d) to /login", status), "hint: ", "it may have moved, or a login page answers for it")
			if strings.Contains(d.stdout+d.stderr, "sesame") {
				t.Errorf("the token is told:\n%s%s", d.stdout, d.stderr)
			}
			if _, calls, _ := api.heard(t); calls > 4 {
				t.Errorf("%d calls", calls)
			}
			well := newLiar(t, answers(always(thanks)))
			d.url = well.url()
			d.lying.upload(t).is(t, exitOK, 20, 0)
		})
	}
}

// A server that refuses before it has read the record is heard, or asked once more.
func TestRefusedBeforeItIsRead(t *testing.T) {
	for status, code := range map[string]int{"413 Too Large": exitPerson, "401 Unauthorized": exitAuth} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			var refused atomic.Int64
			api := newLiar(t, func(_ *liar, c net.Conn, br *bufio.Reader, _ int) {
				if _, err := br.Peek(1); err != nil {
					return
				}
				refused.Add(1)
				io.WriteString(c, "HTTP/1.1 "+status+"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				c.(*net.TCPConn).SetLinger(0)
			})
			d := lying{url: api.url(), records: 4, size: 900_000}.upload(t)
			letters := 4
			if code == exitAuth {
				letters = 0
			}
			d.is(t, code, 0, letters)
			if n := refused.Load(); n > 8 {
				t.Errorf("%d calls for 4 records", n)
			}
		})
	}
}

// A thousand refusals with bodies take as many connections as there are workers,
// and no file more.
func TestRefusalsLeakNothing(t *testing.T) {
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(fds)
	}
	busy := answered("503 Busy", "text/plain", strings.Repeat("b", 1024))
	before, most := open(), 0
	var served atomic.Int64
	api := newLiar(t, answers(func(n int) string {
		if served.Add(1)%1000 == 0 {
			most = open()
		}
		return inTurn(busy, busy, busy, thanks)(n)
	}))
	d := lying{url: api.url(), records: 400, args: []string{"--breaker-threshold", "100000", "--backoff-base", "1ms", "--backoff-cap", "1ms", "--retry-budget-min", "2000"}}.upload(t)
	d.is(t, exitOK, 400, 0)
	_, calls, conns := api.heard(t)
	if calls != 1600 || conns > 4+2 {
		t.Errorf("%d calls on %d connections", calls, conns)
	}
	// Both ends of each connection, and the few files of the state directory.
	if most > before+2*(4+2)+10 {
		t.Errorf("%d files were open, %d before", most, before)
	}
}

// Answers without end cost neither memory nor more than their attempt's time.
func TestAnswersWithoutEnd(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 20<<20))
	z.Close()
	block := strings.Repeat("x", 64<<10)
	for name, tc := range map[string]struct {
		head   string
		body   func(io.Writer) error
		status int
	}{
		"endless": {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", func(w io.Writer) error {
			for {
				if _, err := io.WriteString(w, block); err != nil {
					return err
				}
			}
		}, 200},
		"300 MB": {"HTTP/1.1 503 Busy\r\nContent-Length: 300000000\r\n\r\n", func(w io.Writer) error {
			for range 300_000_000 / len(block) {
				if _, err := io.WriteString(w, block); err != nil {
					return err
				}
			}
			return nil
		}, 503},
		"unfolds": {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", bomb.Len()), func(w io.Writer) error {
			_, err := w.Write(bomb.Bytes())
			return err
		}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			api := newLiar(t, func(l *liar, c net.Conn, br *bufio.Reader, _ int) {
				for l.request(br) > 0 {
					io.WriteString(c, tc.head)
					if tc.body(c) != nil {
						return
					}
				}
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			d := lying{url: api.url(), records: 5, args: []string{"--max-attempts", "2", "--request-timeout", "2s"}}.upload(t)
			runtime.ReadMemStats(&after)
			d.is(t, exitWaiting, 0, 5)
			if _, calls, _ := api.heard(t); calls != 10 {
				t.Errorf("%d calls", calls)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
				t.Errorf("%d bytes were allocated", n)
			}
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}
