package redis

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"trafficup/internal/secret"
)

// Timeout bounds every call, whatever it takes: finding the master, dialling,
// logging in, and the command.
const Timeout = 250 * time.Millisecond

// sentinelShare divides Timeout for one question to one sentinel. A sentinel that
// hangs is waited for twice alone and once among all, and that has to leave time
// for the call itself.
const sentinelShare = 4

// ownersFor is how long it is believed which node of a cluster owns a slot.
const ownersFor = 2 * time.Second

// Config says where Redis is: one of URL, Sentinel and Cluster.
type Config struct {
	API      string   // the API whose state is shared; part of every key
	URL      string   // redis://[user:password@]host[:port][/db], rediss:// or unix:///path
	Sentinel Sentinel // a master that sentinels know
	Cluster  []string // host:port of some nodes of a cluster
	Username string
	Password secret.Secret
	TLS      *tls.Config // nil: none, except for rediss://

	// Notify, if not nil, is called with an [*Error] that people should hear of,
	// at most once a minute, and with nil when calls are made again after one that
	// said why they were given up. It is called by one goroutine at a time, of the
	// client's own.
	Notify func(err error)

	timeout time.Duration // zero is Timeout
}

func (cfg Config) bound() time.Duration { return cmp.Or(cfg.timeout, Timeout) }

// Sentinel names a master and who knows where it is.
type Sentinel struct {
	Master   string
	Addrs    []string // host:port
	Username string   // of the sentinels, which have logins of their own
	Password secret.Secret
}

// options are what all ways to connect have in common.
func (cfg Config) options() *goredis.UniversalOptions {
	return &goredis.UniversalOptions{
		Username: cfg.Username, Password: cfg.Password.Reveal(), TLSConfig: cfg.TLS,
		ContextTimeoutEnabled: true, // without it a server that hangs is waited for
		MaxRetries:            -1, DialerRetries: 1,
		MaxIdleConns: patience, // after a failover each has to fail once before it is closed
		DialTimeout:  cfg.bound(), ReadTimeout: cfg.bound(), WriteTimeout: cfg.bound(), PoolTimeout: cfg.bound(),
		// The older protocol and no introduction: a connection is ready with one
		// question less, and a login needs no right to CLIENT.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// connect makes the client without connecting it.
func connect(cfg Config) (goredis.UniversalClient, error) {
	opts := cfg.options()
	sentinel, cluster := len(cfg.Sentinel.Addrs) > 0 || cfg.Sentinel.Master != "", len(cfg.Cluster) > 0
	switch {
	case cfg.API == "":
		return nil, errors.New("redis: no name of an API for its keys")
	case cfg.URL != "" && (sentinel || cluster) || sentinel && cluster:
		return nil, errors.New("redis: more than one of a URL, sentinels and a cluster")
	case sentinel:
		return connectSentinel(cfg.Sentinel, opts)
	case cluster:
		if err := checkAddrs(cfg.Cluster); err != nil {
			return nil, err
		}
		opts.Addrs = slices.Clone(cfg.Cluster) // the library writes to it
		c := opts.Cluster()
		// Routing policies are looked up with a COMMAND of up to five seconds.
		c.DisableRoutingPolicies = true
		// A timeout does not make the library ask who owns a slot now.
		c.ClusterStateReloadInterval = ownersFor
		return goredis.NewClusterClient(c), nil
	default:
		if err := readURL(cfg.URL, opts); err != nil {
			return nil, err
		}
		return goredis.NewClient(opts.Simple()), nil
	}
}

func connectSentinel(s Sentinel, opts *goredis.UniversalOptions) (goredis.UniversalClient, error) {
	if s.Master == "" || len(s.Addrs) == 0 {
		return nil, errors.New("redis: sentinels need both addresses and the master's name")
	}
	if err := checkAddrs(s.Addrs); err != nil {
		return nil, err
	}
	opts.Addrs, opts.MasterName = slices.Clone(s.Addrs), s.Master // the library writes to it
	opts.SentinelUsername, opts.SentinelPassword = s.Username, s.Password.Reveal()
	failover := opts.Failover()
	c := goredis.NewFailoverClient(failover)
	// The library has one set of bounds for the master, which it has copied by now,
	// and for the sentinels, which it copies from here each time it asks one.
	share := opts.ReadTimeout / sentinelShare
	failover.ReadTimeout, failover.WriteTimeout = share, share
	return c, nil
}

func checkAddrs(addrs []string) error {
	for _, a := range addrs {
		host, port, err := net.SplitHostPort(a)
		if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || host == "" {
			return fmt.Errorf("redis: %q is not host:port", secret.RedactURL(a))
		}
	}
	return nil
}

// readURL puts what u says into opts. No error repeats the URL unmasked.
func readURL(raw string, opts *goredis.UniversalOptions) error {
	shown := secret.RedactURL(raw)
	if i := strings.IndexAny(shown, "?#"); i >= 0 { // where others have their password
		shown = shown[:i+1] + "***"
	}
	bad := func(why string) error { return fmt.Errorf("redis: %q %s", shown, why) }
	if full := "redis://" + raw; !strings.Contains(raw, "://") && raw != "" {
		if strings.HasPrefix(raw, "/") {
			full = "unix://" + raw
		}
		if readURL(full, &goredis.UniversalOptions{}) == nil {
			return bad("has no scheme: write " + secret.RedactURL(full))
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return bad("is not a URL")
	}
	_, badPort := strconv.ParseUint(cmp.Or(u.Port(), "6379"), 10, 16)
	switch {
	case badPort != nil:
		return bad("has no such port")
	case u.Scheme == "unix" && u.Path != "" && u.Host == "":
		opts.Addrs = []string{u.Path}
	case (u.Scheme == "redis" || u.Scheme == "rediss") && u.Hostname() != "":
		opts.Addrs = []string{net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))}
		if opts.DB, err = database(u.Path); err != nil {
			return bad("does not end in the number of a database")
		}
		if u.Scheme == "rediss" && opts.TLSConfig == nil {
			opts.TLSConfig = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
		}
	default:
		return bad("is not redis://host:port, rediss://host:port or unix:///path")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return bad("has options behind its path; there are none")
	}
	opts.Username = cmp.Or(opts.Username, u.User.Username())
	if p, ok := u.User.Password(); ok && opts.Password == "" {
		opts.Password = p
	}
	return nil
}

func database(path string) (int, error) {
	if path = strings.TrimPrefix(path, "/"); path == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(path, 10, 16)
	return int(n), err
}

// cli is the redis-cli that reaches what is configured: the server, the first
// sentinel or the first node of a cluster. It has no password.
func (cfg Config) cli() string {
	opts := &goredis.UniversalOptions{TLSConfig: cfg.TLS}
	switch {
	case len(cfg.Sentinel.Addrs) > 0:
		opts.Addrs = cfg.Sentinel.Addrs
	case len(cfg.Cluster) > 0:
		opts.Addrs = cfg.Cluster
	case readURL(cfg.URL, opts) != nil:
		return "redis-cli"
	}
	if strings.HasPrefix(opts.Addrs[0], "/") {
		return "redis-cli -s " + opts.Addrs[0]
	}
	host, port, _ := net.SplitHostPort(opts.Addrs[0]) // which was checked
	words := "redis-cli -h " + host + " -p " + port
	if opts.TLSConfig != nil {
		words += " --tls"
	}
	return words
}
