package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// What an error of a call says. Every [*Error] is one of the first two.
var (
	ErrAway          = errors.New("redis is away")            // it may be back soon, without anybody's doing
	ErrMisconfigured = errors.New("redis cannot be used")     // somebody has to change something
	ErrPaused        = errors.New("redis is not asked now")   // nothing was sent, because calls failed before
	errForeign       = errors.New("not a breaker's state")    // left as it is
	errClosed        = errors.New("redis: client was closed") // a mistake of the caller's
)

// Error is what went wrong with a call, in words, and what to do about it.
type Error struct {
	Class error  // ErrAway or ErrMisconfigured
	Words string // what happened
	Hint  string // the next step, for people
	Err   error  // as it came
}

func (e *Error) Error() string { return "redis " + e.Words + ": " + e.Err.Error() }

// Unwrap gives both the class and the error as it came.
func (e *Error) Unwrap() []error { return []error{e.Class, e.Err} }

// answers are errors of the server by the word they begin with.
var answers = []struct {
	code        string
	class       error
	words, hint string
}{
	{"READONLY", ErrAway, "answers as a replica", "a failover may be under way; if it stays, give sentinels, a cluster or an address that follows the master"},
	{"LOADING", ErrAway, "is loading its data", "wait"},
	{"MASTERDOWN", ErrAway, "is a replica that lost its master", "start the master or promote a replica"},
	{"CLUSTERDOWN", ErrAway, "has a cluster that is down", "look at redis-cli cluster info on a node"},
	{"MOVED", ErrAway, "sends calls to another node of its cluster", "slots may be moving; if it stays, give the nodes as a cluster, not one of them as a URL"},
	{"ASK", ErrAway, "is moving a slot of its cluster", "wait"},
	{"TRYAGAIN", ErrAway, "is moving a slot of its cluster", "wait"},
	{"NOREPLICAS", ErrAway, "lacks replicas to write to", "start them or lower min-replicas-to-write"},
	{"BUSY", ErrAway, "is busy with somebody's script", "redis-cli SCRIPT KILL ends it"},
	{"ERR max number of clients", ErrAway, "has too many clients", "raise maxclients or close some"},
	{"NOAUTH", ErrMisconfigured, "wants a password", "set the password in the configuration"},
	{"WRONGPASS", ErrMisconfigured, "refuses the user or the password", "correct the user or the password in the configuration"},
	{"NOPERM", ErrMisconfigured, "denies this user a command, key or channel", "give the user: on ~trafficup:* &trafficup:* +@all -@dangerous -@admin"},
	{"WRONGTYPE", ErrMisconfigured, "holds something else under the key", "see what it is with redis-cli TYPE; remove it if it is not needed"},
	{"OOM", ErrMisconfigured, "is out of memory", "raise maxmemory or remove keys"},
	{"MISCONF", ErrMisconfigured, "cannot save and therefore takes no writes", "make room for its snapshot; its log says why"},
	{"ERR DB index", ErrMisconfigured, "has no database of that number", "correct the number at the end of the URL"},
}

// explain turns an error of a call into an [*Error]. Errors of scripts on older
// servers carry the word somewhere behind their beginning.
func explain(err error) *Error {
	if err == errForeign {
		return &Error{ErrMisconfigured, "holds something else under the key", "see what it is with redis-cli GET; remove it if it is not needed", err}
	}
	if reply, ok := errors.AsType[goredis.Error](err); ok && !errors.Is(err, goredis.Nil) {
		text := reply.Error()
		for _, a := range answers {
			if strings.HasPrefix(text, a.code) || strings.HasPrefix(text, "ERR Error running script") && strings.Contains(text, " "+a.code) || strings.Contains(text, ": -"+a.code) {
				return &Error{a.class, a.words, a.hint, err}
			}
		}
		return &Error{ErrMisconfigured, "refuses the call", "needed: version 5 or later, with EVALSHA, EVAL, GET, SET, TIME and PUBLISH", err}
	}
	if errors.Is(err, goredis.Nil) {
		return &Error{ErrMisconfigured, "sentinels know no such master", "correct the master's name; redis-cli -p 26379 sentinel masters lists them", err}
	}
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	if unverified || plain {
		return &Error{ErrMisconfigured, "cannot be trusted", "check the certificate and whether the port is the one for TLS", err}
	}
	words := "cannot be reached"
	if isTimeout(err) {
		words = fmt.Sprintf("gave no answer within %s", Timeout)
	}
	return &Error{ErrAway, words, "see that it runs and can be reached: redis-cli -h HOST ping", err}
}

// disables tells whether calls after this one will fail, too: one that was not
// answered or whose login was refused. An answer like WRONGTYPE is about a key.
func (e *Error) disables() bool {
	return errors.Is(e, ErrAway) || goredis.IsAuthError(e.Err) || errors.Is(e.Err, goredis.Nil) || e.Words == "cannot be trusted"
}
