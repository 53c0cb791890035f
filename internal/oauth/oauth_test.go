package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/secret"
)

func TestRefusalsLeadToOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{expires: "3600", slow: time.Second}
		s := source(t, serve(t, e))
		first := get(t, s)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 30 * time.Millisecond) // some come late
				tok, err := s.Refuse(t.Context(), first.Generation, "primary")
				if err != nil || tok.Value.Reveal() != "CANARY-access-2" || tok.Generation != 2 {
					t.Errorf("%q, %d, %v", tok.Value.Reveal(), tok.Generation, err)
				}
			})
		}
		wg.Wait()
		if n := e.count(); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestAlwaysRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{expires: "3600"}
		s := source(t, serve(t, e))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				tok := get(t, s)
				for range 10 {
					var err error
					if tok, err = s.Refuse(t.Context(), tok.Generation, "primary"); err != nil {
						if !errors.Is(err, ErrSame) {
							t.Error(err)
						}
						return
					}
				}
				t.Error("it goes on for ever")
			})
		}
		wg.Wait()
		if n := e.count(); n != 2 {
			t.Errorf("%d requests", n)
		}
		// A token that served for a while may be revoked like any other.
		time.Sleep(minInterval)
		if tok, err := s.Refuse(t.Context(), 2, "primary"); err != nil || tok.Generation != 3 {
			t.Errorf("%v, %v", tok, err)
		}
	})
}

func TestSameTokenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answer: says(200, `{"access_token":"one","expires_in":100}`)}
		s := source(t, serve(t, e))
		get(t, s)
		time.Sleep(90 * time.Second)
		get(t, s) // renewed in the background, with the same value
		synctest.Wait()
		if tok := get(t, s); tok.Generation != 1 || time.Until(tok.Expires) != 100*time.Second {
			t.Errorf("%v", tok)
		}
		if _, err := s.Refuse(t.Context(), 1, "primary"); !errors.Is(err, ErrSame) {
			t.Error(err)
		}
	})
}

// TestRequestsPerLifetime: a record a second for some time, whatever the server
// says of the lifetime.
func TestRequestsPerLifetime(t *testing.T) {
	for _, c := range []struct {
		expires  string
		min, max int // requests in 600 s
	}{
		{"", 1, 1}, {"0", 1, 1}, {"-5", 1, 1}, {"null", 1, 1}, {"1e12", 1, 1}, {`"soon"`, 1, 1}, {`"NaN"`, 1, 1}, {"true", 1, 1}, {"1e400", 1, 1},
		{"1", 60, 61}, {"5", 55, 61}, {"60", 11, 13}, {`"60"`, 11, 13}, {"60.5", 11, 13}, {"3600", 1, 1},
	} {
		t.Run(c.expires, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{expires: c.expires}
				s := source(t, serve(t, e))
				for range 600 {
					get(t, s)
					time.Sleep(time.Second)
				}
				if n := e.count(); n < c.min || n > c.max {
					t.Errorf("%d requests, want %d to %d", n, c.min, c.max)
				}
				for i := 1; i < len(e.times); i++ {
					if gap := e.times[i].Sub(e.times[i-1]); gap < minInterval {
						t.Errorf("two requests within %s", gap)
					}
				}
			})
		})
	}
}

func TestRenewalKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{expires: "100"}
		s := source(t, serve(t, e))
		get(t, s)
		e.mu.Lock()
		e.slow = 5 * time.Second
		e.mu.Unlock()
		time.Sleep(80*time.Second - 1)
		get(t, s)
		synctest.Wait()
		if n := e.count(); n != 1 {
			t.Errorf("%d requests before 80 %% of the lifetime", n)
		}
		time.Sleep(5 * time.Second)
		start := time.Now()
		for range 3 {
			if tok := get(t, s); tok.Generation != 1 || time.Since(start) != 0 {
				t.Errorf("%v after %s", tok, time.Since(start))
			}
		}
		time.Sleep(6 * time.Second)
		if tok := get(t, s); tok.Generation != 2 || e.count() != 2 {
			t.Errorf("%v after %d requests", tok, e.count())
		}
	})
}

func TestExpiredTokenOfShortLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := source(t, serve(t, &endpoint{expires: "1"}))
		tok := get(t, s)
		for range 5 { // expired and refused each time: no proof that a fresh one is refused
			time.Sleep(2 * time.Second)
			next, err := s.Refuse(t.Context(), tok.Generation, "primary")
			if err != nil || next.Generation != tok.Generation+1 {
				t.Fatalf("%v, %v", next, err)
			}
			tok = next
		}
	})
}

func TestEndpointDownThenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{expires: "100"}
		s := source(t, serve(t, e))
		get(t, s)
		e.do(says(503, "<html>", "Retry-After", "30"))
		time.Sleep(90 * time.Second)
		get(t, s)
		time.Sleep(9 * time.Second)
		get(t, s) // still valid
		time.Sleep(2 * time.Second)
		_, err := s.Token(t.Context())
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "503") {
			t.Fatal(err)
		}
		var again interface{ RetryAfter() (time.Duration, bool) }
		if !errors.As(err, &again) {
			t.Fatal("no word of when to ask again")
		}
		wait, ok := again.RetryAfter()
		if !ok || wait != 19*time.Second || e.count() != 2 {
			t.Errorf("wait %s, %v after %d requests", wait, ok, e.count())
		}
		e.do(nil)
		time.Sleep(wait)
		if tok := get(t, s); tok.Generation != 2 {
			t.Errorf("%v", tok)
		}
	})
}

func TestRefusedTokenIsNotGivenOutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		s := source(t, serve(t, e))
		get(t, s)
		e.do(says(503, ""))
		for range 3 {
			if _, err := s.Refuse(t.Context(), 1, "primary"); !errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
			if _, err := s.Token(t.Context()); !errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
		}
		if n := e.count(); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestCallerGivesUpFetchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{slow: 5 * time.Second}
		s := source(t, serve(t, e))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Token(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		if tok := get(t, s); tok.Generation != 1 || e.count() != 1 {
			t.Errorf("%v after %d requests", tok, e.count())
		}
	})
}

