package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"trafficup/internal/clockskew"
	"trafficup/internal/config"
	"trafficup/internal/doctor"
	"trafficup/internal/redis"
	"trafficup/internal/uplink"
)

// redisChecks look at what machines share, where they do.
func (d *examination) redisChecks() []doctor.Check {
	if !d.c.hasRedis() || d.c.Upload.Sandbox != "" {
		return nil
	}
	all := []doctor.Check{{What: "redis", Look: d.redis}}
	if len(d.c.Redis.Uplink) > 0 {
		all = append(all, doctor.Check{What: "uplink target", Look: d.uplink})
	}
	return all
}

// redis connects as a run does, and writes by a script.
func (d *examination) redis(ctx context.Context) (all []doctor.Finding) {
	r := d.c.Redis
	for _, name := range []string{r.PasswordFile, r.Sentinel.PasswordFile} {
		if name != "" {
			all = append(all, doctor.Secret(credential(name, d.sys.getenv)))
		}
	}
	told := func(string) {} // of the files' modes, which were looked at
	cl, err := d.c.openRedis(d.sys, told, nil)
	if err != nil {
		f := doctor.Finding{Result: doctor.Failed, What: "redis", Message: strings.TrimPrefix(err.Error(), "redis: "), Do: "see the options under redis: trafficup config show"}
		if use, ok := errors.AsType[*failure](err); ok && use.hint != "" {
			f.Do = use.hint
		}
		return append(all, f)
	}
	defer func() { _ = cl.Close() }() // nothing is left to send
	info, err := cl.Inspect(ctx)
	if err != nil {
		all = append(all, d.withoutRedis(err))
		all = append(all, d.c.judgeRights(info.Denied)...)
		return append(all, d.c.judgePeers(info.Peers)...)
	}
	return append(all, d.c.judgeRedis(info)...)
}

// withoutRedis says why Redis cannot be used, and what runs do then.
func (d *examination) withoutRedis(err error) doctor.Finding {
	f := doctor.Finding{
		Result: doctor.Failed, What: "redis", Message: strings.TrimPrefix(err.Error(), "redis ") + "; runs go on alone",
		Do: "see " + d.c.redisPlace(),
	}
	if e, ok := errors.AsType[*redis.Error](err); ok {
		f.Do = d.c.placed(e.Hint)
	}
	if d.c.Redis.Required && errors.Is(err, redis.ErrMisconfigured) {
		f.Message = strings.TrimSuffix(f.Message, "go on alone") + "end at once (redis.required)"
	}
	return f
}

// redisPlace is where Redis is, without secrets.
func (c Config) redisPlace() string {
	switch r := c.Redis; {
	case r.URL != "":
		return config.Shown(r.URL)
	case len(r.Cluster) > 0:
		return "the cluster of " + strings.Join(r.Cluster, ", ")
	default:
		return fmt.Sprintf("the master %s of the sentinels %s", r.Sentinel.Master, strings.Join(r.Sentinel.Addrs, ", "))
	}
}

const (
	slowRedis  = 100 * time.Millisecond // a round trip that leaves little of redis.Timeout
	fullMemory = 0.9                    // of maxmemory
	sentinels  = 3                      // of whom two agree when one is away
)

