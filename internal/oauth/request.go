package oauth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"trafficup/internal/secret"
)

// ask makes one request. The transport is used without http.Client, which would
// follow redirects and take the secret where they lead.
func (c *client) ask(ctx context.Context, refresh secret.Secret) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	c.masks.AddToken(refresh)
	req, err := c.request(ctx, refresh)
	if err != nil {
		return answer{}, unavailable(err.Error())
	}
	status, header, body, err := c.roundTrip(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("has not answered for %s", c.Timeout)
		}
		return answer{}, unavailable(c.masks.Redact(c.endpoint() + ": " + err.Error()))
	}
	if a, ok := decode(body); ok {
		c.masks.AddToken(secret.New(a.AccessToken))
		c.masks.AddToken(secret.New(a.RefreshToken))
	}
	return judge(status, header, body, c.masks.Redact)
}

// endpoint names who is asked.
func (cfg Config) endpoint() string {
	u, err := url.Parse(cfg.TokenURL)
	if err != nil {
		return "token endpoint"
	}
	return "token endpoint " + u.Host
}

func (c *client) request(ctx context.Context, refresh secret.Secret) (*http.Request, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if !refresh.IsZero() {
		form = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh.Reveal()}}
	}
	if len(c.Scopes) > 0 {
		form.Set("scope", strings.Join(c.Scopes, " "))
	}
	if c.Audience != "" {
		form.Set("audience", c.Audience)
	}
	inHeader := c.AuthStyle == InHeader && !c.ClientSecret.IsZero()
	if !inHeader {
		form.Set("client_id", c.ClientID)
		if !c.ClientSecret.IsZero() {
			form.Set("client_secret", c.ClientSecret.Reveal())
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "trafficup")
	if inHeader {
		req.Header.Set("Authorization", "Basic "+c.basic())
	}
	return req, nil
}

// basic encodes id and secret as RFC 6749, section 2.3.1, wants it: as in a form,
// then as Basic does.
func (c *client) basic() string {
	return base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(c.ClientID) + ":" + url.QueryEscape(c.ClientSecret.Reveal())))
}

func (c *client) roundTrip(req *http.Request) (status int, header http.Header, body []byte, err error) {
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end or given up
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("answer is longer than %d KiB", maxAnswer>>10)
	}
	return resp.StatusCode, resp.Header, body, err
}
