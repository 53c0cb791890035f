// Package config reads the settings of the program: flags over environment over
// files over defaults, in one typed tree. All mistakes are found before anything
// runs, and each is told with its place and with what would be right.
//
// The tree below is the one place that knows an option. Its tags give the key in
// files (and, in capitals, the variable of the environment), the flag, the
// bounds, what help says, and for options that hold more than a value an example.
package config

import (
	"time"

	"trafficup/internal/secret"
	"trafficup/internal/uplinkstate"
)

// Config is every setting there is.
type Config struct {
	Include     []string          `key:"include" help:"files read before this one, which goes over them; paths start where this file is, and * matches" example:"[markets/common.yaml]"`
	API         API               `key:"api" help:"the ingestion API"`
	Upload      Upload            `key:"upload" help:"a run"`
	Retry       Retry             `key:"retry" help:"what is tried again"`
	Breaker     Breaker           `key:"breaker" help:"when a path is left alone"`
	Redis       Redis             `key:"redis" help:"what machines share"`
	Envelope    Envelope          `key:"envelope" help:"what a record has to hold"`
	Paths       map[string]Path   `key:"paths" validate:"dive" help:"how a path is used: primary, fallback, and others by a name of yours" example:"{primary: {interface: eth1, dscp: le}, cell: {url: \"https://cell.api.example/v1/logs\", quota: 50MB}}"`
	Maintenance []MaintenanceTime `key:"maintenance" validate:"dive" help:"when a path is in maintenance" example:"[{path: primary, days: [sun], from: \"02:00\", to: \"08:00\", tz: UTC}]"`
	Netshape    Netshape          `key:"netshape" help:"shaped uplinks and marked traffic"`
	Failover    Failover          `key:"failover" help:"several uplinks, of which one carries"`
	Log         Log               `key:"log" help:"the audit log"`
	Output      Output            `key:"output" help:"what is printed"`
}

// API says where records go, and with what rights.
type API struct {
	Primary  string                   `key:"primary" flag:"url" validate:"omitempty,endpoint" help:"where records are posted" example:"https://api.example/v1/logs"`
	Fallback string                   `key:"fallback" flag:"fallback-url" validate:"omitempty,endpoint" help:"used while the breaker of --url is open" example:"https://api-cell.example/v1/logs"`
	Headers  map[string]secret.Secret `key:"headers" validate:"dive,keys,header_name,endkeys" help:"headers of every request; the values are not shown anywhere" example:"{X-Station-Group: \"501\"}"`
	KeyForm  string                   `key:"key_form" flag:"key-form" validate:"oneof=bare quoted" help:"form of the Idempotency-Key header: bare or quoted"`
	Body     string                   `key:"body" flag:"body" validate:"oneof=payload envelope" help:"what is posted: payload, or the whole envelope"`
	Accept   []string                 `key:"accept_content_type" flag:"accept-content-type" help:"answer types that acknowledge, besides JSON and an empty body" example:"[text/plain]"`
	TLS      TLS                      `key:"tls" help:"certificates"`
	Auth     Auth                     `key:"auth" help:"the bearer token; one source at most"`
}

// TLS names PEM files.
type TLS struct {
	CAFile   string `key:"ca_file" help:"authorities trusted in place of the system's" example:"/etc/trafficup/ca.pem"`
	CertFile string `key:"cert_file" validate:"required_with=KeyFile" help:"client certificate" example:"/etc/trafficup/client.pem"`
	KeyFile  string `key:"key_file" validate:"required_with=CertFile" help:"its key" example:"/etc/trafficup/client.key"`
}

// Auth says where the bearer token comes from.
type Auth struct {
	Token        secret.Secret `key:"token" help:"the token itself; a file is safer"`
	TokenFile    string        `key:"token_file" flag:"token-file" help:"file that holds the token" example:"/run/credentials/token"`
	TokenCommand []string      `key:"token_command" help:"program that prints the token, and its arguments" example:"[vault, read, -field=token, secret/trafficup]"`
	OAuth        OAuth         `key:"oauth" help:"an OAuth 2 server"`
}

