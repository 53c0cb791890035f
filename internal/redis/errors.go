package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// What an error of a call says. Every [*Error] is one of the first two.
var (
	ErrAway          = errors.New("redis is away")            // it may be back soon, without anybody's doing
	ErrMisconfigured = errors.New("redis cannot be used")     // somebody has to change something
	ErrPaused        = errors.New("redis is not asked now")   // nothing was sent, because calls failed before
	errForeign       = errors.New("not what is kept there")   // left as it is
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

const (
	denies        = "denies this user a command, key or channel"
	deniesScripts = "denies this user a command of its scripts"
	rightsHint    = "the rights are in docs/redis.md; redis-cli ACL LOG names what was denied"
	untrusted     = "cannot be trusted"
	knowsNone     = "knows no such master"
)

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
	{"NOAUTH", ErrMisconfigured, "wants a password", "set redis.password_file, and redis.username where it has users"},
	{"WRONGPASS", ErrMisconfigured, "refuses the user or the password", "correct redis.username or the password in redis.password_file"},
	{"ERR invalid password", ErrMisconfigured, "refuses the user or the password", "correct the password in redis.password_file"},
	{"ERR Client sent AUTH", ErrMisconfigured, "has no password", "leave redis.password_file out, or give the server a password: requirepass"},
	{"ERR AUTH", ErrMisconfigured, "has no password", "leave redis.password_file out, or give the server a password: requirepass"},
	{"NOPERM", ErrMisconfigured, denies, rightsHint},
	{"WRONGTYPE", ErrMisconfigured, "holds something else under the key", "see what it is with redis-cli TYPE; remove it if it is not needed"},
	{"OOM", ErrMisconfigured, "is out of memory", "raise maxmemory or remove keys"},
	{"MISCONF", ErrMisconfigured, "cannot save and therefore takes no writes", "make room for its snapshot; its log says why"},
	{"ERR DB index", ErrMisconfigured, "has no database of that number", "correct the number at the end of the URL"},
	{"ERR SELECT is not allowed", ErrMisconfigured, "is a node of a cluster, which has database 0 alone", "give the nodes under redis.cluster"},
	{"ERR This instance has cluster support disabled", ErrMisconfigured, "is no cluster", "give it as redis.url"},
	{"ERR No such master", ErrMisconfigured, knowsNone, ""}, // the hint names the sentinel
}

// unknown are commands that a server does not know, by how an error names them, and
// what that makes of it.
var unknown = []struct{ command, words, hint string }{
	{"sentinel", "is no sentinel", "correct redis.sentinel.addrs; a server without sentinels goes under redis.url"},
	{"evalsha", "answers as a sentinel", sentinelHint},
	{"select", "answers as a sentinel", sentinelHint}, // of a URL that ends in a number
	{"cluster", "answers as a sentinel", sentinelHint},
}

const sentinelHint = "give it under redis.sentinel, with the master's name; a server whose commands were renamed cannot be used"

// explain turns an error of a call into an [*Error] whose hint knows no addresses.
func explain(err error) *Error { return Config{}.explain(err) }

// explain turns an error of a call into an [*Error].
func (cfg Config) explain(err error) *Error {
	if errors.Is(err, errForeign) {
		return &Error{ErrMisconfigured, "holds something else under the key", "see what it is with redis-cli GET; remove it if it is not needed", err}
	}
	if strings.Contains(err.Error(), unfound) || cfg.Sentinel.Master != "" && errors.Is(err, goredis.Nil) {
		return cfg.explainUnfound(err)
	}
	if reply, ok := errors.AsType[goredis.Error](err); ok {
		return explainReply(reply.Error(), err)
	}
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	if unverified || plain {
		return &Error{ErrMisconfigured, untrusted, "check the certificate and whether the port is the one for TLS", err}
	}
	words := "cannot be reached"
	if isTimeout(err) {
		words = fmt.Sprintf("gave no answer within %s", Timeout)
	}
	return &Error{ErrAway, words, "see that it runs and can be reached: " + cfg.cli() + " ping", err}
}