// judgeRedis judges a Redis that can be used by what it tells of itself.
func (c Config) judgeRedis(i redis.Info) []doctor.Finding {
	all := []doctor.Finding{{Result: doctor.OK, What: "redis", Message: c.redisWords(i)}}
	warn := func(what, do, format string, a ...any) {
		all = append(all, doctor.Finding{Result: doctor.Warning, What: what, Message: fmt.Sprintf(format, a...), Do: do})
	}
	all = append(all, c.judgeRights(i.Denied)...)
	all = append(all, c.judgePeers(i.Peers)...)
	if c.openToAll() {
		warn("redis password", "give it one (docs/redis.md, Rights), and its port to nobody else", "none is wanted: whoever reaches it can hold up all uploads")
	}
	if i.Role != "" && i.Role != "master" {
		warn("redis role", "give the address of the master, sentinels or a cluster", "%s, not master: what is written there is lost, or reaches nobody else", i.Role)
	}
	if i.RoundTrip > slowRedis {
		warn("redis round trip", "use one that is nearer", "%s: calls are given up after %s", short(i.RoundTrip), redis.Timeout)
	}
	if k := i.Clock; k.Ahead.Abs()-k.Within > clockskew.Limit {
		warn("redis clock", "set the one that is wrong, and keep it right: timedatectl set-ntp true", "this machine's clock is %s", skewOf(k.Ahead))
	}
	if i.MaxMemory > 0 && i.Policy != "" && i.Policy != "noeviction" {
		warn("redis memory", "redis-cli CONFIG SET maxmemory-policy noeviction, or a Redis of its own",
			"policy %s: when memory is full, breakers and leases may be thrown away as any key that expires", i.Policy)
	}
	if i.MaxMemory > 0 && float64(i.Memory) >= fullMemory*float64(i.MaxMemory) {
		warn("redis memory", "raise maxmemory, or remove keys", "%s of %s are in use", inBytes(i.Memory), inBytes(i.MaxMemory))
	}
	if i.Sentinels > 0 && i.Sentinels < sentinels {
		warn("redis sentinels", "run three or more, each on a machine of its own", "%s: no failover when one of them is away", plural(i.Sentinels, "sentinel"))
	}
	return all
}

// redisWords say what kind of Redis it is.
func (c Config) redisWords(i redis.Info) string {
	words := []string{c.redisPlace()}
	switch {
	case i.Nodes > 0:
		words = append(words, plural(i.Nodes, "node"))
	case i.Sentinels > 0:
		words = append(words, "known to "+plural(i.Sentinels, "sentinel"))
	}
	if i.Version == "" {
		words = append(words, "what else it is this user may not ask")
	} else {
		memory := inBytes(i.Memory) + " in use"
		if i.MaxMemory > 0 {
			memory = fmt.Sprintf("%s of %s in use, %s", inBytes(i.Memory), inBytes(i.MaxMemory), i.Policy)
		}
		words = append(words, "version "+i.Version, i.Role, memory)
	}
	return strings.Join(append(words, "round trip "+short(i.RoundTrip), "shared as "+c.group()), "; ")
}

// skewOf says where this machine's clock stands when another is ahead by so much.
func skewOf(ahead time.Duration) string {
	side := "behind"
	if ahead < 0 {
		side = "ahead of"
	}
	return short(ahead.Abs()) + " " + side + " that of Redis"
}

// uplink tries the servers that tell whether this machine's own uplink is bad.
func (d *examination) uplink(ctx context.Context) []doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, uplink.TryTimeout)
	defer cancel()
	all := make([]doctor.Finding, len(d.c.Redis.Uplink))
	var wg sync.WaitGroup
	for n, addr := range d.c.Redis.Uplink {
		wg.Go(func() { all[n] = d.target(ctx, addr) })
	}
	wg.Wait()
	return all
}

func (d *examination) target(ctx context.Context, addr string) doctor.Finding {
	dial := d.sys.dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	start := time.Now()
	refused, err := uplink.Try(ctx, dial, addr)
	took := short(time.Since(start))
	switch {
	case refused:
		return doctor.Finding{Result: doctor.OK, What: "uplink target", Message: fmt.Sprintf("%s refuses, and so is reached, in %s", addr, took)}
	case err == nil:
		return doctor.Finding{Result: doctor.OK, What: "uplink target", Message: fmt.Sprintf("%s is reached in %s", addr, took)}
	}
	return doctor.Finding{
		Result: doctor.Warning, What: "uplink target", Message: fmt.Sprintf("%s is not reached: %v", addr, err),
		Do: "see that it may be asked from here, or name another under redis.uplink_targets: while more than half are missing, this machine opens no breaker for others",
	}
}