// OAuth describes a client of an OAuth 2 server.
type OAuth struct {
	TokenURL         string        `key:"token_url" validate:"omitempty,endpoint" help:"where tokens are asked for" example:"https://login.example/token"`
	ClientID         string        `key:"client_id" help:"who asks" example:"station-501"`
	ClientSecret     secret.Secret `key:"client_secret" help:"the client's secret; a file is safer"`
	ClientSecretFile string        `key:"client_secret_file" help:"file that holds it" example:"/run/credentials/secret"`
	RefreshToken     secret.Secret `key:"refresh_token" help:"grant by refresh token in place of the secret; a file is safer"`
	RefreshTokenFile string        `key:"refresh_token_file" help:"file that holds it" example:"/run/credentials/refresh"`
	Scopes           []string      `key:"scopes" help:"rights asked for" example:"[logs.write]"`
	Audience         string        `key:"audience" help:"who the token is for, where the server wants to know" example:"https://api.example"`
	CacheFile        string        `key:"cache_file" help:"where the token is kept for the next run and for other processes with the same client (default: token.json in the state directory)" example:"/var/lib/trafficup/token.json"`
	Style            string        `key:"auth_style" validate:"oneof=header body" help:"how the secret is shown to the server: header or body"`
}

// Upload is one run.
type Upload struct {
	StateDir          string        `key:"state_dir" flag:"state-dir" help:"where ledger, breaker, dead letters and reports live (default $STATE_DIRECTORY, else $XDG_STATE_HOME/trafficup, else ~/.local/state/trafficup)" example:"/var/lib/trafficup"`
	OnLocked          string        `key:"on_locked" flag:"on-locked" validate:"oneof=fail wait skip" help:"when another run holds the state directory: fail (code 6), wait for it, or skip this run (code 0)"`
	KeyTTL            time.Duration `key:"key_ttl" flag:"key-ttl" validate:"min=1h" help:"how long the API remembers a key, and the ledger who was acked"`
	Settle            time.Duration `key:"settle" flag:"settle" validate:"min=0,max=1h" help:"how long a file that ends in the middle of a line must have been left alone before it is read"`
	Concurrency       Concurrency   `key:"concurrency" flag:"concurrency" validate:"min=0,max=1024" help:"requests in flight at most; auto finds out what the path bears"`
	MaxConcurrency    int           `key:"max_concurrency" flag:"max-concurrency" validate:"min=1,max=1024" help:"requests in flight at most with --concurrency=auto"`
	QueueSize         int           `key:"queue_size" flag:"queue-size" validate:"min=1,max=1000000" help:"records read ahead at most"`
	RequestTimeout    time.Duration `key:"request_timeout" flag:"request-timeout" validate:"min=1ms,max=1h" help:"time for one attempt"`
	ConnectTimeout    time.Duration `key:"connect_timeout" flag:"connect-timeout" validate:"min=1ms,max=1h" help:"time for a connection, TLS included"`
	Rate              float64       `key:"rate" flag:"rate" validate:"min=0,max=1000000" help:"calls per second at most, 0 for no limit"`
	Burst             int           `key:"burst" flag:"burst" validate:"min=0" help:"calls at once under --rate (default: one tenth of a second's worth)"`
	SharedRate        float64       `key:"shared_rate" flag:"shared-rate" validate:"min=0,max=1000000" help:"calls per second at most of all uploaders together that share a Redis, 0 for no limit" example:"200"`
	Priority          string        `key:"priority" flag:"priority" validate:"oneof=auto nightly replay backfill" help:"whose calls go first under --shared-rate: nightly, replay or backfill; auto: upload is nightly, replay is replay"`
	Class             string        `key:"class" flag:"class" validate:"oneof=auto bulk interactive none" help:"class of the run's own packets, by which they are marked: bulk, interactive or none; auto: bulk, but interactive for a few records sent by hand"`
	OnMetered         string        `key:"on_metered" flag:"on-metered" validate:"oneof=send pause" help:"while the uplink that carries is metered: send, or pause until another one carries or the deadline comes; a few records sent by hand are not held"`
	MeteredQuota      Size          `key:"metered_quota" flag:"metered-quota" help:"bytes of requests that a run may send while the uplink is metered, after which it pauses; 0B for any number" example:"50MB"`
	FailoverState     string        `key:"failover_state" flag:"failover-state" help:"file in which trafficup failover says which uplink carries; none: do not look" example:"/run/trafficup/failover/state.json"`
	Deadline          time.Duration `key:"deadline" flag:"deadline" validate:"min=0" help:"time for the whole run, 0 for no limit" example:"5h"`
	WindowEnd         Clock         `key:"window_end" flag:"window-end" help:"time of day by which the run has to be over, HH:MM and a time zone (UTC unless named); the earlier of this and --deadline holds" example:"\"05:30 America/New_York\""`
	Splay             time.Duration `key:"splay" flag:"splay" validate:"min=0,max=24h" help:"wait at random up to this long before the run, so that a fleet does not start as one"`
	PoisonStop        int           `key:"poison_stop" flag:"poison-stop" validate:"min=0" help:"stop after so many rejections in a row with one status, 0 for never: the run is wrong then, not the records"`
	FallbackWarn      time.Duration `key:"fallback_warn" flag:"fallback-warn" validate:"min=0" help:"warn when the first path has been out of use that long"`
	FallbackQuota     Quota         `key:"fallback_quota" flag:"fallback-quota" help:"what the paths behind the first may carry in a run: 50MB of requests, or 5% of them" example:"50MB"`
	Canary            Share         `key:"canary" flag:"canary" help:"share of the requests that tries a path that returned and is not trusted yet; 0% leaves that to the probes of its breaker"`
	CanaryFallback    Share         `key:"canary_fallback" flag:"canary-fallback" help:"share of the requests that tries the second path though the first is well" example:"0.1%"`
	Failback          time.Duration `key:"failback" flag:"failback" validate:"min=0,max=1h" help:"how long a path that returns has to be well before it is trusted"`
	Format            string        `key:"format" flag:"format" validate:"oneof=auto ndjson json csv tsv" help:"form of the input: auto, ndjson, json, csv or tsv"`
	DeriveKeys        bool          `key:"derive_keys" flag:"derive-keys" help:"make keys for a CSV that has none, from its content"`
	AcceptCorrections bool          `key:"accept_corrections" flag:"accept-corrections" help:"send a spot again that comes under another key"`
	DryRun            bool          `key:"dry_run" flag:"dry-run" help:"read and validate, send nothing"`
	Sandbox           string        `key:"sandbox" flag:"sandbox" help:"send to a stand-in API in this process; --sandbox=SCENARIO (with =) plays its faults" example:"flaky"`
}

