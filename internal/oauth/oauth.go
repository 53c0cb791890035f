// Package oauth keeps the bearer token that requests carry: one that is fixed, is
// read from a file, comes from a command, or is granted by an OAuth 2 server
// (RFC 6749) for a client's secret or a refresh token.
//
// The rule all sources follow: a token is used until the API refuses it or most
// of its lifetime is over, and one refusal leads to one refresh, however many
// requests met it. Each token has a generation; a request that was refused names
// the generation it carried, and who comes late takes the token that is newer.
package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"trafficup/internal/secret"
)

// Token is a bearer token.
type Token struct {
	Value      secret.Secret
	Expires    time.Time // on the monotonic clock, so that setting the clock changes nothing; zero: not known
	Received   time.Time
	Generation uint64 // counts the values a source has given, from 1
}

// Source gives tokens. Implementations are safe for concurrent use.
//
// The errors wrap one of the kinds below, or the cause of ctx's end.
// An error that knows when to ask again has RetryAfter() (time.Duration, bool).
// No error holds a secret.
type Source interface {
	// Token returns the token to send. It does not wait while there is one that
	// is valid.
	Token(ctx context.Context) (Token, error)
	// Refuse tells that the API answered 401 to the token of that generation on a
	// path, and returns the one to try next. When there is a newer one already,
	// that is it. The error is ErrSame when a new token would be refused as well,
	// and ErrPath when it is the path that refuses what others take.
	Refuse(ctx context.Context, generation uint64, path string) (Token, error)
	// Accept tells that the API did not refuse the token of that generation on a
	// path: when it is refused later, another may help. took says that it took a
	// record with it, which no gateway before it can do.
	Accept(generation uint64, path string, took bool)
}

var (
	// ErrDenied tells that a token is refused for good: the secret is wrong or
	// revoked. Asking again is no use before a person has done something.
	ErrDenied = errors.New("authorization denied")
	// ErrUnavailable tells that a token cannot be had at the moment.
	ErrUnavailable = errors.New("no token available")
	// ErrSame tells that the API refuses tokens that are fresh, or that there is
	// no other than the one it refused.
	ErrSame = errors.New("fresh token refused")
	// ErrPath tells that one path of the API refuses a token which another takes.
	ErrPath = errors.New("token refused that another path takes")
	// ErrCache tells that the cache file cannot be used: this machine is at fault,
	// and not for a while. Only a source's first tokens end with it.
	ErrCache = errors.New("token cache cannot be used")
)

// Valid tells whether value can be a bearer token (RFC 6750, section 2.1, and what
// else goes without blanks): not a whole header, nor a document.
func Valid(value secret.Secret) error {
	switch v := value.Reveal(); {
	case len(v) > 6 && strings.EqualFold(v[:7], "Bearer "):
		return errors.New("begins with Bearer; leave the word out")
	case len(v) > secret.Longest:
		return fmt.Errorf("is longer than %d KiB", secret.Longest>>10)
	case strings.ContainsAny(v, " \t\"{}"):
		return errors.New("is no token: it has blanks, quotes or braces")
	}
	return nil
}

// Static returns the source of one token that never changes.
func Static(value secret.Secret) Source {
	return static{Token{Value: value, Received: time.Now(), Generation: 1}}
}

type static struct{ token Token }

func (s static) Token(context.Context) (Token, error) { return s.token, nil }

func (s static) Accept(uint64, string, bool) {}

func (s static) Refuse(context.Context, uint64, string) (Token, error) { return Token{}, ErrSame }

// failure is an error of one of the kinds above.
type failure struct {
	kind  error
	text  string        // printable, without secrets
	wait  time.Duration // what the server asked for
	again time.Time     // when a source asks the next time; until then it repeats the error
}

func (f *failure) Error() string { return f.kind.Error() + ": " + f.text }

// Unwrap returns the kind. The cause is told by the text only: a timeout here is
// not to be taken for one of the caller's.
func (f *failure) Unwrap() error { return f.kind }

// RetryAfter returns how long the same question gets the same answer.
func (f *failure) RetryAfter() (time.Duration, bool) {
	return max(time.Until(f.again), 0), f.kind == ErrUnavailable
}

func denied(text string) error { return &failure{kind: ErrDenied, text: words(text)} }

func unavailable(text string) error { return &failure{kind: ErrUnavailable, text: words(text)} }

// maxWords bounds what is quoted of others, in bytes.
const maxWords = 300

// words makes one printable line of what somebody else wrote.
func words(s string) string {
	var b strings.Builder
	for _, r := range s {
		if !unicode.IsPrint(r) {
			r = ' '
		}
		if b.Len()+len(string(r)) > maxWords {
			break
		}
		b.WriteRune(r)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