// TestAnswers: what an endpoint may say, and that no error repeats a secret.
func TestAnswers(t *testing.T) {
	huge := `{"access_token":"` + strings.Repeat("x", maxAnswer) + `"}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
		text   string
	}{
		"invalid_grant":       {says(400, `{"error":"invalid_grant"}`), ErrDenied, "400 invalid_grant"},
		"invalid_client":      {says(401, `{"error":"invalid_client","error_description":"bad CANARY-secret\u0007!"}`), ErrDenied, "bad *** !"},
		"unauthorized_client": {says(400, `{"error":"unauthorized_client"}`), ErrDenied, "unauthorized_client"},
		"own word":            {says(403, `{"error":"tenant_suspended"}`), ErrDenied, "tenant_suspended"},
		"bare 401":            {says(401, ""), ErrDenied, "401"},
		"error with 200":      {says(200, `{"error":"invalid_grant"}`), ErrDenied, "invalid_grant"},
		"patience":            {says(400, `{"error":"temporarily_unavailable"}`), ErrUnavailable, "temporarily"},
		"500 with a word":     {says(500, `{"error":"invalid_grant"}`), ErrUnavailable, "500"},
		"429":                 {says(429, ""), ErrUnavailable, "429"},
		"bare 400":            {says(400, "<html>CANARY-secret"), ErrUnavailable, "400"},
		"404":                 {says(404, ""), ErrUnavailable, "404"},
		"redirect":            {says(307, "", "Location", "http://127.0.0.1/token"), ErrUnavailable, "307 (redirects are not followed)"},
		"gzip":                {says(200, "\x1f\x8b", "Content-Encoding", "gzip"), ErrUnavailable, "compressed (gzip)"},
		"long token":          {says(200, `{"access_token":"`+strings.Repeat("CANARY", 1<<11)+`"}`), ErrUnavailable, "longer than 8 KiB"},
		"header as token":     {says(200, `{"access_token":"Bearer CANARY"}`), ErrUnavailable, "leave the word out"},
		"HTML":                {says(200, "<html>CANARY-secret"), ErrUnavailable, "not the JSON"},
		"empty":               {says(200, "{}"), ErrUnavailable, "no access_token"},
		"number":              {says(200, `{"access_token":123456789}`), ErrUnavailable, "not the JSON"},
		"two values":          {says(200, `{"access_token":"CANARY-a"}{}`), ErrUnavailable, "not the JSON"},
		"mac":                 {says(200, `{"access_token":"CANARY-a","token_type":"mac"}`), ErrUnavailable, "token_type"},
		"line end":            {says(200, `{"access_token":"CANARY-a\nX-Evil: 1"}`), ErrUnavailable, "more than one line"},
		"huge":                {says(200, huge), ErrUnavailable, "longer than 64 KiB"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for err := error(nil); err == nil; {
				_, err = w.Write(make([]byte, 1<<10))
			}
		}, ErrUnavailable, "longer than 64 KiB"},
		"long words": {says(400, `{"error":"x","error_description":"`+strings.Repeat("CANARY-secret ", 1000)+`"}`), ErrDenied, "x: ***"},
		"echo": {func(w http.ResponseWriter, r *http.Request) {
			says(401, `{"error":"`+r.Header.Get("Authorization")+`"}`)(w, r)
		}, ErrDenied, "Basic ***"},
		"slow": {func(http.ResponseWriter, *http.Request) { time.Sleep(15 * time.Second) }, ErrUnavailable, "token endpoint 127.0.0.1: has not answered for 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{answer: c.answer}
				s := source(t, serve(t, e))
				_, err := s.Token(t.Context())
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
					t.Fatalf("%v", err)
				}
				for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, err)} {
					if strings.Contains(text, "CANARY") || len(err.Error()) > maxWords+40 {
						t.Errorf("%d bytes: %s", len(text), text)
					}
				}
				if _, again := s.Token(t.Context()); again != err || e.count() != 1 {
					t.Errorf("%v after %d requests", again, e.count())
				}
				time.Sleep(10 * time.Second) // the slow one
			})
		})
	}
}

func TestConfig(t *testing.T) {
	ok := Config{TokenURL: "https://idp.example/token", ClientID: "c", ClientSecret: secret.New("s")}
	if _, err := OAuth2(ok); err != nil {
		t.Fatal(err)
	}
	for text, change := range map[string]func(*Config){
		"not an http":         func(c *Config) { c.TokenURL = "idp.example/token" },
		"://***@idp.example":  func(c *Config) { c.TokenURL = "https://u:CANARY@idp.example/" },
		"without encryption":  func(c *Config) { c.TokenURL = "http://idp.example/" },
		"client id":           func(c *Config) { c.ClientID = "" },
		"one is needed":       func(c *Config) { c.ClientSecret = secret.Secret{} },
		"is not an http or h": func(c *Config) { c.TokenURL = "https://u:CANARY\x7f@h/" },
	} {
		cfg := ok
		change(&cfg)
		if _, err := OAuth2(cfg); err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestRequestForms(t *testing.T) {
	forms := make(chan string, 1)
	answer := func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		forms <- r.PostForm.Encode()
		says(200, `{"access_token":"a"}`)(w, r)
	}
	for want, change := range map[string]func(*Config){
		"grant_type=client_credentials":                                              func(*Config) {},
		"audience=api&grant_type=client_credentials&scope=a+b":                       func(c *Config) { c.Scopes, c.Audience = []string{"a", "b"}, "api" },
		"grant_type=refresh_token&refresh_token=r":                                   func(c *Config) { c.RefreshToken = secret.New("r") },
		"client_id=client&client_secret=CANARY-secret&grant_type=client_credentials": func(c *Config) { c.AuthStyle = InBody },
		"client_id=client&grant_type=refresh_token&refresh_token=r":                  func(c *Config) { c.RefreshToken, c.ClientSecret = secret.New("r"), secret.Secret{} },
	} {
		e := &endpoint{answer: answer}
		cfg := serve(t, e)
		change(&cfg)
		get(t, source(t, cfg))
		if got := <-forms; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		e.wrong = nil // it only knows the header
	}
}

func TestLifetime(t *testing.T) {
	for raw, want := range map[string]time.Duration{
		"": 0, "null": 0, "0": 0, "-1": 0, `"x"`: 0, "1e10": 0, `"Inf"`: 0, "[1]": 0,
		"0.001": time.Second, "1": time.Second, "1.5": 1500 * time.Millisecond, `"3600"`: time.Hour, "3.6e3": time.Hour, "1e9": 1e9 * time.Second,
	} {
		if got := lifetime(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestStatic(t *testing.T) {
	s := Static(secret.New("x"))
	if tok := get(t, s); tok.Value.Reveal() != "x" || !tok.Expires.IsZero() {
		t.Error(tok)
	}
	if _, err := s.Refuse(t.Context(), 1, "primary"); !errors.Is(err, ErrSame) {
		t.Error(err)
	}
}

// TestTwoSourcesShareACache: as two processes do, with clocks in one bubble.
func TestTwoSourcesShareACache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{expires: "3600", slow: time.Second, rotating: true, refresh: "CANARY-refresh"}
		cfg := serve(t, e)
		cfg.RefreshToken, cfg.CacheFile = secret.New("CANARY-refresh"), filepath.Join(t.TempDir(), "token.json")
		a, b := source(t, cfg), source(t, cfg)
		both := func(f func(Source) (Token, error), want string) {
			t.Helper()
			var wg sync.WaitGroup
			for _, s := range []Source{a, b} {
				wg.Go(func() {
					if tok, err := f(s); err != nil || tok.Value.Reveal() != want {
						t.Errorf("%q, %v", tok.Value.Reveal(), err)
					}
				})
			}
			wg.Wait()
		}
		both(func(s Source) (Token, error) { return s.Token(t.Context()) }, "CANARY-access-1")
		both(func(s Source) (Token, error) { return s.Refuse(t.Context(), 1, "primary") }, "CANARY-access-2")
		time.Sleep(55 * time.Minute)
		both(func(s Source) (Token, error) { return s.Token(t.Context()) }, "CANARY-access-2")
		time.Sleep(10 * time.Second)
		both(func(s Source) (Token, error) { return s.Token(t.Context()) }, "CANARY-access-3")
		if n := e.count(); n != 3 {
			t.Errorf("%d requests", n)
		}
	})
}