// Retry says what is tried again, and how often.
type Retry struct {
	MaxAttempts   int           `key:"max_attempts" flag:"max-attempts" validate:"min=1,max=1000" help:"calls for one record at most; answers that ask for patience (429, 503 with Retry-After) do not count, of which 30 may be"`
	Base          time.Duration `key:"base" flag:"backoff-base" validate:"min=1ms" help:"ceiling of the first wait; doubles per failure"`
	Cap           time.Duration `key:"cap" flag:"backoff-cap" validate:"gtefield=Base" help:"ceiling of any wait"`
	RetryAfterCap time.Duration `key:"retry_after_cap" flag:"retry-after-cap" validate:"min=0" help:"longest Retry-After that is waited for; a longer one defers the record"`
	Budget        float64       `key:"budget" flag:"retry-budget" validate:"min=0,max=10" help:"retries earned by a success"`
	BudgetMin     int           `key:"budget_min" flag:"retry-budget-min" validate:"min=0" help:"retries at hand at the start; at least as many as requests may be in flight, unless it is 0"`
	Status        []int         `key:"status" flag:"retry-status" validate:"dive,min=400,max=599" help:"statuses that are retried"`
}

// Breaker says when a path is left alone.
type Breaker struct {
	Store     string        `key:"store" flag:"breaker-store" validate:"oneof=file memory redis" help:"where the breaker's state lives: file, memory, or redis for all machines"`
	Threshold int           `key:"threshold" flag:"breaker-threshold" validate:"min=1" help:"failures in a row that open the breaker"`
	Window    time.Duration `key:"window" flag:"breaker-window" validate:"min=1ms" help:"time within which they must fall"`
	Open      time.Duration `key:"open" flag:"breaker-open" validate:"min=1ms" help:"first open time; doubles per failed probe"`
	OpenMax   time.Duration `key:"open_max" flag:"breaker-open-max" validate:"gtefield=Open" help:"longest open time"`
	Jitter    float64       `key:"jitter" validate:"min=0,max=1" help:"spread of the open time"`
	HaltAfter time.Duration `key:"halt_after" flag:"halt-after" validate:"min=1ms" help:"end the run when every path has been down that long"`
}

