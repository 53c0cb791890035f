package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-playground/validator/v10"
	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Config is every option of a run, whatever layer it came from.
type Config struct {
	API struct {
		Primary  string            `mapstructure:"primary" validate:"omitempty,http_url"`
		Fallback string            `mapstructure:"fallback" validate:"omitempty,http_url"`
		Headers  map[string]string `mapstructure:"headers"`
		KeyForm  string            `mapstructure:"key_form" validate:"oneof=bare quoted"`
		Body     string            `mapstructure:"body" validate:"oneof=payload envelope"`
		Accept   []string          `mapstructure:"accept_content_type"`
		TLS      TLSConfig         `mapstructure:"tls"`
		Auth     struct {
			TokenFile string `mapstructure:"token_file"`
			Token     string `mapstructure:"token"` // environment or file only, never a flag
		} `mapstructure:"auth"`
	} `mapstructure:"api"`
	Upload struct {
		StateDir          string        `mapstructure:"state_dir"`
		OnLocked          string        `mapstructure:"on_locked" validate:"oneof=fail wait skip"`
		KeyTTL            time.Duration `mapstructure:"key_ttl" validate:"min=1h"`
		Settle            time.Duration `mapstructure:"settle" validate:"min=0,max=1h"`
		Concurrency       string        `mapstructure:"concurrency" validate:"concurrency"`
		MaxConcurrency    int           `mapstructure:"max_concurrency" validate:"min=1,max=1024"`
		QueueSize         int           `mapstructure:"queue_size" validate:"min=1,max=1000000"`
		RequestTimeout    time.Duration `mapstructure:"request_timeout" validate:"min=1ms,max=1h"`
		ConnectTimeout    time.Duration `mapstructure:"connect_timeout" validate:"min=1ms,max=1h"`
		Rate              float64       `mapstructure:"rate" validate:"min=0,max=1000000"`
		Burst             int           `mapstructure:"burst" validate:"min=0"`
		Deadline          time.Duration `mapstructure:"deadline" validate:"min=0"`
		WindowEnd         string        `mapstructure:"window_end"`
		Splay             time.Duration `mapstructure:"splay" validate:"min=0,max=24h"`
		PoisonStop        int           `mapstructure:"poison_stop" validate:"min=0"`
		FallbackWarn      time.Duration `mapstructure:"fallback_warn" validate:"min=0"`
		FallbackQuota     string        `mapstructure:"fallback_quota"`
		CanaryFallback    string        `mapstructure:"canary_fallback"`
		Failback          time.Duration `mapstructure:"failback" validate:"min=0,max=1h"`
		Format            string        `mapstructure:"format" validate:"oneof=auto ndjson json csv tsv"`
		DeriveKeys        bool          `mapstructure:"derive_keys"`
		AcceptCorrections bool          `mapstructure:"accept_corrections"`
	} `mapstructure:"upload"`
	Retry struct {
		MaxAttempts   int           `mapstructure:"max_attempts" validate:"min=1,max=1000"`
		Base          time.Duration `mapstructure:"base" validate:"min=1ms"`
		Cap           time.Duration `mapstructure:"cap" validate:"gtefield=Base"`
		RetryAfterCap time.Duration `mapstructure:"retry_after_cap" validate:"min=0"`
		Budget        float64       `mapstructure:"budget" validate:"min=0,max=10"`
		BudgetMin     int           `mapstructure:"budget_min" validate:"min=0"`
		Status        []int         `mapstructure:"status" validate:"dive,min=400,max=599"`
	} `mapstructure:"retry"`
	Breaker struct {
		Store     string        `mapstructure:"store" validate:"oneof=file memory"`
		Threshold int           `mapstructure:"threshold" validate:"min=1"`
		Window    time.Duration `mapstructure:"window" validate:"min=1ms"`
		Open      time.Duration `mapstructure:"open" validate:"min=1ms"`
		OpenMax   time.Duration `mapstructure:"open_max" validate:"gtefield=Open"`
		Jitter    float64       `mapstructure:"jitter" validate:"min=0,max=1"`
		HaltAfter time.Duration `mapstructure:"halt_after" validate:"min=1ms"`
	} `mapstructure:"breaker"`
	Envelope struct {
		ExtraFields string            `mapstructure:"extra_fields" validate:"oneof=refuse ignore"`
		Require     []string          `mapstructure:"require"`
		Fields      map[string]string `mapstructure:"fields"`
	} `mapstructure:"envelope"`
	Paths       map[string]PathConfig `mapstructure:"paths" validate:"dive"`
	Maintenance []WindowConfig        `mapstructure:"maintenance"`
	Log         struct {
		Format string `mapstructure:"format" validate:"omitempty,oneof=audit json logfmt"`
		File   string `mapstructure:"file"`
	} `mapstructure:"log"`
}

