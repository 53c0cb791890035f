package sandbox

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(script(t, `
from 10s to 25s: answer 503 retry after 5s
from 30s to 31s: reset all calls
from 40s to 41s: lose all answers
from 50s: hold all answers for 12s
delay 230ms`))
		ts := httptest.NewTestServer(t, s)
		client := ts.Client()
		post := func(key string) (int, error) {
			req, _ := http.NewRequest("POST", ts.URL+"/v1/logs", bytes.NewReader([]byte(`{"a":"b"}`)))
			req.GetBody = nil // or the transport would send it again behind our back
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", key)
			resp, err := client.Do(req)
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			io.Copy(io.Discard, resp.Body)
			return resp.StatusCode, nil
		}
		begin := time.Now()
		at := func(d time.Duration) { time.Sleep(d - time.Since(begin)) }

		if code, err := post("key-0001"); code != 201 || err != nil || time.Since(begin) != 230*time.Millisecond {
			t.Errorf("calm: %d %v after %v", code, err, time.Since(begin))
		}
		at(10 * time.Second)
		if code, _ := post("key-0002"); code != 503 {
			t.Errorf("in the window: %d", code)
		}
		at(25 * time.Second)
		if code, _ := post("key-0002"); code != 201 {
			t.Errorf("after the window: %d", code)
		}
		client.CloseIdleConnections() // a fresh connection: a failure on a kept one may be retried
		at(30 * time.Second)
		if code, err := post("key-0003"); err == nil || s.TimesApplied("key-0003") != 0 {
			t.Errorf("reset: %d, applied %d", code, s.TimesApplied("key-0003"))
		}
		at(40 * time.Second)
		if code, err := post("key-0004"); err == nil || s.TimesApplied("key-0004") != 1 {
			t.Errorf("lost answer: %d, applied %d", code, s.TimesApplied("key-0004"))
		}
		at(50 * time.Second)
		client.Timeout = 10 * time.Second
		if code, err := post("key-0005"); err == nil || s.TimesApplied("key-0005") != 1 {
			t.Errorf("held answer: %d, applied %d", code, s.TimesApplied("key-0005"))
		}
	})
}

func TestMaxInFlightAndGoneClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(script(t, "delay 1s"))
		ctx := t.Context()
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() { send(s, "key-000"+strconv.Itoa(i), `{}`) })
		}
		wg.Wait()
		gone, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		req := httptest.NewRequestWithContext(gone, "POST", "/", strings.NewReader(`{}`))
		req.Header.Set("Idempotency-Key", "key-gone")
		func() {
			defer func() {
				if v := recover(); v != http.ErrAbortHandler {
					t.Errorf("ended with %v", v)
				}
			}()
			s.ServeHTTP(httptest.NewRecorder(), req)
		}()
		if st := s.Stats(); st.MaxInFlight != 5 || st.GoneClients != 1 || st.Applied != 5 {
			t.Errorf("%+v", st)
		}
	})
}