// Redis is what machines share; url, sentinel or cluster says where it is.
type Redis struct {
	URL          string        `key:"url" flag:"redis" help:"the server: redis://host:port/db, rediss:// with TLS, or unix:///path" example:"redis://redis.example:6379/0"`
	Sentinel     RedisSentinel `key:"sentinel" help:"sentinels that know the server, in place of url"`
	Cluster      []string      `key:"cluster" help:"some nodes of a cluster, host:port, in place of url" example:"[\"redis-1.example:6379\", \"redis-2.example:6379\"]"`
	Username     string        `key:"username" help:"who logs in" example:"trafficup"`
	Password     secret.Secret `key:"password" help:"its password; a file is safer"`
	PasswordFile string        `key:"password_file" help:"file that holds it" example:"/run/credentials/redis"`
	TLS          TLS           `key:"tls" help:"certificates; one of them given means TLS"`
	Group        string        `key:"group" validate:"max=200" help:"name under which machines share (default: host and path of api.primary)" example:"avstar-test"`
	Uploaders    int           `key:"uploaders" validate:"min=1,max=10000" help:"how many share --shared-rate, as long as Redis has not told: each gets its part while Redis is away"`
	Uplink       []string      `key:"uplink_targets" help:"servers, host:port, two or more and none of them the API's, that tell whether this machine's own uplink is bad: then it opens no breaker for others" example:"[\"192.0.2.53:53\", \"198.51.100.1:443\"]"`
	Required     bool          `key:"required" help:"end with code 10 when Redis refuses this machine at the start: login, rights, a foreign key"`
}

// RedisSentinel names a master and who knows where it is.
type RedisSentinel struct {
	Master       string        `key:"master" help:"name of the master" example:"mymaster"`
	Addrs        []string      `key:"addrs" help:"the sentinels, host:port" example:"[\"s1.example:26379\", \"s2.example:26379\", \"s3.example:26379\"]"`
	Username     string        `key:"username" help:"who logs in at the sentinels" example:"trafficup"`
	Password     secret.Secret `key:"password" help:"its password there; a file is safer"`
	PasswordFile string        `key:"password_file" help:"file that holds it" example:"/run/credentials/sentinel"`
}

// Envelope says what a record has to hold.
type Envelope struct {
	ExtraFields string            `key:"extra_fields" flag:"extra-fields" validate:"oneof=refuse ignore" help:"unknown envelope members: refuse or ignore"`
	Require     []string          `key:"require" flag:"require" help:"optional envelope members that must be present" example:"[station, air_date]"`
	Fields      map[string]string `key:"fields" help:"rules for members of the payload: required, checked or off" example:"{house_number: checked}"`
}

