package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/config"
	"trafficup/internal/doctor"
	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
	"trafficup/internal/uplink"
)

// An API that takes all, and the flags for it and for a group of one's own.
func sharingAPI(t *testing.T) (args []string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusCreated) }))
	t.Cleanup(srv.Close)
	return []string{"--url", srv.URL + "/v1/logs", "--state-dir", privateDir(t), "--breaker-store", "redis"}
}

// tells runs a command, again where a busy machine lets a call to Redis run out of
// time, until it ends with the code and its output has all that is wanted.
func tells(t *testing.T, code int, environ, args []string, want ...string) (text string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%q, want %d, %q:\n%s", args, code, want, text)
		}
	}()
	redistest.Wait(t, args[0], func() bool {
		sys, stdout, stderr := testSystem(args...)
		sys.environ = environ
		got := run(sys)
		text = fmt.Sprintf("exit %d\n%s%s", got, stdout, stderr)
		if strings.Contains(text, "CANARY") {
			t.Fatal("shows a secret")
		}
		return got == code && !slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(text, part) })
	})
	return text
}

func TestDoctorLooksAtRedis(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	base := append([]string{"doctor", "--redis", s.URL() + "/0"}, sharingAPI(t)...)
	with := func(options ...string) []string {
		args := slices.Clone(base)
		for _, o := range options {
			args = append(args, "--set", o)
		}
		return args
	}
	tells(t, exitOK, nil, with("redis.uplink_targets=["+s.Addr+", 127.0.0.1:1]"),
		"\nok       redis                "+s.URL()+"/0; version ", " of 100 MiB in use, allkeys-lru; round trip ",
		"\nwarning  redis memory         policy allkeys-lru: ",
		"\nok       uplink target        "+s.Addr+" is reached in ", "\nok       uplink target        127.0.0.1:1 refuses, and so is reached, in ")
	if keys := fmt.Sprint(s.Do("KEYS", "*")); !regexp.MustCompile(`^\[trafficup:\{127\.0\.0\.1:\d+/v1/logs\}:probe\]$`).MatchString(keys) {
		t.Errorf("left %s", keys)
	}

	const bad = "\nfailed   redis                "
	s.Do("ACL", "SETUSER", "default", "resetpass", ">CANARY-right")
	wrong, right := []string{"TRAFFICUP_REDIS_PASSWORD=CANARY-wrong"}, []string{"TRAFFICUP_REDIS_PASSWORD=CANARY-right"}
	tells(t, exitFailed, wrong, base, bad+"refuses the user or the password: ", "; runs go on alone\n         correct redis.username or the password in $TRAFFICUP_REDIS_PASSWORD\n")
	tells(t, exitFailed, wrong, with("redis.required=true"), bad+"refuses the user or the password: ", "; runs end at once (redis.required)\n")
	tells(t, exitFailed, nil, with("redis.password_file=none"), "\nfailed   secret  ", bad, "no such file")
	tells(t, exitOK, right, base, "\nok       redis  ")
	s.Signal(syscall.SIGSTOP) // to be away ends no run
	tells(t, exitFailed, right, with("redis.required=true"), bad+"gave no answer within 250ms: ", "; runs go on alone\n")
	if text := tells(t, exitOK, nil, append(with("redis.uplink_targets=[127.0.0.1:1, 127.0.0.1:2]"), "--sandbox")); strings.Contains(text, "redis  ") || strings.Contains(text, "uplink") {
		t.Errorf("runs against the stand-in share nothing:\n%s", text)
	}
}

