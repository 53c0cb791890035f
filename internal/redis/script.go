package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Script is a Lua script. It answers with a list, which is empty or begins with
// the time on Redis' clock in microseconds, as "return {us, ...}" after
//
//	local time = redis.call('TIME')
//	local us = time[1] * 1000000 + time[2]
type Script struct {
	Name string // for people
	lua  *goredis.Script
}

// NewScript returns the script of that text.
func NewScript(name, text string) *Script { return &Script{name, goredis.NewScript(text)} }

// Run runs the script on any connection, by its hash, and by its text where the
// server does not know it: nothing ran then, so that nothing is done twice. What
// is no list is a nil one.
func (s *Script) Run(ctx context.Context, conn goredis.Scripter, keys []string, args ...any) ([]any, error) {
	reply, err := s.lua.Run(ctx, conn, keys, args...).Result()
	list, _ := reply.([]any)
	return list, err
}

// Eval is [Client.Do] of a script.
func (c *Client) Eval(ctx context.Context, script *Script, keys []string, args ...any) (reply []any, err error) {
	if err := c.Paused(); err != nil {
		c.calls.paused.Add(1)
		return nil, err
	}
	return c.eval(ctx, script, keys, args...)
}

func (c *Client) eval(ctx context.Context, script *Script, keys []string, args ...any) (reply []any, err error) {
	begin := time.Now()
	err = c.attempt(ctx, func(ctx context.Context, conn goredis.UniversalClient) (err error) {
		reply, err = script.Run(ctx, conn, keys, args...)
		if _, refused := errors.AsType[goredis.Error](err); refused {
			err = fmt.Errorf("%s: %w", keys[0], err)
		}
		return err
	})
	if len(reply) > 0 && err == nil {
		if us, ok := reply[0].(int64); ok {
			c.tick(begin, time.Now(), time.UnixMicro(us))
		}
	}
	return reply, err
}

// probeScript writes as the others do. KEYS: any. ARGV: its time to live in ms.
var probeScript = NewScript("probe", `
local time = redis.call('TIME')
local set = redis.pcall('SET', KEYS[1], 1, 'PX', ARGV[1])
if set.err then return set end
return {time[1] * 1000000 + time[2]}
`)

// Check finds out whether scripts can be run that write, even while Redis counts
// as away, and what its clock says.
func (c *Client) Check(ctx context.Context) error {
	_, err := c.eval(ctx, probeScript, []string{c.Key("probe")}, probeTTL.Milliseconds())
	return err
}