// PathConfig is how one path is used. URL is for paths beyond primary and
// fallback; zero values leave things as they are.
type PathConfig struct {
	URL         string        `mapstructure:"url" validate:"omitempty,http_url"`
	HTTP        int           `mapstructure:"http" validate:"oneof=0 1 2"`
	Proxy       string        `mapstructure:"proxy"` // a URL, none, or env (the default)
	DSCP        string        `mapstructure:"dscp"`
	Interface   string        `mapstructure:"interface" validate:"max=15"`
	Source      string        `mapstructure:"source" validate:"omitempty,ip"`
	Congestion  string        `mapstructure:"congestion"`
	UserTimeout time.Duration `mapstructure:"user_timeout" validate:"min=0"`
	KeepAlive   time.Duration `mapstructure:"keep_alive" validate:"min=0"`
	MaxAge      time.Duration `mapstructure:"max_age" validate:"min=0"`
	Rate        float64       `mapstructure:"rate" validate:"min=0,max=1000000"`
	Quota       string        `mapstructure:"quota"`
	TLS         TLSConfig     `mapstructure:"tls"` // in place of api.tls
}

// TLSConfig names PEM files.
type TLSConfig struct {
	CAFile   string `mapstructure:"ca_file"`
	CertFile string `mapstructure:"cert_file"`
	KeyFile  string `mapstructure:"key_file"`
}

// WindowConfig is a maintenance window of a path.
type WindowConfig struct {
	Path string   `mapstructure:"path"`
	Days []string `mapstructure:"days"`
	From any      `mapstructure:"from"` // a quoted time of day; YAML makes numbers of others
	To   any      `mapstructure:"to"`
	TZ   string   `mapstructure:"tz"`
	// Closed lets nothing start on the path inside the window.
	Closed bool `mapstructure:"closed"`
}

// option is one setting in its three layers: flag, environment and file share
// its key; the default is here alone.
type option struct {
	flag, key, usage string
	def              any
}

