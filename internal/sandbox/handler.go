package sandbox

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBody is the largest record there is (1 MiB), and a little more so that
// the refusal is ours.
const maxBody = 1<<20 + 1<<10

const portalPage = `<!DOCTYPE html><html><head><title>Welcome aboard</title></head>` +
	`<body><h1>Please sign in to use this network</h1></body></html>`

// ServeHTTP handles one call. The body is read whole before anything is
// decided, so that a kept-alive connection stays usable after every answer.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := s.arrive(r)
	defer s.inFlight.Add(-1)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		s.problem(w, http.StatusRequestEntityTooLarge, "", "the record is larger than 1 MiB", noRetryAfter)
		return
	} else if err != nil {
		s.gone()
	}
	f := s.decide(c)
	s.publish(w.Header(), c)
	if !sleep(r.Context(), f.wait) {
		s.gone()
		return
	}
	switch {
	case f.verb == verbReset:
		s.count(func(st *Stats) { st.Resets++ })
		cut(w, true)
	case f.verb == verbPortal:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		s.write(w, http.StatusOK, portalPage)
	case f.status != 0:
		s.problem(w, f.status, f.problem, "as the scenario says", f.retryAfter)
	default:
		a := s.handle(c, r, body)
		sleep(r.Context(), f.hold)
		if f.verb == verbLose {
			s.count(func(st *Stats) { st.Lost++ })
			cut(w, false)
			return
		}
		s.answer(w, a)
	}
}

// publish tells of the limits, in the words of the draft standard for RateLimit
// header fields.
func (s *Server) publish(h http.Header, c call) {
	for i, r := range s.scenario.rules {
		if r.published && r.when.covers(c.elapsed, c.number) {
			window := map[string]int{"second": 1, "minute": 60, "hour": 3600}[r.per]
			left := max(0, int(s.limits[i].TokensAt(c.now)))
			h.Add("RateLimit-Policy", fmt.Sprintf(`"limit-%d";q=%d;w=%d`, i, r.rate, window))
			h.Add("RateLimit", fmt.Sprintf(`"limit-%d";r=%d;t=%d`, i, left, window))
		}
	}
}

// answer is what a healthy server has to say to a call.
type answer struct {
	status   int
	problem  string // "" with a receipt
	detail   string
	receipt  string
	replayed bool
}

// handle is the healthy server: it checks the call and applies it.
func (s *Server) handle(c call, r *http.Request, body []byte) answer {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.Method != http.MethodPost:
		return answer{status: http.StatusMethodNotAllowed, detail: "records are sent by POST"}
	case c.key == "":
		return answer{status: http.StatusBadRequest, problem: "idempotency-key-missing", detail: "the Idempotency-Key header is missing"}
	case len(c.key) > 255:
		return answer{status: http.StatusBadRequest, problem: "idempotency-key-too-long", detail: "the Idempotency-Key is longer than 255 bytes"}
	case media != "application/json":
		return answer{status: http.StatusUnsupportedMediaType, detail: "the body is to be application/json"}
	case !jsontext.Value(body).IsValid():
		return answer{status: http.StatusBadRequest, problem: "not-json", detail: "the body is not one JSON value"}
	}
	result := s.ledger.apply(c.hash, hashBody(body))
	s.count(func(st *Stats) {
		switch result {
		case appliedNow:
			st.Applied++
			if s.trace != nil {
				s.trace[c.key]++
			}
		case appliedBefore:
			st.Duplicates++
		case appliedOther:
			st.Conflicts++
		}
	})
	switch result {
	case appliedNow:
		return answer{status: http.StatusCreated, receipt: c.hash.receipt()}
	case appliedBefore:
		return answer{status: http.StatusOK, receipt: c.hash.receipt(), replayed: true}
	default:
		return answer{status: http.StatusUnprocessableEntity, problem: "idempotency-key-reused", detail: "the key was used with another body"}
	}
}

func (s *Server) answer(w http.ResponseWriter, a answer) {
	if a.receipt == "" {
		if a.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodPost)
		}
		s.problem(w, a.status, a.problem, a.detail, noRetryAfter)
		return
	}
	if a.replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.Header().Set("Content-Type", "application/json")
	s.write(w, a.status, `{"id":"`+a.receipt+`"}`+"\n")
}

// problem answers with a problem document (RFC 9457).
func (s *Server) problem(w http.ResponseWriter, status int, name, detail string, retryAfter time.Duration) {
	if name == "" {
		name = strings.ToLower(strings.ReplaceAll(http.StatusText(status), " ", "-"))
		if name == "" {
			name = "status-" + strconv.Itoa(status)
		}
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if retryAfter != noRetryAfter {
		h.Set("Retry-After", strconv.FormatInt(int64(retryAfter/time.Second), 10))
	}
	switch {
	case status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="sandbox", error="invalid_token"`)
	case status >= 300 && status < 400 && status != http.StatusNotModified:
		h.Set("Location", "https://elsewhere.invalid/login")
	}
	s.write(w, status, fmt.Sprintf(`{"type":"https://sandbox.invalid/problems/%s","title":%q,"status":%d,"detail":%q}`+"\n",
		name, strings.ReplaceAll(name, "-", " "), status, detail))
}

func (s *Server) write(w http.ResponseWriter, status int, body string) {
	s.count(func(st *Stats) { st.ByStatus[status]++ })
	w.WriteHeader(status)
	io.WriteString(w, body) // a client that left is no fault of ours
}

// gone ends a call whose client gave up: a request that was not received whole
// or that was abandoned during the delay is not applied.
func (s *Server) gone() {
	s.count(func(st *Stats) { st.GoneClients++ })
	panic(http.ErrAbortHandler)
}

// cut ends the connection without an answer, with a TCP reset if asked for and
// possible. Where the connection cannot be taken over (HTTP/2, a recorder) it
// panics with http.ErrAbortHandler, which has net/http do the same.
func cut(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	raw := conn
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // *tls.Conn would say goodbye politely
		raw = t.NetConn()
	}
	if l, ok := raw.(interface{ SetLinger(int) error }); ok && reset {
		l.SetLinger(0) // unsent data is dropped and RST sent
	}
	raw.Close()
}

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
