package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is one HTTP/2 connection of a server that speaks frame by frame.
type frames struct {
	*http2.Framer
	conn  net.Conn
	liar  *liar
	index int               // of the connection, from 1
	last  uint32            // stream that a goodbye admits
	keys  map[uint32]string // of streams whose header was read
}

// take counts the record of a stream as processed.
func (f *frames) take(stream uint32) {
	f.liar.mu.Lock()
	f.liar.calls[f.keys[stream]]++
	f.liar.mu.Unlock()
}

// ack takes the record of a stream and says so.
func (f *frames) ack(stream uint32) {
	f.take(stream)
	var b bytes.Buffer
	hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: "204"})
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true})
}

// newFrames serves HTTP/2 over TLS. answer is called for the n-th request on a
// connection once it is read; false ends the connection. silent says of a
// connection that it answers nothing, pings neither.
func newFrames(t *testing.T, silent func(index int) bool, answer func(f *frames, stream uint32, n int) bool) (url, config string, l *liar) {
	t.Helper()
	cert, trust := goodCert(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
	var mu sync.Mutex
	used := 0
	l = newLiar(t, overTLS(cfg, func(l *liar, c net.Conn, br *bufio.Reader, _ int) {
		if _, err := io.ReadFull(br, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := &frames{Framer: http2.NewFramer(c, br), conn: c, liar: l, keys: map[uint32]string{}}
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		f.WriteSettings()
		for n := 0; ; {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			ended := false
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					f.WriteSettingsAck()
				}
			case *http2.PingFrame:
				if !frame.IsAck() && !silent(f.index) {
					f.WritePing(true, frame.Data)
				}
			case *http2.MetaHeadersFrame:
				if f.index == 0 {
					mu.Lock()
					used++
					f.index = used
					mu.Unlock()
				}
				for _, h := range frame.Fields {
					if h.Name == "idempotency-key" {
						f.keys[frame.StreamID] = h.Value
					}
				}
			case *http2.DataFrame:
				ended = frame.StreamEnded()
			}
			if ended && !silent(f.index) {
				n++
				if !answer(f, frame.Header().StreamID, n) {
					// A close with requests unread would take back what was said.
					c.(*tls.Conn).CloseWrite()
					io.Copy(io.Discard, br)
					return
				}
			}
		}
	}))
	return l.secureURL(), trust + "\npaths: {primary: {http: 2}}", l
}

func never(int) bool { return false }

// A server that says goodbye after each tenth record costs none, none twice, and
// is no failure of the path.
func TestGoodbyesCostNothing(t *testing.T) {
	url, config, l := newFrames(t, never, func(f *frames, stream uint32, n int) bool {
		if n > 10 && stream > f.last {
			return true
		}
		f.ack(stream)
		if n == 10 {
			f.last = stream
			f.WriteGoAway(stream, http2.ErrCodeNo, nil)
		}
		return true
	})
	d := lying{url: url, config: config, records: 200, args: []string{"--concurrency", "8"}}.upload(t)
	d.is(t, exitOK, 200, 0)
	if keys, calls, _ := l.heard(t); keys != 200 || calls != 200 || d.Transitions != 0 {
		t.Errorf("%d keys in %d calls, the breaker changed %d times", keys, calls, d.Transitions)
	}
}

// A goodbye that admits no request at all says of each that it was not looked at.
func TestGoodbyesBeforeTheFirstRecord(t *testing.T) {
	for name, code := range map[string]http2.ErrCode{"calm": http2.ErrCodeNo, "angry": http2.ErrCodeEnhanceYourCalm} {
		for how, stay := range map[string]bool{"stays": true, "hangs up": false} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				// Three connections do that, then all is well; or all of them do.
				for _, last := range []int{3, 1_000_000} {
					url, config, l := newFrames(t, never, func(f *frames, stream uint32, _ int) bool {
						if f.index > last {
							f.ack(stream)
							return true
						}
						f.WriteGoAway(0, code, nil)
						return stay
					})
					d := lying{url: url, config: config, records: 20, args: []string{"--max-attempts", "4", "--breaker-threshold", "1000"}}.upload(t)
					if d.Unknown != 0 {
						t.Errorf("%+v", d.Reasons)
					}
					if last > 3 {
						d.is(t, exitWaiting, 0, 20)
						continue
					}
					d.is(t, exitOK, 20, 0)
					if keys, calls, _ := l.heard(t); keys != 20 || calls != 20 {
						t.Errorf("%d keys in %d calls", keys, calls)
					}
				}
			})
		}
	}
}

// Failures that differ by the number of a stream alone are one reason.
func TestStreamsThatFailAreOneReason(t *testing.T) {
	url, config, _ := newFrames(t, never, func(f *frames, stream uint32, _ int) bool {
		f.take(stream)
		f.WriteRSTStream(stream, http2.ErrCodeInternal)
		return true
	})
	d := lying{url: url, config: config, records: 250, args: []string{"--max-attempts", "1", "--breaker-threshold", "1000"}}.upload(t)
	d.is(t, exitWaiting, 0, 250)
	if len(d.Reasons) != 1 || d.Reasons[0].Count != 250 || !strings.Contains(d.Reasons[0].Reason, "INTERNAL_ERROR") {
		t.Errorf("%d reasons: %+v", len(d.Reasons), d.Reasons[:min(3, len(d.Reasons))])
	}
}

// Two connections die with all that is in flight on them, and new ones work: found
// by a ping, or by the time for an attempt, each is left after one try.
func TestDeadConnectionsAreLeft(t *testing.T) {
	const dead = 2
	for how, timeout := range map[string]string{"by ping": "20s", "by timeout": "2s"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			url, config, l := newFrames(t, func(index int) bool { return index > 0 && index <= dead }, func(f *frames, stream uint32, _ int) bool {
				f.ack(stream)
				return true
			})
			d := lying{url: url, config: config, records: 20, args: []string{"--concurrency", "20", "--request-timeout", timeout, "--retry-budget-min", "10"}}.upload(t)
			d.is(t, exitOK, 20, 0)
			if keys, calls, _ := l.heard(t); keys != 20 || calls != 20 || d.Calls > 2*20 || d.Retries < 17 || d.DurationS > 60 {
				t.Errorf("%d keys in %d calls of %d, %d of them retries, in %v s", keys, calls, d.Calls, d.Retries, d.DurationS)
			}
		})
	}
}