var options = []option{
	{"url", "api.primary", "where records are posted", ""},
	{"fallback-url", "api.fallback", "used while the breaker of --url is open", ""},
	{"key-form", "api.key_form", "form of the Idempotency-Key header: bare or quoted", "bare"},
	{"body", "api.body", "what is posted: payload, or the whole envelope", "payload"},
	{"accept-content-type", "api.accept_content_type", "answer types that acknowledge, besides JSON and an empty body", []string{}},
	{"token-file", "api.auth.token_file", "file that holds the bearer token", ""},
	{"state-dir", "upload.state_dir", "where ledger, breaker, dead letters and reports live (default $STATE_DIRECTORY, else $XDG_STATE_HOME/trafficup, else ~/.local/state/trafficup)", ""},
	{"on-locked", "upload.on_locked", "when another run holds the state directory: fail (code 6), wait for it, or skip this run (code 0)", "fail"},
	{"key-ttl", "upload.key_ttl", "how long the API remembers a key, and the ledger who was acked", 30 * 24 * time.Hour},
	{"settle", "upload.settle", "how long a file that ends in the middle of a line must have been left alone before it is read", 3 * time.Second},
	{"concurrency", "upload.concurrency", "requests in flight at most; auto finds out what the path bears", "8"},
	{"max-concurrency", "upload.max_concurrency", "requests in flight at most with --concurrency=auto", 64},
	{"queue-size", "upload.queue_size", "records read ahead at most", 200},
	{"request-timeout", "upload.request_timeout", "time for one attempt", 10 * time.Second},
	{"connect-timeout", "upload.connect_timeout", "time for a connection, TLS included", 2 * time.Second},
	{"rate", "upload.rate", "calls per second at most, 0 for no limit", 0.0},
	{"burst", "upload.burst", "calls at once under --rate (default: one tenth of a second's worth)", 0},
	{"deadline", "upload.deadline", "time for the whole run, 0 for no limit", time.Duration(0)},
	{"window-end", "upload.window_end", "time of day by which the run has to be over, HH:MM and a time zone (UTC unless named); the earlier of this and --deadline holds", ""},
	{"splay", "upload.splay", "wait at random up to this long before the run, so that a fleet does not start as one", time.Duration(0)},
	{"poison-stop", "upload.poison_stop", "stop after so many rejections in a row with one status, 0 for never: the run is wrong then, not the records", 50},
	{"fallback-warn", "upload.fallback_warn", "warn when the first path has been out of use that long", 30 * time.Minute},
	{"fallback-quota", "upload.fallback_quota", "what the paths behind the first may carry in a run: 50MB of requests, or 5% of them", ""},
	{"canary-fallback", "upload.canary_fallback", "share of the requests that tries the second path though the first is well: 0.1%", ""},
	{"failback", "upload.failback", "how long a path that returns has to be well before it is trusted", 30 * time.Second},
	{"format", "upload.format", "form of the input: auto, ndjson, json, csv or tsv", "auto"},
	{"derive-keys", "upload.derive_keys", "make keys for a CSV that has none, from its content", false},
	{"accept-corrections", "upload.accept_corrections", "send a spot again that comes under another key", false},
	{"max-attempts", "retry.max_attempts", "calls for one record at most; answers that ask for patience (429, 503 with Retry-After) do not count, of which 30 may be", 5},
	{"backoff-base", "retry.base", "ceiling of the first wait; doubles per failure", 500 * time.Millisecond},
	{"backoff-cap", "retry.cap", "ceiling of any wait", 20 * time.Second},
	{"retry-after-cap", "retry.retry_after_cap", "longest Retry-After that is waited for; a longer one defers the record", time.Minute},
	{"retry-budget", "retry.budget", "retries earned by a success", 0.1},
	{"retry-budget-min", "retry.budget_min", "retries at hand at the start; at least as many as requests may be in flight, unless it is 0", 10},
	{"retry-status", "retry.status", "statuses that are retried", []int{408, 425, 429, 500, 502, 503, 504}},
	{"breaker-store", "breaker.store", "where the breaker's state lives: file or memory", "file"},
	{"breaker-threshold", "breaker.threshold", "failures in a row that open the breaker", 8},
	{"breaker-window", "breaker.window", "time within which they must fall", time.Minute},
	{"breaker-open", "breaker.open", "first open time; doubles per failed probe", 30 * time.Second},
	{"breaker-open-max", "breaker.open_max", "longest open time", 5 * time.Minute},
	{"", "breaker.jitter", "spread of the open time", 0.2},
	{"halt-after", "breaker.halt_after", "end the run when every path has been down that long", 5 * time.Minute},
	{"extra-fields", "envelope.extra_fields", "unknown envelope members: refuse or ignore", "refuse"},
	{"require", "envelope.require", "optional envelope members that must be present", []string{}},
	{"log-format", "log.format", "form of the audit log: audit, json or logfmt", ""},
	{"log-file", "log.file", "file for the audit log (default: stderr, when --log-format is given)", ""},
}

// fileOnly are keys that have no flag: maps, and what must not be on a command line.
var fileOnly = []string{"api.headers", "api.tls", "api.auth.token", "envelope.fields", "breaker.jitter", "paths", "maintenance"}