// explainReply says what an error of the server means. Those of scripts on older
// servers carry the word somewhere behind their beginning.
func explainReply(text string, err error) *Error {
	if strings.Contains(text, "user executing the script can't") || strings.Contains(text, "ACL failure in script") {
		return &Error{ErrMisconfigured, deniesScripts, rightsHint, err}
	}
	for _, a := range answers {
		if strings.HasPrefix(text, a.code) || strings.HasPrefix(text, "ERR Error running script") && strings.Contains(text, " "+a.code) || strings.Contains(text, ": -"+a.code) {
			return &Error{a.class, a.words, a.hint, err}
		}
	}
	if rest, ok := strings.CutPrefix(text, "ERR unknown command"); ok {
		name, _, _ := strings.Cut(strings.Trim(strings.ToLower(rest), " `'"), ",")
		for _, u := range unknown {
			if strings.Trim(name, "`'") == u.command {
				return &Error{ErrMisconfigured, u.words, u.hint, err}
			}
		}
	}
	return &Error{ErrMisconfigured, "refuses the call", "needed: version 5 or later, with its scripts, strings, hashes and streams, TIME and PUBLISH", err}
}

// unfound begins the library's error that joins those of all sentinels.
const unfound = "redis: all sentinels specified in configuration are unreachable"

// explainUnfound says why no sentinel has told where the master is. What somebody
// can mend goes before a sentinel that is away.
func (cfg Config) explainUnfound(err error) *Error {
	var each []*Error
	for _, one := range parts(err) {
		each = append(each, cfg.explainSentinel(one))
	}
	worst := each[0]
	var texts []string
	for _, e := range each {
		if errors.Is(worst, ErrAway) && errors.Is(e, ErrMisconfigured) {
			worst = e
		}
		if text := e.Err.Error(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	words := "is not found: no sentinel answers"
	if errors.Is(worst, ErrMisconfigured) {
		words = "is not found: one of redis.sentinel.addrs " + worst.Words
	}
	return &Error{worst.Class, words, worst.Hint, &inWords{strings.Join(texts, "; "), err}}
}

// explainSentinel says what one sentinel's error means.
func (cfg Config) explainSentinel(err error) *Error {
	alone := cfg
	alone.Sentinel.Master = ""
	e := alone.explain(err)
	if errors.Is(err, goredis.Nil) || e.Words == knowsNone {
		text := fmt.Sprintf("no master named %q", cfg.Sentinel.Master)
		return &Error{ErrMisconfigured, knowsNone, "correct redis.sentinel.master; " + cfg.cli() + " sentinel masters lists them", &inWords{text, err}}
	}
	if !strings.Contains(e.Hint, "redis.sentinel") { // sentinels have a login of their own
		e.Hint = strings.NewReplacer("redis.password", "redis.sentinel.password", "redis.username", "redis.sentinel.username").Replace(e.Hint)
	}
	return e
}

// parts are the errors that were joined somewhere in err; err where none were.
func parts(err error) []error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if joined, ok := e.(interface{ Unwrap() []error }); ok {
			return joined.Unwrap()
		}
	}
	return []error{err}
}

// inWords is an error in other words.
type inWords struct {
	text string
	error
}

func (e *inWords) Error() string { return e.text }
func (e *inWords) Unwrap() error { return e.error }

// denial tells that e is for want of a right.
func (e *Error) denial() bool { return e.Words == denies || e.Words == deniesScripts }

// disables tells whether calls after this one will fail, too: one that was not
// answered or whose login was refused. An answer like WRONGTYPE is about a key.
func (e *Error) disables() bool {
	return errors.Is(e, ErrAway) || goredis.IsAuthError(e.Err) || e.Words == untrusted || strings.HasPrefix(e.Words, "is not found")
}
