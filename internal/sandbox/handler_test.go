package sandbox

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func script(t testing.TB, text string) Scenario {
	t.Helper()
	s, err := ParseScenario([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// send calls the handler without a network; aborted means that the connection
// would have been cut.
func send(h http.Handler, key, body string) (rec *httptest.ResponseRecorder, aborted bool) {
	req := httptest.NewRequest(http.MethodPost, "/v1/logs", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	rec = httptest.NewRecorder()
	defer func() {
		if v := recover(); v == http.ErrAbortHandler {
			aborted = true
		} else if v != nil {
			panic(v)
		}
	}()
	h.ServeHTTP(rec, req)
	return rec, false
}

func TestIdempotency(t *testing.T) {
	s := New(Scenario{})
	first, _ := send(s, "key-0001", `{"a":"b"}`)
	again, _ := send(s, `"key-0001"`, `{"a":"b"}`)
	other, _ := send(s, "key-0001", `{"a":"c"}`)
	missing, _ := send(s, "", `{"a":"b"}`)
	if first.Code != 201 || !strings.HasPrefix(first.Body.String(), `{"id":"rcpt-`) {
		t.Errorf("first: %d %s", first.Code, first.Body)
	}
	if again.Code != 200 || again.Body.String() != first.Body.String() || again.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("same key, same body: %d %s %v", again.Code, again.Body, again.Header())
	}
	for name, rec := range map[string]*httptest.ResponseRecorder{"other body": other, "missing key": missing} {
		if got := rec.Header().Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s: content type %q", name, got)
		}
	}
	if other.Code != 422 || missing.Code != 400 {
		t.Errorf("other body %d, missing key %d", other.Code, missing.Code)
	}
	st := s.Stats()
	if st.Requests != 4 || st.Applied != 1 || st.Duplicates != 1 || st.Conflicts != 1 {
		t.Errorf("%+v", st)
	}
	if s.Hits("key-0001") != 3 || s.TimesApplied("key-0001") != 1 || !maps.Equal(s.Applied(), map[string]int{"key-0001": 1}) {
		t.Errorf("hits %d, applied %v", s.Hits("key-0001"), s.Applied())
	}
	if NewWith(Scenario{}, Options{}).Applied() != nil {
		t.Error("a trace without Options.Trace")
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		body   string
		want   int
	}{
		{"method", func(r *http.Request) { r.Method = "PUT" }, `{}`, 405},
		{"long key", func(r *http.Request) { r.Header.Set("Idempotency-Key", strings.Repeat("k", 256)) }, `{}`, 400},
		{"content type", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, `{}`, 415},
		{"not JSON", func(*http.Request) {}, `{"a":`, 400},
		{"repeated member", func(*http.Request) {}, `{"a":"1","a":"2"}`, 400},
		{"too large", func(*http.Request) {}, `"` + strings.Repeat("x", maxBody) + `"`, 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", strings.NewReader(tt.body))
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
			r.Header.Set("Idempotency-Key", "key-0001")
			tt.change(r)
			rec, s := httptest.NewRecorder(), New(Scenario{})
			s.ServeHTTP(rec, r)
			if rec.Code != tt.want || s.Stats().Applied != 0 {
				t.Errorf("status %d, want %d; %+v", rec.Code, tt.want, s.Stats())
			}
		})
	}
}

// outcomes plays calls for one key each and names what became of them.
func outcomes(s *Server, key string, calls int) (out []string) {
	for range calls {
		rec, aborted := send(s, key, `{}`)
		if aborted {
			out = append(out, "cut")
		} else {
			out = append(out, strconv.Itoa(rec.Code))
		}
	}
	return out
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		want         string
		applied      int
	}{
		{"calm", "", "201 200 200 200", 1},
		{"then 200", "answer 503 for 2 calls, then 200", "503 503 201 200", 1},
		{"steps", "each record: 503, reset, lose, 200", "503 cut cut 200", 1},
		{"the last step goes on", "each record: 200, 500", "201 500 500 500", 1},
		{"call window", "after 2 calls: answer 401", "201 200 401 401", 1},
		{"first calls", "for the first 2 calls: reset all calls", "cut cut 201 200", 1},
		{"reject", "reject 422 for all records", "422 422 422 422", 0},
		{"portal", "portal", "200 200 200 200", 0},
		{"the first line wins", "answer 500 for all calls\nanswer 503", "500 500 500 500", 0},
		{"limit", "limit 1 per hour, burst 2, retry after 60s", "201 200 429 429", 1},
		{"forgetful", "forget keys", "201 201 201 201", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(script(t, tt.script))
			if got := strings.Join(outcomes(s, "key-0001", 4), " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got := s.TimesApplied("key-0001"); got != tt.applied {
				t.Errorf("applied %d times, want %d", got, tt.applied)
			}
		})
	}
}

func TestAnswerHeaders(t *testing.T) {
	rec, _ := send(New(script(t, "answer 503 retry after 5s as in-progress")), "key-0001", `{}`)
	if rec.Header().Get("Retry-After") != "5" || !strings.Contains(rec.Body.String(), `"title":"in progress"`) {
		t.Errorf("%v %s", rec.Header(), rec.Body)
	}
	rec, _ = send(New(script(t, "answer 307")), "key-0001", `{}`)
	if rec.Header().Get("Location") == "" {
		t.Error("307 without Location")
	}
	rec, _ = send(New(script(t, "portal")), "key-0001", `{}`)
	if !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/html") {
		t.Errorf("portal sends %q", rec.Header().Get("Content-Type"))
	}
}

// What strikes whom must not depend on the order of arrival.
func TestOrderDoesNotMatter(t *testing.T) {
	sc := script(t, "seed 7\nanswer 503 for 20% of calls\nlose 10% of answers\nreset 10% of calls\nreject 422 for 5% of records")
	run := func(workers int) map[string]string {
		var (
			mu   sync.Mutex
			wg   sync.WaitGroup
			got  = map[string]string{}
			s    = New(sc)
			next = make(chan string)
		)
		for range workers {
			wg.Go(func() {
				for key := range next {
					o := strings.Join(outcomes(s, key, 5), " ")
					mu.Lock()
					got[key] = o
					mu.Unlock()
				}
			})
		}
		for i := range 400 {
			next <- "key-" + strconv.Itoa(1000+i)
		}
		close(next)
		wg.Wait()
		return got
	}
	if one, many := run(1), run(16); !maps.Equal(one, many) {
		t.Error("16 workers met other faults than one")
	}
}

func TestShares(t *testing.T) {
	s := New(script(t, "answer 503 for 2% of calls\nreject 422 for 1% of records"))
	const n = 20_000
	for i := range n {
		send(s, "key-"+strconv.Itoa(i+10_000), `{}`)
	}
	st := s.Stats()
	if got := st.ByStatus[503]; got < n/100 || got > n*3/100 {
		t.Errorf("%d of %d calls answered 503, want about 2%%", got, n)
	}
	if got := st.ByStatus[422]; got < n/200 || got > n*3/200 {
		t.Errorf("%d of %d records rejected, want about 1%%", got, n)
	}
}

func TestBuiltin(t *testing.T) {
	want := "calm flaky lost-token outage portal throttled"
	if got := strings.Join(Names(), " "); got != want {
		t.Errorf("built in: %s, want %s", got, want)
	}
	for _, name := range append(Names(), "", "../../testdata/scenarios/flaky.scenario") {
		if _, err := Builtin(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := Builtin("stormy"); !errors.Is(err, ErrUnknownScenario) || !strings.Contains(err.Error(), "flaky") {
		t.Errorf("stormy: %v", err)
	}
}