// Path is how one path is used; zero values leave things as they are.
type Path struct {
	URL         string        `key:"url" validate:"omitempty,endpoint" help:"where its records are posted; primary and fallback have theirs under api" example:"https://cell.api.example/v1/logs"`
	HTTP        int           `key:"http" validate:"min=0,max=2" help:"version of HTTP: 1 or 2"`
	Proxy       string        `key:"proxy" help:"a URL, none, or env for the variables of the environment" example:"http://proxy.example:3128"`
	DSCP        string        `key:"dscp" help:"mark of its packets: le, cs1, af21, ef or a number" example:"le"`
	Interface   string        `key:"interface" validate:"max=15" help:"network interface its connections are bound to" example:"eth1"`
	Source      string        `key:"source" validate:"omitempty,ip" help:"address its connections start from" example:"192.0.2.7"`
	Congestion  string        `key:"congestion" help:"congestion control of the kernel, by name" example:"bbr"`
	UserTimeout time.Duration `key:"user_timeout" validate:"min=0" help:"how long sent data may stay unacknowledged" example:"20s"`
	KeepAlive   time.Duration `key:"keep_alive" validate:"min=0" help:"time between probes of an idle connection" example:"15s"`
	MaxAge      time.Duration `key:"max_age" validate:"min=0" help:"age at which a connection is replaced" example:"5m"`
	Rate        float64       `key:"rate" validate:"min=0,max=1000000" help:"calls per second at most, 0 for no limit" example:"20"`
	Quota       Quota         `key:"quota" help:"what it may carry in a run: 50MB of requests, or 5% of them" example:"50MB"`
	TLS         TLS           `key:"tls" help:"certificates, in place of those under api"`
}

// MaintenanceTime is a window in which a path is in maintenance.
type MaintenanceTime struct {
	Path   string   `key:"path" validate:"required" help:"the path's name" example:"primary"`
	Days   []string `key:"days" validate:"dive,oneof=mon tue wed thu fri sat sun" help:"weekdays it starts on; all when left out" example:"[sun]"`
	From   Clock    `key:"from" validate:"required" help:"its start, HH:MM in quotes" example:"\"02:00\""`
	To     Clock    `key:"to" validate:"required" help:"its end, HH:MM in quotes; before from: on the next day" example:"\"08:00\""`
	Closed bool     `key:"closed" help:"let nothing start on the path inside the window; else others only go before it" example:"true"`
	TZ     string   `key:"tz" help:"time zone; UTC when left out" example:"America/New_York"`
}

// Netshape is how uplinks are shaped, and how what leaves by them is marked.
type Netshape struct {
	Interfaces []ShapedInterface `key:"interfaces" validate:"dive" help:"uplinks, and how they are shaped" example:"[{name: eth1, kind: cake, up: 9mbit, profile: leo}]"`
	Classes    []TrafficClass    `key:"classes" validate:"dive" help:"traffic that is marked as it leaves by them; bulk, interactive and control have a mark of their own" example:"[{name: bulk, match: {user: root, ports: [443]}}, {name: interactive, match: {ports: [22]}}]"`
	Mask       string            `key:"mask" help:"bits of the connection mark that the classes use; 0xff when left out" example:"0xff00"`

	ConfirmWithin time.Duration `key:"confirm_within" flag:"confirm-within" validate:"min=0" help:"how long apply waits for a confirmation before everything is taken back; 0: none is needed"`
	Targets       []string      `key:"targets" help:"servers, host:port, that have to answer after apply as before, which confirms it: more than half of them" example:"[\"192.0.2.53:53\", \"198.51.100.1:443\"]"`
	MetricsFile   string        `key:"metrics_file" flag:"metrics-file" help:"file that watch writes metrics to every 15 s, for node_exporter; its name ends in .prom" example:"/var/lib/prometheus/node-exporter/trafficup-netshape.prom"`
	MetricsListen string        `key:"metrics_listen" flag:"metrics-listen" help:"address, host:port, at which watch serves /metrics" example:"127.0.0.1:9477"`
}

