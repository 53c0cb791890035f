package api

import (
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"
)

// No word of an outcome repeats the login: neither from a text that was cut nor
// from an address or an error.
func TestLoginIsNotEchoed(t *testing.T) {
	token := strings.Repeat("sec/r&t-", 30) // longer than an excerpt
	escaped := strings.NewReplacer("/", `\/`, "&", `\u0026`).Replace(token)
	js := "application/json"
	for name, a := range map[string]Answer{
		"detail":     {Status: 403, Header: header("Content-Type", js), Body: []byte(`{"detail":"bad login Bearer ` + escaped + `"}`)},
		"excerpt":    {Status: 403, Header: header("Content-Type", js), Body: []byte(`{"seen":"Bearer ` + escaped + `"}`)},
		"in the cut": {Status: 403, Body: []byte(strings.Repeat("x", maxExcerpt-20) + token)},
		"far cut":    {Status: 403, Header: header("Content-Type", js), Body: []byte(`{"title":"` + strings.Repeat("x", maxProblem-20) + escaped + `"}`)},
		"error":      {Status: 200, Header: header("Content-Type", js), Body: []byte(`{"error":"` + escaped + `"}`)},
		"type":       {Status: 200, Header: header("Content-Type", "text/"+url.QueryEscape(token)), Body: []byte("x")},
		"receipt":    {Status: 200, Header: header("Content-Type", js), Body: []byte(`{"id":"` + escaped + `"}`)},
		"location":   {Status: 201, Header: header("Location", "/logs/"+token)},
		"redirect":   {Status: 307, Header: header("Location", "/login/"+token)},
		"encoded":    {Status: 307, Header: header("Location", "/login/"+url.PathEscape(token))},
		"HTML":       {Status: 403, Header: header("Content-Type", "text/html"), Body: []byte("<p>" + strings.ReplaceAll(html.EscapeString(token), "/", "&#x2F;"))},
		"host":       {Status: 307, Header: header("Location", "https://"+strings.ReplaceAll(token, "/", "%2F")+".example/")},
	} {
		t.Run(name, func(t *testing.T) {
			a.BodyComplete = true
			for _, headers := range []map[string]string{nil, {"Authorization": "Bearer " + token}} {
				c := newTestClient(t, "http://api.test/", func(cfg *Config) { cfg.Headers = headers })
				r := record(1)
				if headers == nil {
					r.Token = token
				}
				o := Classify(a, nil, true, time.Now(), c.judging(c.policy, r))
				for _, text := range []string{o.Problem, o.Receipt, fmt.Sprint(o.Err)} {
					if strings.Contains(text, "sec") {
						t.Errorf("%q", text)
					}
				}
				if !strings.Contains(o.Problem+o.Receipt, "***") && !strings.HasSuffix(o.Problem, "...") && !strings.Contains(o.Problem, "unreadable") {
					t.Errorf("%q, %q", o.Problem, o.Receipt)
				}
			}
		})
	}
	inner := fmt.Errorf("malformed HTTP response %q: %w", "login "+token, io.ErrUnexpectedEOF)
	o := Classify(Answer{}, inner, true, time.Now(), Policy{hidden: []string{token}})
	if strings.Contains(o.Err.Error()+o.Problem, "sec") || !errors.Is(o.Err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, %q", o.Err, o.Problem)
	}
}
