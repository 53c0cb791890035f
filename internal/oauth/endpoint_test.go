package oauth

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trafficup/internal/secret"
)

// endpoint is a token endpoint. Set what it shall do before it is asked.
type endpoint struct {
	mu       sync.Mutex
	expires  string        // the JSON of expires_in; "": left out
	slow     time.Duration // before it answers
	answer   http.HandlerFunc
	rotating bool   // a refresh token works once, and once more until its successor was used
	strict   bool   // it does not work once more
	refresh  string // guarded by mu; the refresh token that works, "" for client credentials
	spare    string // guarded by mu; the one before
	asked    int    // guarded by mu
	times    []time.Time
	wrong    []string // guarded by mu; what no client may do
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.asked++
	n := e.asked
	e.times = append(e.times, time.Now())
	if id, pass, ok := r.BasicAuth(); r.Method != http.MethodPost || !ok || id != "client" || pass != "CANARY-secret" {
		e.wrong = append(e.wrong, fmt.Sprint(r.Method, r.Header))
	}
	answer, slow, expires := e.answer, e.slow, e.expires
	e.mu.Unlock()
	time.Sleep(slow)
	if answer != nil {
		answer(w, r)
		return
	}
	if expires != "" {
		expires = `,"expires_in":` + expires
	}
	if used := r.FormValue("refresh_token"); used != "" {
		next, ok := e.rotate(used, n)
		if !ok {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, `{"error":"invalid_grant","error_description":"refresh token was used before"}`)
			return
		}
		expires += `,"refresh_token":"` + next + `"`
	}
	_, _ = fmt.Fprintf(w, `{"access_token":"CANARY-access-%d","token_type":"Bearer"%s}`, n, expires)
}

func (e *endpoint) rotate(used string, n int) (next string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if used != e.refresh && used != e.spare {
		e.refresh, e.spare = "", "" // used twice: the family is revoked
		return "", false
	}
	if e.rotating {
		e.refresh, e.spare = fmt.Sprintf("CANARY-refresh-%d", n), used
		if e.strict {
			e.spare = e.refresh
		}
	}
	return e.refresh, true
}

func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

func (e *endpoint) do(answer http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func says(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// pipes is a listener in memory, which a bubble can wait for.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serve starts e and returns a configuration that leads to it.
func serve(t *testing.T, e *endpoint) Config {
	t.Helper()
	ln := make(pipes)
	srv := &http.Server{Handler: e}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() {
		close(ln)
		<-done
		_ = srv.Close()
		if len(e.wrong) > 0 {
			t.Errorf("the endpoint was sent %s", e.wrong)
		}
	})
	return Config{
		TokenURL: "http://127.0.0.1/token", ClientID: "client", ClientSecret: secret.New("CANARY-secret"),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			near, far := net.Pipe()
			select {
			case ln <- far:
				return near, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
}

func source(t *testing.T, cfg Config) Source {
	t.Helper()
	s, err := OAuth2(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(t *testing.T, s Source) Token {
	t.Helper()
	tok, err := s.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestMain(m *testing.M) {
	helper()
	goleak.VerifyTestMain(m)
}