// ShapedInterface is one uplink; empty values are those of its profile.
type ShapedInterface struct {
	Name      string        `key:"name" validate:"required,max=15" help:"the interface" example:"eth1"`
	Kind      string        `key:"kind" validate:"omitempty,oneof=cake fq_codel none" help:"its queue: cake (when left out), fq_codel below an htb, or none" example:"cake"`
	Up        string        `key:"up" help:"rate of what goes out, in bit/s with a unit, below what the uplink carries; unlimited has no effect on the delay in the modem or dish" example:"9mbit"`
	Down      string        `key:"down" help:"rate of what comes in; left alone without" example:"\"90% of 50mbit\""`
	Profile   string        `key:"profile" validate:"omitempty,oneof=leo geo lte" help:"what the link is: leo, geo or lte" example:"leo"`
	Diffserv  string        `key:"diffserv" validate:"omitempty,oneof=besteffort diffserv3 diffserv4 diffserv8 precedence" help:"how the queue tells traffic apart; diffserv4 when left out" example:"diffserv4"`
	AckFilter string        `key:"ack_filter" validate:"omitempty,oneof=auto on off aggressive" help:"whether cake thins out acks: auto, on, off or aggressive" example:"auto"`
	RTT       time.Duration `key:"rtt" validate:"min=0,max=10s" help:"time to the servers and back" example:"100ms"`
	Overhead  string        `key:"overhead" help:"bytes that the link adds to each packet" example:"38"`

	Target      string `key:"target" help:"who is asked for the delay: host:port behind the uplink, or icmp:host" example:"\"198.51.100.1:443\""`
	AutorateMin string `key:"autorate_min" help:"watch fits the rate of what goes out to the link, and goes not below this; needs target" example:"2mbit"`
}

// TrafficClass is traffic that gets a mark.
type TrafficClass struct {
	Name  string       `key:"name" validate:"required" help:"the class" example:"bulk"`
	DSCP  string       `key:"dscp" help:"its mark: le, cs1, af21, ef or a number; le for bulk, af21 for interactive, ef for control when left out" example:"le"`
	Match TrafficMatch `key:"match" help:"what belongs to it: all that is given has to hold"`
}

// TrafficMatch says what belongs to a class.
type TrafficMatch struct {
	User   string   `key:"user" help:"who sends it, by name or number; has to exist" example:"root"`
	Ports  []int    `key:"ports" validate:"dive,min=1,max=65535" help:"where to, TCP and UDP; each for itself, no ranges" example:"[443]"`
	CGroup string   `key:"cgroup" help:"the control group that sends it" example:"system.slice/trafficup.service"`
	Hosts  []string `key:"hosts" help:"who sends it from the LAN, as addresses or prefixes" example:"[192.168.1.20]"`
}