func addConfigFlags(fs *pflag.FlagSet) {
	fs.String("config", "", "config file (default: $TRAFFICUP_CONFIG, ./trafficup.yaml, the user's, /etc/trafficup/trafficup.yaml)")
	for _, o := range options {
		if o.flag == "" {
			continue
		}
		switch d := o.def.(type) {
		case string:
			fs.String(o.flag, d, o.usage)
		case int:
			fs.Int(o.flag, d, o.usage)
		case float64:
			fs.Float64(o.flag, d, o.usage)
		case bool:
			fs.Bool(o.flag, d, o.usage)
		case time.Duration:
			fs.Duration(o.flag, d, o.usage)
		case []string:
			fs.StringSlice(o.flag, d, o.usage)
		case []int:
			fs.IntSlice(o.flag, d, o.usage)
		}
	}
}

// loadConfig merges flag > environment > file > default and checks the result.
func loadConfig(fs *pflag.FlagSet, getenv func(string) string) (Config, error) {
	v := viper.New()
	for _, o := range options {
		v.SetDefault(o.key, o.def)
	}
	if err := readConfigFile(v, fs, getenv); err != nil {
		return Config{}, err
	}
	for _, o := range options {
		if e := getenv(envName(o.key)); e != "" {
			v.Set(o.key, e)
		}
		if o.flag != "" && fs.Changed(o.flag) {
			v.Set(o.key, flagValue(fs.Lookup(o.flag)))
		}
	}
	if t := getenv(envName("api.auth.token")); t != "" {
		v.Set("api.auth.token", t)
	}
	var c Config
	err := v.Unmarshal(&c, func(d *mapstructure.DecoderConfig) {
		d.ErrorUnused = true
		d.DecodeHook = mapstructure.ComposeDecodeHookFunc(durationHook, intsHook, mapstructure.StringToSliceHookFunc(","))
	})
	if err != nil {
		return c, usageError("trafficup upload --help lists every option", "configuration: %w", flatten(err))
	}
	return c, checkConfig(c)
}

func flagValue(f *pflag.Flag) any {
	if s, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(s.GetSlice(), ",")
	}
	return f.Value.String()
}

// envName is the variable of a key: api.auth.token_file is TRAFFICUP_API_AUTH_TOKEN_FILE.
func envName(key string) string {
	return "TRAFFICUP_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func readConfigFile(v *viper.Viper, fs *pflag.FlagSet, getenv func(string) string) error {
	named, _ := fs.GetString("config")
	if named == "" {
		named = getenv("TRAFFICUP_CONFIG")
	}
	candidates := []string{named}
	if named == "" {
		candidates = []string{"trafficup.yaml"}
		home := getenv("XDG_CONFIG_HOME")
		if home == "" {
			home = join(getenv("HOME"), ".config")
		}
		if home != "" {
			candidates = append(candidates, filepath.Join(home, "trafficup", "trafficup.yaml"))
		}
		candidates = append(candidates, "/etc/trafficup/trafficup.yaml")
	}
	for _, path := range candidates {
		if named == "" {
			if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
				continue
			}
		}
		v.SetConfigFile(path)
		v.SetConfigType("yaml")
		data, err := readSmall(path)
		if err == nil {
			err = v.ReadConfig(bytes.NewReader(data))
		}
		if err != nil {
			return usageError("", "read config %s: %w", path, err)
		}
		return unknownKeys(v, path)
	}
	return nil
}

// maxSmall bounds a configuration file or a token: what is larger is something else.
const maxSmall = 1 << 20

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(data) > maxSmall {
		err = fmt.Errorf("larger than %d bytes", maxSmall)
	}
	return data, err
}

