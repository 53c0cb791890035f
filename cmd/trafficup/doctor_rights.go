package main

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"

	"trafficup/internal/doctor"
	"trafficup/internal/redis"
)

// judgeRights says what a run with these settings lacks without the rights denied.
func (c Config) judgeRights(denied []string) (all []doctor.Finding) {
	breakers, ceiling := c.Breaker.Store == "redis", c.Upload.SharedRate > 0
	for _, use := range []struct {
		wanted bool
		result doctor.Result
		rights string
		lost   string
	}{
		{true, doctor.Failed, "+evalsha +eval +time +set ~trafficup:*", "nothing is shared for certain"},
		{breakers, doctor.Failed, "+get", "breakers are not shared"},
		{ceiling, doctor.Failed, "+pexpire +hget +hgetall +hset +hdel", "the ceiling is not shared"},
		{breakers, doctor.Warning, "+publish +subscribe +ping &trafficup:*", "changes of breakers are seen after 250 ms, not at once"},
		{true, doctor.Warning, "+pexpire +xadd +xrange", "latencies are not shared"},
		{true, doctor.Warning, "+asking", "nothing is shared while slots of the cluster are moved"},
		{true, doctor.Warning, "+info +cluster|info", "its version, role and memory are not looked at"},
	} {
		lacks := slices.DeleteFunc(slices.Clone(denied), func(right string) bool { return !slices.Contains(strings.Fields(use.rights), right) })
		if use.wanted && len(lacks) > 0 {
			all = append(all, doctor.Finding{Result: use.result, What: "redis rights", Message: "this user lacks " + strings.Join(lacks, " ") + ": " + use.lost, Do: grant(c.redisUser(), lacks)})
		}
	}
	return all
}

// grant is how a user gets rights.
func grant(user string, rights []string) string {
	return "inside redis-cli, on each server: ACL SETUSER " + user + " " + strings.Join(rights, " ") + "; docs/redis.md has all that are needed"
}

// redisUser is who logs in.
func (c Config) redisUser() string {
	name := ""
	if u, err := url.Parse(c.Redis.URL); err == nil {
		name = u.User.Username()
	}
	return cmp.Or(c.Redis.Username, name, "default")
}

// judgePeers says which servers would be missed when another dies. A sentinel that
// cannot be used is no more than a warning while there is one that can.
func (c Config) judgePeers(peers []redis.Peer) (all []doctor.Finding) {
	result := doctor.Failed
	if slices.ContainsFunc(peers, func(p redis.Peer) bool { return !p.Replica && p.Err == nil }) {
		result = doctor.Warning
	}
	for _, p := range peers {
		f := doctor.Finding{Result: result, What: "redis sentinel", Message: p.Addr}
		user, lost := cmp.Or(c.Redis.Sentinel.Username, "default"), ": replicas and other sentinels are not looked at"
		if p.Replica {
			f.Result, f.What = doctor.Warning, "redis replica"
			user, lost = c.redisUser(), ": after a failover to it runs go on alone"
		}
		e, unusable := errors.AsType[*redis.Error](p.Err)
		switch {
		case unusable:
			f.Message += " " + e.Words + ": " + e.Err.Error()
			f.Do = c.placed(e.Hint)
			if p.Replica && errors.Is(e, redis.ErrMisconfigured) {
				f.Message += lost
				f.Do = "make the user there, too, by the line ACL SETUSER in docs/redis.md"
			}
		case len(p.Denied) > 0:
			f.Result = doctor.Warning
			f.Message += ": this user lacks " + strings.Join(p.Denied, " ") + lost
			f.Do = grant(user, p.Denied)
		default:
			continue
		}
		all = append(all, f)
	}
	return all
}

// placed names, in a hint, the place that a password was read from instead of the
// option for a file that holds one.
func (c Config) placed(hint string) string {
	own, theirs := c.Redis.PasswordFile, c.Redis.Sentinel.PasswordFile
	if !c.Redis.Password.IsZero() {
		own = c.Origin("redis.password").String()
	} else if own == "" && c.urlHasPassword() {
		own = "redis.url"
	}
	if !c.Redis.Sentinel.Password.IsZero() {
		theirs = c.Origin("redis.sentinel.password").String()
	}
	const ownOption, theirOption = "redis.password_file", "redis.sentinel.password_file"
	return strings.NewReplacer(ownOption, cmp.Or(own, ownOption), theirOption, cmp.Or(theirs, theirOption)).Replace(hint)
}

func (c Config) urlHasPassword() bool {
	u, err := url.Parse(c.Redis.URL)
	if err != nil {
		return false
	}
	_, has := u.User.Password()
	return has
}

// openToAll tells that nobody has to log in where others than this machine get to.
func (c Config) openToAll() bool {
	r := c.Redis
	if !r.Password.IsZero() || r.PasswordFile != "" || c.urlHasPassword() {
		return false
	}
	addrs := slices.Concat(r.Sentinel.Addrs, r.Cluster)
	if u, err := url.Parse(r.URL); err == nil && u.Host != "" {
		addrs = append(addrs, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "0")))
	}
	return slices.ContainsFunc(addrs, func(a string) bool {
		host, _, err := net.SplitHostPort(a)
		return err == nil && !loopback(host)
	})
}