// Failover is what uplinks there are, and how it is found out which one works.
type Failover struct {
	Uplinks []FailoverUplink `key:"uplinks" validate:"dive" help:"ways out, the preferred first" example:"[{name: leo, role: primary, interface: eth1, gateway: auto}, {name: lte, role: backup, interface: wwan0, metered: true}]"`
	Targets []ProbeTarget    `key:"targets" validate:"dive" help:"who is asked by each uplink: pings, connections, names, pages; two of a kind at least, in different networks" example:"[{icmp: 192.0.2.1}, {icmp: 198.51.100.1}, {tcp: \"203.0.113.1:443\"}, {tcp: \"198.18.0.7:443\"}]"`
	Quorum  int              `key:"quorum" validate:"min=0" help:"targets that have to answer, and one of each kind with them; 0: more than half of them"`
	Preset  string           `key:"preset" flag:"preset" validate:"oneof=leo geo lte strict" help:"how patient it is: leo, geo, lte or strict (three failures five seconds apart)"`

	Interval time.Duration `key:"interval" validate:"min=0,max=10s" help:"time between two looks at the uplink in use; that of the preset when 0, as for all of these"`
	Timeout  time.Duration `key:"timeout" validate:"omitempty,min=50ms,max=30s" help:"how long an answer may take"`
	Down     int           `key:"down" validate:"min=0,max=60" help:"looks in a row that fail before an uplink is down"`
	Up       int           `key:"up" validate:"min=0,max=1000" help:"looks in a row that succeed before it is up again"`
	UpFor    time.Duration `key:"up_for" validate:"min=0,max=1h" help:"how long they have to take at least"`
	Dwell    time.Duration `key:"dwell" validate:"min=0,max=24h" help:"how long a backup is used at least; doubles with each failover"`
	DwellMax time.Duration `key:"dwell_max" validate:"min=0,max=24h" help:"and grows to this at most"`
	Lead     time.Duration `key:"lead" validate:"min=0,max=1h" help:"how long before its maintenance an uplink is left"`
	Grace    time.Duration `key:"grace" validate:"min=0,max=24h" help:"how long after its maintenance failures are still expected"`

	Record string `key:"record" flag:"record" help:"file to which each look is added, for failover simulate --trace; at 64 MiB it becomes FILE.1, in place of the one before" example:"/var/lib/trafficup/failover/trace"`

	BadPrefixes   []string      `key:"bad_prefixes" help:"addresses that an uplink has when it has no service" example:"[192.168.100.0/24]"`
	IPv6          bool          `key:"ipv6" help:"look after IPv6, too"`
	Simple        bool          `key:"simple" help:"one default route in the main table and no rules; the uplink that is not in use is probed by its interface alone then, which needs an rp_filter there that is not strict (0 or 2)"`
	Mask          string        `key:"mask" help:"bits of the packet mark that probes bear, where other programs use the others of the same packets; when left out probes have a mark of their own, 0x100, 0x200 and so on, and no packet with another bit is taken for one" example:"0x3000"`
	FlushFailover time.Duration `key:"flush_failover" validate:"min=-1s,max=1h" help:"how long after a failover connections by the uplink that was left are cut; -1s: never"`
	FlushFailback time.Duration `key:"flush_failback" validate:"min=-1s,max=1h" help:"the same after going back; -1s: never, and behind a fixed source address they hang then"`
	Hook          []string      `key:"hook" help:"program that runs after each switch, with its arguments; FAILOVER_TO, FAILOVER_FROM, FAILOVER_WHY, FAILOVER_EXPECTED and FAILOVER_METERED (0 or 1) are in its environment" example:"[/usr/local/bin/ddns-update]"`
	HookTimeout   time.Duration `key:"hook_timeout" validate:"min=1s,max=10m" help:"how long it may take; then it is killed, with all that it started"`
	MetricsFile   string        `key:"metrics_file" help:"file to which run writes metrics for Prometheus, for node_exporter's textfile collector" example:"/var/lib/prometheus/node-exporter/trafficup-failover.prom"`
	MetricsListen string        `key:"metrics_listen" help:"address, host:port, at which run serves /metrics" example:"127.0.0.1:9478"`
	Site          string        `key:"site" validate:"max=64" help:"name of this place, under which Redis (section redis) tells other hosts which uplink carries; nobody is told when left out" example:"station-501"`
}

// FailoverUplink is one way out.
type FailoverUplink struct {
	Name      string         `key:"name" validate:"required,max=32" help:"what it is called" example:"leo"`
	Role      string         `key:"role" validate:"omitempty,oneof=primary backup" help:"primary or backup; a backup goes behind all that are primary" example:"backup"`
	Interface string         `key:"interface" validate:"required,max=15" help:"its interface" example:"wwan0"`
	Gateway   string         `key:"gateway" help:"its gateway; auto: that of the default route by this interface" example:"auto"`
	Metered   bool           `key:"metered" help:"its traffic is paid for: it is probed seldom" example:"true"`
	Up        string         `key:"up" help:"what it takes of ours, a rate: while our own upload fills four fifths of it, round trips say nothing; netshape's rate for its interface when left out" example:"9mbit"`
	Windows   []UplinkWindow `key:"maintenance" validate:"dive" help:"when it is in maintenance" example:"[{days: [sun], from: \"02:00\", to: \"04:00\", tz: UTC}]"`
}

// UplinkWindow is a window in which an uplink is in maintenance.
type UplinkWindow struct {
	Days []string `key:"days" validate:"dive,oneof=mon tue wed thu fri sat sun" help:"weekdays it starts on; all when left out" example:"[sun]"`
	From Clock    `key:"from" help:"its start, HH:MM in quotes" example:"\"02:00\""`
	To   Clock    `key:"to" help:"its end, HH:MM in quotes; before from: on the next day" example:"\"04:00\""`
	ICal string   `key:"ical" help:"in place of days, from and to: an iCalendar file, each event of which is a window; it is read again when it changes" example:"/etc/trafficup/provider.ics"`
	TZ   string   `key:"tz" help:"time zone, of a file that of times without one; UTC when left out" example:"America/New_York"`
	Hold bool     `key:"hold" help:"stay on the uplink, whatever happens inside, an hour at most; else it is left before" example:"true"`
}