// unknownKeys refuses what no option reads: a misspelt limit must not be a limit ignored.
func unknownKeys(v *viper.Viper, path string) error {
	known := map[string]bool{}
	for _, o := range options {
		known[o.key] = true
	}
	for _, k := range fileOnly {
		known[k] = true
	}
	var unknown []string
	for _, k := range v.AllKeys() {
		inMap := slices.ContainsFunc(fileOnly, func(m string) bool { return strings.HasPrefix(k, m+".") })
		if !known[k] && !inMap {
			unknown = append(unknown, k)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	keys := slices.Sorted(maps.Keys(known))
	return usageError("known keys: "+strings.Join(keys, ", "), "config %s: unknown key %s", path, strings.Join(unknown, ", "))
}

// durationHook refuses a number without a unit: 10 of what?
func durationHook(from, to reflect.Type, data any) (any, error) {
	if to != reflect.TypeFor[time.Duration]() || from == to {
		return data, nil
	}
	s, ok := data.(string)
	if !ok {
		return nil, fmt.Errorf("%v has no unit; write 500ms, 20s or 5m", data)
	}
	d, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil {
		return nil, fmt.Errorf("%q is not a duration; write 500ms, 20s or 5m", s)
	}
	return d, nil
}

// intsHook lets a list of numbers be written with commas in the environment.
func intsHook(from, to reflect.Type, data any) (any, error) {
	s, ok := data.(string)
	if !ok || to != reflect.TypeFor[[]int]() {
		return data, nil
	}
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }), nil
}

// flatten puts the many errors of a decode on one line.
func flatten(err error) error {
	_, list, found := strings.Cut(err.Error(), "error(s):")
	if !found {
		list = err.Error()
	}
	return errors.New(strings.Join(strings.FieldsFunc(list, func(r rune) bool { return r == '\n' }), "; "))
}

func checkConfig(c Config) error {
	val := validator.New(validator.WithRequiredStructEnabled())
	val.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("mapstructure") })
	err := val.RegisterValidation("concurrency", func(f validator.FieldLevel) bool {
		n, err := strconv.Atoi(f.Field().String())
		return f.Field().String() == "auto" || err == nil && n >= 1 && n <= 1024
	})
	if err == nil {
		err = val.Struct(c)
	}
	if err == nil {
		return checkURLs(c)
	}
	faults, ok := errors.AsType[validator.ValidationErrors](err)
	if !ok {
		return usageError("", "configuration: %w", err)
	}
	var all []string
	for _, f := range faults {
		_, key, _ := strings.Cut(f.Namespace(), ".")
		must := strings.TrimSpace("must satisfy " + f.Tag() + " " + f.Param())
		if f.Tag() == "concurrency" {
			must = "must be auto, or a number from 1 to 1024"
		}
		all = append(all, fmt.Sprintf("%s: %q %s", key, fmt.Sprint(f.Value()), must))
	}
	return usageError("", "configuration: %s", strings.Join(all, "; "))
}

func checkURLs(c Config) error {
	for _, u := range []struct{ key, url string }{{"api.primary", c.API.Primary}, {"api.fallback", c.API.Fallback}} {
		parsed, err := url.Parse(u.url)
		switch {
		case u.url == "":
		case err != nil:
			return usageError("", "%s: not a URL", u.key)
		case badPort(parsed.Port()):
			return usageError("", "%s: %s is no port", u.key, parsed.Port())
		case parsed.User != nil:
			return usageError("put the token into --token-file", "%s: user names and passwords do not belong into a URL", u.key)
		}
	}
	return nil
}

func badPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return port != "" && err != nil
}

// stateDir is where runs keep what must outlive them. It need not exist.
func stateDir(c Config, getenv func(string) string) (string, error) {
	dir := c.Upload.StateDir
	for _, d := range []string{getenv("STATE_DIRECTORY"), join(getenv("XDG_STATE_HOME"), "trafficup"), join(getenv("HOME"), ".local/state/trafficup")} {
		if dir == "" {
			dir = d
		}
	}
	if dir == "" {
		return "", usageError("give --state-dir", "no state directory: neither $STATE_DIRECTORY nor $HOME is set")
	}
	return dir, nil
}

func join(base, sub string) string {
	if base == "" {
		return ""
	}
	return filepath.Join(base, sub)
}
