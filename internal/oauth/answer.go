package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"trafficup/internal/retry"
	"trafficup/internal/secret"
)

const (
	maxAnswer = 64 << 10        // bytes
	maxWait   = 5 * time.Minute // the longest Retry-After that is obeyed
)

// answer is what a token endpoint says (RFC 6749, sections 5.1 and 5.2).
type answer struct {
	AccessToken  string          `json:"access_token"`
	TokenType    string          `json:"token_type"`
	ExpiresIn    json.RawMessage `json:"expires_in"`
	RefreshToken string          `json:"refresh_token"`
	Error        string          `json:"error"`
	Description  string          `json:"error_description"`
}

func decode(body []byte) (a answer, ok bool) {
	// The error is not passed on: it may quote the token.
	return a, json.Unmarshal(body, &a) == nil
}

// grant returns the token of a. No error shows any of it.
func (a answer) grant() (grant, error) {
	if a.AccessToken == "" {
		return grant{}, errors.New("the answer has no access_token")
	}
	if a.TokenType != "" && !strings.EqualFold(a.TokenType, "bearer") {
		return grant{}, errors.New("the answer's token_type is not bearer")
	}
	value, err := secret.Clean([]byte(a.AccessToken))
	if err != nil {
		return grant{}, fmt.Errorf("the answer's access_token %w", err)
	}
	if err := Valid(value); err != nil {
		return grant{}, fmt.Errorf("the answer's access_token %w", err)
	}
	life := lifetime(string(a.ExpiresIn))
	return grant{value: value, lifetime: life, left: life}, nil
}

// lifetime reads expires_in, in seconds, also where it is a string or no whole
// number. Nought, negative, beyond any sense or unreadable is a lifetime that is
// not known, which is nought: the token is used until it is refused. One second
// is the shortest, or an API that refuses everything would make us ask for ever.
func lifetime(raw string) time.Duration {
	const most = 1e9 // seconds; a Duration holds nine times that
	s, err := strconv.ParseFloat(strings.Trim(raw, `"`), 64)
	if err != nil || math.IsNaN(s) || s <= 0 || s > most {
		return 0
	}
	return max(time.Duration(s*float64(time.Second)), time.Second)
}

// passing are the errors of an endpoint that asks for patience. Any other it has
// a word for stays until somebody does something.
var passing = map[string]bool{"temporarily_unavailable": true, "server_error": true, "slow_down": true}

// judge tells what an answer means. mask hides secrets that the server repeats.
func judge(status int, header http.Header, body []byte, mask func(string) string) (answer, error) {
	a, ok := decode(body)
	if !ok {
		a = answer{}
	}
	if status == http.StatusOK && a.Error == "" {
		coding := header.Get("Content-Encoding")
		switch {
		case !ok && coding != "":
			return a, unavailable(mask(fmt.Sprintf("the token endpoint's answer is compressed (%s), which was not asked for", coding)))
		case !ok:
			return a, unavailable("the token endpoint's answer is not the JSON of a token")
		}
		if _, err := a.grant(); err != nil {
			return a, unavailable(err.Error())
		}
		return a, nil
	}
	text := fmt.Sprintf("token endpoint answered %d", status)
	if status/100 == 3 {
		text += " (redirects are not followed)"
	}
	if a.Error != "" {
		text += " " + a.Error
	}
	if a.Description != "" {
		text += ": " + a.Description
	}
	text = words(mask(text))
	switch status {
	case http.StatusOK, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		if a.Error != "" && !passing[a.Error] || a.Error == "" && status == http.StatusUnauthorized {
			return a, denied(text)
		}
	}
	wait, _ := retry.ParseRetryAfter(header, time.Now())
	return a, &failure{kind: ErrUnavailable, text: text, wait: min(wait, maxWait)}
}