// What Redis tells of itself, and what is said about it.
func TestJudgeRedis(t *testing.T) {
	well := redis.Info{RoundTrip: 400 * time.Microsecond, Version: "7.0.15", Role: "master", Memory: 2 << 20, Policy: "allkeys-lru"}
	off := func(ahead, within time.Duration) redis.Info {
		i := well
		i.Clock = redis.Clock{Ahead: ahead, Within: within, At: time.Now()}
		return i
	}
	but := func(change func(*redis.Info)) redis.Info {
		i := well
		change(&i)
		return i
	}
	for name, c := range map[string]struct {
		info redis.Info
		want []string
	}{
		"well":       {well, []string{"ok redis: redis://r.test; version 7.0.15; master; 2,048 KiB in use; round trip 400µs; shared as api.test/logs"}},
		"no INFO":    {redis.Info{RoundTrip: time.Millisecond}, []string{"ok redis: redis://r.test; what else it is this user may not ask; round trip 1ms"}},
		"cluster":    {but(func(i *redis.Info) { i.Nodes = 6 }), []string{"ok redis: redis://r.test; 6 nodes; version"}},
		"sentinels":  {but(func(i *redis.Info) { i.Sentinels = 3 }), []string{"ok redis: redis://r.test; known to 3 sentinels; version"}},
		"two":        {but(func(i *redis.Info) { i.Sentinels = 2 }), []string{"ok redis: ", "warning redis sentinels: 2 sentinels: no failover when one of them is away"}},
		"replica":    {but(func(i *redis.Info) { i.Role = "slave" }), []string{"ok redis: ", "warning redis role: slave, not master"}},
		"near":       {but(func(i *redis.Info) { i.RoundTrip = slowRedis }), []string{"ok redis: "}},
		"far":        {but(func(i *redis.Info) { i.RoundTrip = slowRedis + time.Millisecond }), []string{"ok redis: ", "warning redis round trip: 101ms: calls are given up after 250ms"}},
		"behind":     {off(2600*time.Millisecond, 500*time.Millisecond), []string{"ok redis: ", "warning redis clock: this machine's clock is 2.6s behind that of Redis"}},
		"ahead":      {off(-time.Hour, time.Millisecond), []string{"ok redis: ", "warning redis clock: this machine's clock is 1h0m0s ahead of that of Redis"}},
		"not sure":   {off(2600*time.Millisecond, 700*time.Millisecond), []string{"ok redis: "}},
		"bounded":    {but(func(i *redis.Info) { i.MaxMemory, i.Policy = 100<<20, "noeviction" }), []string{"ok redis: redis://r.test; version 7.0.15; master; 2,048 KiB of 100 MiB in use, noeviction; "}},
		"evicts":     {but(func(i *redis.Info) { i.MaxMemory, i.Policy = 100<<20, "volatile-ttl" }), []string{"ok redis: ", "warning redis memory: policy volatile-ttl: "}},
		"full":       {but(func(i *redis.Info) { i.MaxMemory, i.Policy, i.Memory = 100<<20, "noeviction", 90<<20 }), []string{"ok redis: ", "warning redis memory: 90 MiB of 100 MiB are in use"}},
		"not so far": {but(func(i *redis.Info) { i.MaxMemory, i.Policy, i.Memory = 100<<20, "noeviction", 89<<20 }), []string{"ok redis: "}},
	} {
		l := &config.Loaded{}
		l.API.Primary, l.Redis.URL, l.Redis.PasswordFile = "https://API.test/logs/", "redis://r.test", "p"
		all := Config{l}.judgeRedis(c.info)
		if len(all) != len(c.want) {
			t.Errorf("%s: %+v", name, all)
			continue
		}
		for n, f := range all {
			if got := fmt.Sprintf("%s %s: %s", f.Result, f.What, f.Message); !strings.HasPrefix(got, c.want[n]) || (f.Do == "") != (f.Result == doctor.OK) {
				t.Errorf("%s: %s (%s), want %s", name, got, f.Do, c.want[n])
			}
		}
	}
}

// A target that is not there is warned about; it has as long as in a run.
func TestDoctorMissesATarget(t *testing.T) {
	d := &examination{sys: &system{}}
	d.c.Loaded = &config.Loaded{}
	d.c.Redis.Uplink = []string{"192.0.2.53:53", "198.51.100.1:443"}
	d.sys.dial = func(ctx context.Context, _, addr string) (net.Conn, error) {
		if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > uplink.TryTimeout {
			t.Errorf("ends at %v", end)
		}
		if strings.HasPrefix(addr, "192") {
			return nil, errors.New("no answer")
		}
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNRESET)}
	}
	all := d.uplink(t.Context())
	if len(all) != 2 || all[0].Result != doctor.Warning || all[0].Message != "192.0.2.53:53 is not reached: no answer" || all[0].Do == "" || all[1].Result != doctor.OK {
		t.Errorf("%+v", all)
	}
}

// The rights of the documentation are enough for all commands: nothing is denied,
// on one server, with sentinels and on a cluster.
func TestDocumentedRights(t *testing.T) {
	text, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	var rights [][]any
	for _, m := range regexp.MustCompile(`(?m)^ACL SETUSER .*>PASSWORD .*$`).FindAllString(string(text), -1) {
		var words []any
		for _, w := range strings.Fields(m) {
			words = append(words, strings.Replace(w, "PASSWORD", "CANARY-acl", 1))
		}
		rights = append(rights, words)
	}
	if len(rights) != 3 {
		t.Fatalf("%d lines of rights", len(rights))
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		s.Do(rights[0]...)
		useAll(t, []*redistest.Server{s}, "redis.url="+s.URL())
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		g := redistest.Sentinel(t)
		g.Master.Do(rights[0]...)
		g.Replica.Do(rights[0]...)
		for _, s := range g.Nodes {
			s.Do(rights[2]...)
		}
		useAll(t, append(slices.Clone(g.Nodes), g.Master, g.Replica), "redis.sentinel.master="+g.Name, "redis.sentinel.addrs="+strings.Join(g.Addrs(), ","), "redis.sentinel.username=trafficup", "redis.sentinel.password_file="+privateFile(t, "sentinel", "CANARY-acl"))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		all := redistest.Cluster(t)
		for _, s := range all {
			s.Do(rights[1]...)
		}
		useAll(t, all, "redis.cluster="+strings.Join(all.Addrs(), ","))
	})
}

