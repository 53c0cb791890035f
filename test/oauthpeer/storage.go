package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// lifetime is that of an access token.
const lifetime = time.Hour

// storage is the library's memory. Safe for concurrent use.
type storage struct {
	op.Storage // nil: the methods for browsers, which nobody calls here
	key        signingKey

	mu     sync.Mutex
	access map[string]access // guarded by mu; by id
	grants map[string]*grant // guarded by mu; by each refresh token it ever had
}

// access is an access token that is valid.
type access struct {
	client  string
	of      *grant // nil: of the client's secret
	expires time.Time
}

// grant is what somebody once consented to.
type grant struct {
	client, subject string
	refresh         string // the one that works; "": none does
}

func newStorage() (*storage, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &storage{key: signingKey{key}, access: map[string]access{}, grants: map[string]*grant{}}, nil
}

// consent returns the refresh token of a new grant, which a person's sign-in
// brings elsewhere.
func (s *storage) consent() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rotate(&grant{client: "client", subject: "somebody"})
}

// rotate gives a grant its next refresh token. requires mu.
func (s *storage) rotate(g *grant) string {
	g.refresh = "CANARY-refresh-" + rand.Text()
	s.grants[g.refresh] = g
	return g.refresh
}

// issue keeps a new access token. requires mu.
func (s *storage) issue(client string, of *grant) (id string, expires time.Time) {
	id, expires = rand.Text(), time.Now().Add(lifetime)
	s.access[id] = access{client, of, expires}
	return id, expires
}

// find returns the grant of a refresh token. One that was used before is in two
// hands: it ends the grant (RFC 9700, section 4.14.2). requires mu.
func (s *storage) find(refresh string) (*grant, error) {
	g, ok := s.grants[refresh]
	if !ok {
		return nil, oidc.ErrInvalidGrant().WithDescription("refresh token is not known")
	}
	if g.refresh != refresh {
		s.end(g)
		return nil, oidc.ErrInvalidGrant().WithDescription("refresh token was used before or revoked")
	}
	return g, nil
}

// end revokes all tokens of a grant. requires mu.
func (s *storage) end(g *grant) {
	g.refresh = ""
	for id, a := range s.access {
		if a.of == g {
			delete(s.access, id)
		}
	}
}

func (s *storage) ClientCredentials(_ context.Context, id, secret string) (op.Client, error) {
	c, ok := clients[id]
	if !ok || c.secret != secret {
		return nil, errors.New("client or secret is wrong")
	}
	return c, nil
}

func (s *storage) AuthorizeClientIDSecret(ctx context.Context, id, secret string) error {
	_, err := s.ClientCredentials(ctx, id, secret)
	return err
}

func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	c, ok := clients[id]
	if !ok {
		return nil, oidc.ErrInvalidClient()
	}
	return c, nil
}

func (s *storage) ClientCredentialsTokenRequest(_ context.Context, id string, scopes []string) (op.TokenRequest, error) {
	return &oidc.JWTTokenRequest{Subject: id, Scopes: scopes}, nil
}

// CreateAccessToken is asked by clients for themselves only.
func (s *storage) CreateAccessToken(_ context.Context, req op.TokenRequest) (id string, expires time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, expires = s.issue(req.GetSubject(), nil)
	return id, expires, nil
}

func (s *storage) TokenRequestByRefreshToken(_ context.Context, refresh string) (op.RefreshTokenRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.find(refresh)
	if err != nil {
		return nil, err
	}
	return refreshRequest{client: g.client, subject: g.subject}, nil
}

// CreateAccessAndRefreshTokens looks at the refresh token again: another request
// may have used it since.
func (s *storage) CreateAccessAndRefreshTokens(_ context.Context, _ op.TokenRequest, used string) (id, refresh string, expires time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.find(used)
	if err != nil {
		return "", "", time.Time{}, err
	}
	id, expires = s.issue(g.client, g)
	return id, s.rotate(g), expires, nil
}

func (s *storage) GetRefreshTokenInfo(_ context.Context, _, token string) (user, id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.grants[token]
	if !ok {
		return "", "", op.ErrInvalidRefreshToken
	}
	return g.subject, token, nil
}

// RevokeToken revokes an access token by its id, or by a refresh token its grant.
func (s *storage) RevokeToken(_ context.Context, token, _, client string) *oidc.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.access[token]; ok && a.client == client {
		delete(s.access, token)
	}
	if g, ok := s.grants[token]; ok && g.client == client {
		s.end(g)
	}
	return nil // what is not known is not valid either
}

func (s *storage) SetIntrospectionFromToken(_ context.Context, answer *oidc.IntrospectionResponse, id, subject, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.access[id]
	if !ok || !time.Now().Before(a.expires) {
		return errors.New("token is not valid")
	}
	answer.Subject, answer.ClientID, answer.Expiration = subject, a.client, oidc.FromTime(a.expires)
	return nil
}

func (s *storage) SigningKey(context.Context) (op.SigningKey, error) { return s.key, nil }

// signingKey signs the id tokens that come with a refresh and that nobody reads.
type signingKey struct{ key *ecdsa.PrivateKey }

func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.ES256 }
func (k signingKey) Key() any                                    { return k.key }
func (k signingKey) ID() string                                  { return "key" }

// refreshRequest is a grant as the library wants to see it.
type refreshRequest struct{ client, subject string }

func (r refreshRequest) GetClientID() string       { return r.client }
func (r refreshRequest) GetSubject() string        { return r.subject }
func (r refreshRequest) GetAMR() []string          { return nil }
func (r refreshRequest) GetAudience() []string     { return []string{r.client} }
func (r refreshRequest) GetAuthTime() time.Time    { return time.Time{} }
func (r refreshRequest) GetScopes() []string       { return nil }
func (r refreshRequest) SetCurrentScopes([]string) {}