// ProbeTarget is who is asked; one of icmp, tcp, dns and http.
type ProbeTarget struct {
	ICMP   string `key:"icmp" help:"address that is pinged" example:"192.0.2.1"`
	TCP    string `key:"tcp" help:"address:port that is connected to" example:"\"203.0.113.1:443\""`
	DNS    string `key:"dns" help:"address of a server that is asked for name" example:"198.51.100.53"`
	HTTP   string `key:"http" help:"http://address/path that is fetched" example:"http://192.0.2.7/generate_204"`
	Name   string `key:"name" help:"name that dns is asked for" example:"example.org"`
	Want   string `key:"want" help:"type of record it has to answer with, A, AAAA, CNAME, MX, NS, SOA or TXT, or an address that one has to have; A when left out" example:"192.0.2.7"`
	Host   string `key:"host" help:"Host header of http" example:"connectivity.example"`
	Status int    `key:"status" validate:"omitempty,min=200,max=599" help:"status that http has to answer with; 204 when left out, 200 with a body" example:"204"`
	Body   string `key:"body" help:"how the answer of http has to begin" example:"success"`
}

// Log is the audit log.
type Log struct {
	Format string `key:"format" flag:"log-format" validate:"omitempty,oneof=audit json logfmt" help:"form of the audit log: audit, json or logfmt" example:"audit"`
	File   string `key:"file" flag:"log-file" help:"file for the audit log (default: stderr, when --log-format is given)" example:"/var/log/trafficup.log"`
	Level  string `key:"level" flag:"log-level" validate:"oneof=info warning error critical" help:"lines of this weight and above: info, warning, error or critical"`
}

// Output is what is printed.
type Output struct {
	Quiet    bool   `key:"quiet" flag:"quiet" help:"print nothing when all went well"`
	Progress string `key:"progress" flag:"progress" validate:"oneof=auto bar plain json none" help:"how a run shows how far it is: auto, bar, plain, json or none"`
	JSON     bool   `key:"json" flag:"json" help:"print one JSON object a line on stdout"`
}

// Default returns the settings of who sets nothing.
func Default() Config {
	var c Config
	c.API.KeyForm, c.API.Body = "bare", "payload"
	c.API.Auth.OAuth.Style = "header"
	c.Upload = Upload{
		OnLocked: "fail", KeyTTL: 30 * 24 * time.Hour, Settle: 3 * time.Second,
		Concurrency: 8, MaxConcurrency: 64, QueueSize: 200,
		RequestTimeout: 10 * time.Second, ConnectTimeout: 2 * time.Second,
		OnMetered: "send", FailoverState: uplinkstate.DefaultPath,
		Priority: "auto", Class: "auto", PoisonStop: 50, Canary: Share{0.01, true}, FallbackWarn: 30 * time.Minute, Failback: 30 * time.Second, Format: "auto",
	}
	c.Retry = Retry{
		MaxAttempts: 5, Base: 500 * time.Millisecond, Cap: 20 * time.Second, RetryAfterCap: time.Minute,
		Budget: 0.1, BudgetMin: 10, Status: []int{408, 425, 429, 500, 502, 503, 504},
	}
	c.Breaker = Breaker{
		Store: "file", Threshold: 8, Window: time.Minute, Open: 30 * time.Second, OpenMax: 5 * time.Minute,
		Jitter: 0.2, HaltAfter: 5 * time.Minute,
	}
	c.Redis.Uploaders = 1
	c.Netshape.ConfirmWithin = time.Minute
	c.Failover = Failover{Preset: "leo", IPv6: true, HookTimeout: 30 * time.Second}
	c.Envelope.ExtraFields = "refuse"
	c.Log.Level = "info"
	c.Output.Progress = "auto"
	return c
}
