package redis_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
	"trafficup/internal/secret"
)

// rights are those that docs/redis.md names for one server.
var rights = []string{"+evalsha", "+eval", "+time", "+get", "+set", "+publish", "+pexpire", "+hget", "+hgetall", "+hset", "+hdel", "+xadd", "+xrange", "+subscribe", "+ping", "+info"}

// grant gives a user called up those rights alone, and returns cfg with its login.
func grant(s *redistest.Server, cfg redis.Config, pattern string, commands ...string) redis.Config {
	words := []any{"ACL", "SETUSER", "up", "reset", "on", ">" + password, "-@all"}
	for _, w := range append(strings.Fields(pattern), commands...) {
		words = append(words, w)
	}
	s.Do(words...)
	cfg.Username, cfg.Password = "up", secret.New(password)
	return cfg.Patient()
}

// Each right that is taken away is missed, and nothing else, and nothing is left
// but the probe's key, which expires.
func TestDenied(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, c := range append(slices.Clone(rights), "", "~trafficup:*", "&trafficup:*", "+set +pexpire", "+hset +xadd +publish") {
		pattern, left := "~trafficup:* &trafficup:*", slices.Clone(rights)
		var want []string
		for _, w := range strings.Fields(c) {
			pattern = strings.ReplaceAll(pattern, w, "")
			left = slices.DeleteFunc(left, func(r string) bool { return r == w })
			want = append(want, w)
		}
		slices.Sort(want)
		i, err := open(t, grant(s, config(s), pattern, left...)).Inspect(t.Context())
		if !slices.Equal(i.Denied, want) {
			t.Errorf("without %s: %q (%v)", c, i.Denied, err)
		}
	}
	admin := s.Client()
	keys := admin.Keys(t.Context(), "*").Val()
	if len(keys) != 1 || keys[0] != "trafficup:{test}:probe" || admin.TTL(t.Context(), keys[0]).Val() <= 0 {
		t.Errorf("left %q", keys)
	}
	// Where the keys of one feature are denied.
	i, err := open(t, grant(s, config(s), "~trafficup:{test}:probe ~trafficup:{test}:breaker:* ~trafficup:{test}:latency &trafficup:*", rights...)).Inspect(t.Context())
	if err != nil || !slices.Equal(i.Denied, []string{"~trafficup:*"}) {
		t.Errorf("without the ceiling's key: %q, %v", i.Denied, err)
	}
	i, err = open(t, grant(s, config(s), "~trafficup:{test}:probe ~trafficup:{test}:breaker:* ~trafficup:{test}:limit ~trafficup:{test}:latency &trafficup:*", rights...)).Inspect(t.Context())
	if err != nil || !slices.Equal(i.Denied, []string{"~trafficup:*"}) {
		t.Errorf("without the uplink's key: %q, %v", i.Denied, err)
	}
}

// A script whose command is denied is no call that Redis refuses for its age.
func TestDeniedInScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var commands []string
	for _, r := range rights {
		if r != "+get" {
			commands = append(commands, r)
		}
	}
	_, err := open(t, grant(s, config(s), "~trafficup:* &trafficup:*", commands...)).Breakers(openMax, nil).Load(t.Context(), "primary")
	e, ok := errors.AsType[*redis.Error](err)
	if !ok || !errors.Is(err, redis.ErrMisconfigured) || e.Words != "denies this user a command of its scripts" || e.Hint != "the rights are in docs/redis.md; redis-cli ACL LOG names what was denied" {
		t.Errorf("%+v", e)
	}
}

// What servers of other versions say of it.
func TestExplainDenials(t *testing.T) {
	for text, want := range map[string]string{
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                                                    "denies this user a command, key or channel",
		"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -NOPERM The user executing the script can't run this command or subcommand": "denies this user a command of its scripts",
		"ERR The user executing the script can't run this command or subcommand script: d3c2, on @user_script:1.":                                             "denies this user a command of its scripts",
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments":                                          "denies this user a command of its scripts",
		"ERR ACL failure in script: User up has no permissions to run the 'get' command script: d3c2, on @user_script:1.":                                     "denies this user a command of its scripts",
		"NOPERM ACL failure in script: User up has no permissions to run the 'get' command":                                                                   "denies this user a command of its scripts",
		"ERR unknown command 'evalsha', with args beginning with: 'x'":                                                                                        "answers as a sentinel",
		"ERR unknown command `SENTINEL`, with args beginning with: `get-master-addr-by-name`, `m`, ":                                                          "is no sentinel",
		"ERR unknown command 'xadd'": "refuses the call",
	} {
		if e := redis.ExplainReply(text); e.Words != want || e.Hint == "" {
			t.Errorf("%s: %q", text, e.Words)
		}
	}
}