// useAll runs every command that uses Redis, with the login of the documentation,
// and expects that no server has denied anything.
func useAll(t *testing.T, servers []*redistest.Server, options ...string) {
	t.Helper()
	base := sharingAPI(t)
	for _, o := range append(options, "redis.username=trafficup", "redis.password_file="+privateFile(t, "redis", "CANARY-acl")) {
		base = append(base, "--set", o)
	}
	do := func(args []string, want ...string) {
		t.Helper()
		tells(t, exitOK, nil, append(args, base...), want...)
		for _, s := range servers {
			if denied := fmt.Sprint(s.Do("ACL", "LOG")); denied != "[]" {
				t.Errorf("%q: %s denied %s", args, s.Addr, denied)
			}
		}
	}
	do([]string{"upload", "--shared-rate", "30", writeNight(t, 30)})
	do([]string{"breaker", "open", "primary", "--reason", "API moves"})
	do([]string{"status"}, "primary: forced open until ", "primary: p95 ")
	do([]string{"breaker", "reset"})
	do([]string{"doctor"}, "; version 7")
	if text := tells(t, exitOK, nil, append([]string{"doctor"}, base...)); strings.Contains(text, "warning  redis") {
		t.Errorf("lacks something:\n%s", text)
	}
}

// What this user lacks, for what is configured.
func TestJudgeRights(t *testing.T) {
	none := func(*config.Loaded) {}
	breakers := func(l *config.Loaded) { l.Breaker.Store = "redis" }
	ceiling := func(l *config.Loaded) { l.Upload.SharedRate = 200 }
	for name, c := range map[string]struct {
		with   func(*config.Loaded)
		denied string
		want   []string
	}{
		"nothing":          {breakers, "", nil},
		"SET":              {none, "+set", []string{"failed this user lacks +set: nothing is shared for certain"}},
		"GET":              {breakers, "+get", []string{"failed this user lacks +get: breakers are not shared"}},
		"GET, not wanted":  {ceiling, "+get", nil},
		"HSET":             {ceiling, "+hset +hget", []string{"failed this user lacks +hset +hget: the ceiling is not shared"}},
		"HSET, not wanted": {breakers, "+hset", nil},
		"PEXPIRE":          {ceiling, "+pexpire", []string{"failed this user lacks +pexpire: the ceiling is not shared", "warning this user lacks +pexpire: latencies are not shared"}},
		"channel":          {breakers, "&trafficup:*", []string{"warning this user lacks &trafficup:*: changes of breakers are seen after 250 ms, not at once"}},
		"figures":          {none, "+info +xadd", []string{"warning this user lacks +xadd: latencies are not shared", "warning this user lacks +info: its version, role and memory are not looked at"}},
	} {
		l := &config.Loaded{}
		c.with(l)
		l.Redis.Username = "up"
		var got []string
		for _, f := range (Config{l}).judgeRights(strings.Fields(c.denied)) {
			got = append(got, fmt.Sprintf("%s %s", f.Result, f.Message))
			if f.What != "redis rights" || !strings.Contains(f.Do, "ACL SETUSER up +") && !strings.Contains(f.Do, "ACL SETUSER up &") {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Each right of the documentation for breakers and ceiling fails doctor when it
// lacks, and is named.
func TestDoctorNamesMissingRights(t *testing.T) {
	s := redistest.Start(t)
	base := append([]string{"doctor", "--redis", s.URL(), "--shared-rate", "30", "--set", "redis.username=up", "--set", "redis.password_file=" + privateFile(t, "redis", "CANARY-acl")}, sharingAPI(t)...)
	all := strings.Fields("+evalsha +eval +time +get +set +publish +pexpire +hget +hgetall +hset +hdel +xadd +xrange +subscribe +ping +info")
	for right, code := range map[string]int{"+evalsha": exitFailed, "+get": exitFailed, "+set": exitFailed, "+hdel": exitFailed, "+subscribe": exitOK, "+xadd": exitOK} {
		words := []any{"ACL", "SETUSER", "up", "reset", "on", ">CANARY-acl", "~trafficup:*", "&trafficup:*", "-@all"}
		for _, r := range all {
			if r != right {
				words = append(words, r)
			}
		}
		s.Do(words...)
		tells(t, code, nil, base, "redis rights         this user lacks "+right+": ", "\n         inside redis-cli, on each server: ACL SETUSER up "+right+"; docs/redis.md")
	}
}

// One sentinel is dead, one is none, one knows no such master and the replica has
// no such user: a line each.
func TestDoctorLooksAtSentinels(t *testing.T) {
	g := redistest.Sentinel(t)
	base := append([]string{"doctor", "--set", "redis.sentinel.master=" + g.Name}, sharingAPI(t)...)
	addrs := func(all ...string) string { return "redis.sentinel.addrs=" + strings.Join(all, ",") }
	stranger := redistest.Sentinel(t)
	stranger.Nodes[0].Do("SENTINEL", "REMOVE", g.Name)
	guarded := stranger.Nodes[1]
	guarded.Do("ACL", "SETUSER", "default", "resetpass", ">CANARY-right")
	g.Master.Do("ACL", "SETUSER", "up", "on", ">CANARY-acl", "~*", "&*", "+@all")
	g.Replica.Do("ACL", "SETUSER", "up", "on", ">CANARY-acl", "~*", "&*", "+@all", "-get")
	login := []string{"--set", "redis.username=up", "--set", "redis.password_file=" + privateFile(t, "redis", "CANARY-acl")}
	some := append(append(slices.Clone(base), "--set", addrs(g.Nodes[0].Addr, "127.0.0.1:1", stranger.Nodes[0].Addr, g.Master.Addr, guarded.Addr)), login...)
	const warning = "\nwarning  redis sentinel       "
	tells(t, exitOK, nil, some, "\nok       redis  ",
		warning+"127.0.0.1:1 cannot be reached: ", "\n         see that it runs and can be reached: redis-cli -h 127.0.0.1 -p 1 ping\n",
		warning+stranger.Nodes[0].Addr+" knows no such master: no master named \""+g.Name+"\"\n",
		warning+g.Master.Addr+" is no sentinel: ",
		warning+guarded.Addr+" wants a password: ", "\n         set redis.sentinel.password_file",
		"\nwarning  redis replica        "+g.Replica.Addr+": this user lacks +get: after a failover to it runs go on alone\n")
	g.Replica.Do("ACL", "DELUSER", "up")
	tells(t, exitOK, nil, some, "\nwarning  redis replica        "+g.Replica.Addr+" refuses the user or the password: ", "\n         make the user there, too, by the line ACL SETUSER in docs/redis.md\n")
	none := append(slices.Clone(base), "--set", addrs(stranger.Nodes[0].Addr))
	text := tells(t, exitFailed, nil, none, "\nfailed   redis                is not found: one of redis.sentinel.addrs knows no such master: no master named \""+g.Name+"\"; runs go on alone\n         correct redis.sentinel.master; redis-cli -h 127.0.0.1 -p ", "\nfailed   redis sentinel       ")
	if strings.Contains(text, "redis: nil") {
		t.Error(text)
	}
	single := append([]string{"doctor", "--redis", g.Nodes[0].URL()}, sharingAPI(t)...)
	for name, more := range map[string][]string{"plain": nil, "with a login": login} {
		if text := tells(t, exitFailed, nil, append(slices.Clone(single), more...), "\nfailed   redis                answers as a sentinel: ", "\n         give it under redis.sentinel"); t.Failed() {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// Only what others can reach has to have a password.
func TestOpenToAll(t *testing.T) {
	for url, want := range map[string]bool{
		"redis://127.0.0.1": false, "redis://[::1]:1": false, "redis://localhost:6379/1": false, "unix:///run/redis": false,
		"redis://192.0.2.1:6379": true, "rediss://r.test": true, "redis://up:CANARY@r.test": false, "redis://up@r.test": true,
	} {
		l := &config.Loaded{}
		l.Redis.URL = url
		if got := (Config{l}).openToAll(); got != want {
			t.Errorf("%s: %v", url, got)
		}
		if l.Redis.PasswordFile = "p"; (Config{l}).openToAll() {
			t.Errorf("%s with a password", url)
		}
	}
	l := &config.Loaded{}
	for addr, want := range map[string]bool{"127.0.0.1:1": false, "192.0.2.1:1": true} {
		l.Redis.Cluster = []string{addr}
		if got := (Config{l}).openToAll(); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}
