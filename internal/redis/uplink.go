package redis

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"trafficup/internal/uplinkstate"
)

// Uplink is what an edge node tells other hosts of the uplink that carries.
type Uplink struct {
	uplinkstate.Uplink
	Host string    `json:"host"`           // that says so
	Boot string    `json:"boot,omitempty"` // id of its boot: cloned machines have one name
	At   time.Time `json:"at"`             // when, by its clock
}

// maxUplink bounds the value in bytes.
const maxUplink = 4096

// uplinkBegins is how each value begins; one that does not is somebody else's.
const uplinkBegins = `{"active":`

// uplinkScript sets the value, unless something else is there, and returns what was
// there. KEYS: the value's. ARGV: it, its time to live in ms, how each begins.
var uplinkScript = NewScript("uplink", `
local time = redis.call('TIME')
local had = redis.call('GET', KEYS[1])
if not had or string.sub(had, 1, string.len(ARGV[3])) == ARGV[3] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return {time[1] * 1000000 + time[2], had or ''}
`)

// WriteUplink says what holds at a site, for as long as keep. other is what another
// host, or this one in another boot, said before: two must not share a name. Something
// else under the key is left there, which is an error.
func (c *Client) WriteUplink(ctx context.Context, site string, u Uplink, keep time.Duration) (other Uplink, err error) {
	value, err := json.Marshal(u)
	if err != nil {
		return other, err
	}
	err = c.Do(ctx, func(ctx context.Context, conn goredis.UniversalClient) error {
		reply, err := uplinkScript.Run(ctx, conn, []string{c.UplinkKey(site)}, value, keep.Milliseconds(), uplinkBegins)
		if err != nil {
			return err
		}
		raw := ""
		if len(reply) == 2 {
			raw, _ = reply[1].(string)
		}
		if raw != "" && !strings.HasPrefix(raw, uplinkBegins) {
			return errForeign
		}
		if had, err := decodeUplink(raw); err == nil && (had.Host != u.Host || had.Boot != u.Boot) {
			other = had
		} // and what was damaged is written over
		return nil
	})
	return other, err
}

// ReadUplink returns what the edge node of a site said last. ok is false where it has
// said nothing for as long as that was to be kept. It is over within [Timeout].
func (c *Client) ReadUplink(ctx context.Context, site string) (u Uplink, ok bool, err error) {
	err = c.Do(ctx, func(ctx context.Context, conn goredis.UniversalClient) error {
		raw, err := conn.Get(ctx, c.UplinkKey(site)).Result()
		if err == nil {
			u, err = decodeUplink(raw)
		}
		return err
	})
	if err == goredis.Nil {
		return u, false, nil
	}
	return u, err == nil, err
}

// UplinkKey is where what holds at a site is kept.
func (c *Client) UplinkKey(site string) string { return c.Key("uplink", site) }

func decodeUplink(raw string) (u Uplink, err error) {
	if len(raw) > maxUplink || !strings.HasPrefix(raw, uplinkBegins) || json.Unmarshal([]byte(raw), &u) != nil {
		return Uplink{}, errForeign
	}
	return u, nil
}
