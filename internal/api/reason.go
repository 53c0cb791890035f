package api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"trafficup/internal/secret"
)

// isCertificateFault finds certificates refused by either side. Waiting does
// not mend them.
func isCertificateFault(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.SystemRootsError](err); ok {
		return true
	}
	// The other side refusing ours arrives as an alert (RFC 8446 §6.2), whose
	// type crypto/tls does not export.
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" && op.Err != nil {
		return strings.Contains(op.Err.Error(), "certificate")
	}
	return false
}

// isVersionFault finds two sides without a version of TLS in common, as crypto/tls
// or the other side's alert puts it.
func isVersionFault(err error) bool {
	text := err.Error()
	return strings.Contains(text, "tls: protocol version not supported") || strings.Contains(text, "tls: server selected unsupported protocol version")
}

// named puts fault before err. Of an alert only the words are kept: as an error of
// the connection it would hide whose fault it is.
func named(fault, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return fmt.Errorf("%w: %s", fault, err)
	}
	return fmt.Errorf("%w: %w", fault, err)
}

// varying is what differs from one failure to the next alike: the number of a
// stream, and the port of this side.
var varying = regexp.MustCompile(`stream ID \d+; |LastStreamID=\d+, |:\d+(->)`)

// steady returns err with words that are the same for all failures of a kind, so
// that they can be counted, and that repeat no secret.
func steady(err error, secrets []string) error {
	text := err.Error()
	words := secret.Hide(varying.ReplaceAllString(text, "$1"), secrets...)
	if words == text {
		return err
	}
	return reworded{err, words}
}

type reworded struct {
	error
	words string
}

func (r reworded) Error() string { return r.words }
func (r reworded) Unwrap() error { return r.error }
