// Command oauthpeer is an OAuth 2 server for the tests of trafficup: the protocol
// is that of a library we did not write, so that client and server cannot share a
// misreading. It is a module of its own, because the program needs nothing of it.
//
// It listens on a free port of this machine, prints one line of JSON with its
// address and a first refresh token, and ends when stdin does. Access tokens live
// an hour; a refresh token works once, and one that is used again ends its grant.
package main

import (
	"crypto/rand"
	"encoding/json/v2"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/zitadel/oidc/v3/pkg/op"
)

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oauthpeer:", err)
		os.Exit(1)
	}
}

// serve runs the server until in ends.
func serve(in io.Reader, out io.Writer) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	url := "http://" + ln.Addr().String()
	store, err := newStorage()
	if err != nil {
		return err
	}
	cfg := &op.Config{AuthMethodPost: true, GrantTypeRefreshToken: true}
	_, _ = rand.Read(cfg.CryptoKey[:]) // never fails
	provider, err := op.NewProvider(cfg, store, op.StaticIssuer(url), op.WithAllowInsecure())
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(ln, provider) }()
	hello, err := json.Marshal(map[string]string{
		"token": url + provider.TokenEndpoint().Relative(), "introspect": url + provider.IntrospectionEndpoint().Relative(),
		"revoke": url + provider.RevocationEndpoint().Relative(), "refresh": store.consent(),
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n", hello); err != nil {
		return err
	}
	go func() {
		_, err := io.Copy(io.Discard, in)
		failed <- err
	}()
	return <-failed
}
