package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	maxAnswer  = 64 << 10 // bytes of a body that are read
	maxHeader  = 64 << 10 // bytes of a header section
	maxInterim = 16       // 1xx answers before the final one
	keptBuffer = 64 << 10 // largest buffer an idle connection holds on to

	// Requests up to this size fit the send buffer of any socket, so writing
	// them cannot wait for a server that answers before it has read.
	inlineWrite = 16 << 10
)

var past = time.Unix(1, 0)

// conn is one connection. It belongs to one Send at a time.
type conn struct {
	raw      *socket  // deadlines are set here
	rw       net.Conn // raw, or TLS over it
	lim      *limiter
	br       *bufio.Reader
	wbuf     []byte
	body     []byte
	expires  time.Time
	epoch    int // of the client when it was dialled
	restedAt time.Time
	used     int         // earlier requests
	reusable bool        // the last answer was read to its end and neither side wants to close
	link     *LinkSample // of the last request; nil: unknown
	counted  linkCount   // at the last sample
}

// linkCount counts segments since the connection began.
type linkCount struct{ segments, retransmits, lost uint32 }

func newConn(raw *socket, rw net.Conn) *conn {
	lim := &limiter{r: rw}
	return &conn{raw: raw, rw: rw, lim: lim, br: bufio.NewReader(lim)}
}

// limiter fails with errTooLong once left bytes have been read.
type limiter struct {
	r    io.Reader
	left int
	err  error // of r, the last one
}

var errTooLong = fmt.Errorf("%w: too long", ErrAnswer)

func (l *limiter) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLong
	}
	var n int
	n, l.err = l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, l.err
}

// interrupt makes every read and write on cn fail from now on.
func (cn *conn) interrupt() { cn.raw.SetDeadline(past) }

// abort drops the connection without the TLS farewell, which could block on a
// full send buffer.
func (cn *conn) abort() { cn.raw.Close() }

// close ends an idle connection.
func (cn *conn) close() {
	if cn.secure() {
		cn.raw.SetDeadline(time.Now().Add(100 * time.Millisecond))
	}
	cn.rw.Close()
}

// alive notices before a request is written that the server has hung up, or
// has said something nobody asked for (RFC 9112 §9.5).
func (cn *conn) alive() bool {
	if cn.br.Buffered() > 0 {
		return false
	}
	// A server's session tickets (RFC 8446 §4.6.1) are nothing said; they wait on
	// a connection that was opened ahead.
	return cn.raw.silent() || cn.secure() && cn.nothing()
}

func (cn *conn) secure() bool { return cn.rw != net.Conn(cn.raw) }

// nothing takes in what TLS has to say to itself, and reports that no data and
// no end came with it.
func (cn *conn) nothing() bool {
	cn.raw.looking = true
	n, err := cn.rw.Read(make([]byte, 1))
	cn.raw.looking = false
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// rest readies cn for the pool; false means it must not go there.
func (cn *conn) rest() bool {
	if cn.br.Buffered() > 0 {
		return false
	}
	if cn.secure() {
		// Bytes already decrypted are invisible to alive. With the deadline in
		// the past this sees them, and asks the system for nothing.
		cn.raw.SetReadDeadline(past)
		if !cn.nothing() {
			return false
		}
	}
	if cap(cn.wbuf) > keptBuffer {
		cn.wbuf = nil
	}
	if cap(cn.body) > keptBuffer {
		cn.body = nil
	}
	return cn.raw.SetDeadline(time.Time{}) == nil
}

// roundTrip writes req and reads the answer. A failed write does not end it: a
// server that refuses early and hangs up has often left its answer behind
// (RFC 9112 §9.6). A failed write does not prove that nothing was sent either: a
// reset can hide how far it came.
func (cn *conn) roundTrip(req []byte) (a Answer, err error) {
	cn.reusable = false
	var werr error
	if len(req) <= inlineWrite {
		_, werr = cn.rw.Write(req)
		a, err = cn.readAnswer()
		cn.link = cn.sample()
	} else {
		done := make(chan error, 1)
		go func() {
			_, err := cn.rw.Write(req)
			done <- err
		}()
		a, err = cn.readAnswer()
		cn.link = cn.sample()
		if err != nil || a.Status/100 != 2 {
			// It may be an early refusal with the rest of the record unread,
			// which a later request on this connection would run into.
			cn.reusable = false
			cn.abort()
		}
		if werr = <-done; a.Status/100 != 2 {
			werr = nil // what counts is the answer, or the error of reading it
		}
	}
	if werr != nil {
		cn.reusable = false
		if a.Status == 0 || a.Status/100 == 2 {
			// Not even a 2xx counts: the server cannot have seen all of the record.
			err = fmt.Errorf("write request: %w", werr)
		}
	}
	return a, err
}

// readAnswer reads one final answer. Status is set once its header is in, even
// if reading the body fails.
func (cn *conn) readAnswer() (Answer, error) {
	for range maxInterim + 1 {
		cn.lim.left = maxHeader
		resp, err := http.ReadResponse(cn.br, nil)
		if err != nil {
			return Answer{}, cn.readError(err)
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		// Chunk framing counts as well; it must not make the limit larger without bound.
		cn.lim.left = 2 * maxAnswer
		var whole bool
		cn.body, whole, err = readBody(cn.body[:0], resp.Body)
		a := Answer{Status: resp.StatusCode, Header: resp.Header, Body: cn.body, BodyComplete: whole}
		cn.reusable = whole && !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols && !bodiless(resp)
		if err != nil {
			return a, cn.readError(err)
		}
		return a, nil
	}
	return Answer{}, fmt.Errorf("%w: more than %d interim answers", ErrAnswer, maxInterim)
}

// bodiless finds 204 and 304 answers that announce a body, which would be taken
// for the next answer.
func bodiless(resp *http.Response) bool {
	if resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusNotModified {
		return false
	}
	n := resp.Header.Get("Content-Length")
	return n != "" && n != "0" || len(resp.TransferEncoding) > 0
}

// readBody appends up to maxAnswer bytes of r to b. whole tells that r ended
// there; more than maxAnswer is no error. r is not closed: closing would read
// the rest.
func readBody(b []byte, r io.Reader) (_ []byte, whole bool, err error) {
	if r == http.NoBody {
		return b, true, nil
	}
	if cap(b) == 0 {
		b = make([]byte, 0, 1024)
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):min(cap(b), maxAnswer+1)])
		b = b[:len(b)+n]
		switch {
		case len(b) > maxAnswer:
			return b[:maxAnswer], false, nil
		case err == io.EOF:
			return b, true, nil
		case errors.Is(err, errTooLong):
			return b, false, nil
		case err != nil:
			return b, false, err
		}
	}
}

// readError tells a connection that ended from an answer that makes no sense.
func (cn *conn) readError(err error) error {
	if _, ok := errors.AsType[net.Error](cn.lim.err); ok {
		err = cn.lim.err // net/http makes a malformed trailer of some
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("connection closed before the end of the answer: %w", err)
	}
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, ErrAnswer) {
		return fmt.Errorf("read answer: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrAnswer, err)
}
