package main

import (
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// clients are who may ask, with their secrets. That of the first has the
// characters that a careless encoding spoils.
var clients = map[string]client{
	"client": {id: "client", secret: "CANARY-s%2Bcr t+:&=", grants: []oidc.GrantType{oidc.GrantTypeClientCredentials, oidc.GrantTypeRefreshToken}},
	"api":    {id: "api", secret: "CANARY-api"}, // looks at tokens, gets none
}

// client gives the library what it asks of a client; most of it is for browsers.
type client struct {
	id, secret string
	grants     []oidc.GrantType
}

func (c client) GetID() string                        { return c.id }
func (c client) GrantTypes() []oidc.GrantType         { return c.grants }
func (c client) AuthMethod() oidc.AuthMethod          { return oidc.AuthMethodBasic }
func (c client) ApplicationType() op.ApplicationType  { return op.ApplicationTypeWeb }
func (c client) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeBearer }
func (c client) IDTokenLifetime() time.Duration       { return time.Hour }
func (c client) RedirectURIs() []string               { return nil }
func (c client) PostLogoutRedirectURIs() []string     { return nil }
func (c client) ResponseTypes() []oidc.ResponseType   { return nil }
func (c client) LoginURL(string) string               { return "" }
func (c client) DevMode() bool                        { return false }
func (c client) IsScopeAllowed(string) bool           { return false }
func (c client) IDTokenUserinfoClaimsAssertion() bool { return false }
func (c client) ClockSkew() time.Duration             { return 0 }

func (c client) RestrictAdditionalIdTokenScopes() func([]string) []string { return same }

func (c client) RestrictAdditionalAccessTokenScopes() func([]string) []string { return same }

func same(scopes []string) []string { return scopes }
