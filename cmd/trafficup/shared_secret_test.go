//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"trafficup/internal/redis/redistest"
)

// Passwords of Redis and of its sentinels, wherever they stand, are neither said nor
// kept, whether Redis takes them, refuses them, is away or is none.
func TestNoSecretOfRedisGetsOut(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	night := plainNight(t, 3)
	put := func(name, text string) string {
		path := filepath.Join(work, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := put("password", "CANARY-re+dis/\n")
	taken, refused := redistest.Start(t, "--requirepass", "CANARY-re+dis/"), redistest.Start(t, "--requirepass", "other")
	none := httptest.NewServer(gossip(201, "text/plain"))
	defer none.Close()
	api := newFickle(t, with(http.StatusCreated))
	n := 0
	for where, addr := range map[string]string{"takes": taken.Addr, "refuses": refused.Addr, "away": "127.0.0.1:1", "none": none.Listener.Addr().String()} {
		for form, text := range map[string]string{
			"url":      fmt.Sprintf("{url: \"redis://u:CANARY-re%%2Bdis%%2F@%s\"}", addr),
			"password": fmt.Sprintf("{url: \"redis://%s\", password: CANARY-re+dis/}", addr),
			"file":     fmt.Sprintf("{url: \"redis://%s\", password_file: %q}", addr, file),
			"sentinel": fmt.Sprintf("{sentinel: {master: m, addrs: [%q], password: CANARY-re+dis/}, password: CANARY-re+dis/}", addr),
			"cluster":  fmt.Sprintf("{cluster: [%q], password: CANARY-re+dis/}", addr),
		} {
			if where != "takes" && form != "url" && form != "sentinel" {
				continue // the rest has nothing to do with where the password stands
			}
			conf := put(fmt.Sprintf("%d.yaml", n), fmt.Sprintf("api: {primary: %q}\nbreaker: {store: redis}\nupload: {shared_rate: 1000}\nredis: %s\n", api.URL, text))
			state := filepath.Join(work, where+"-"+form)
			flags := []string{"--config", conf, "--state-dir", state}
			n++
			for _, args := range [][]string{
				{"upload", night, "--log-file", filepath.Join(state, "audit.log")}, {"upload", night, "--json"}, {"upload", night, "--set", "redis.required=true"},
				{"status"}, {"breaker", "status"}, {"breaker", "open", "primary", "--reason", "x"}, {"breaker", "reset", "--json"}, {"config", "show"}, {"config", "check"}, {"doctor", "--json"},
			} {
				noSecretIn(t, nil, append(args, flags...)...)
			}
			nothingKept(t, state)
		}
	}
	for _, text := range []string{
		"redis: {url: \"redis://h?password=CANARY\"}", "redis: {url: \"redis://h#CANARY\"}", "redis: {url: \"h:1?password=CANARY\"}",
		"redis: {password: [CANARY]}", "redis: {url: \"redis://u:CANARY@h:port\"}", "redis: {url: \"http://u:CANARY@h\"}", "redis: {url: \"u:CANARY@h\"}",
		"redis: {cluster: [\"u:CANARY@h:1\"]}", "redis: {sentinel: {master: m, addrs: [\"redis://u:CANARY@h\"]}}", "redis: {uplink_targets: [\"u:CANARY@h\", \"b\"]}",
	} {
		conf := put("trafficup.yaml", text)
		for _, args := range [][]string{{"config", "check"}, {"config", "show"}, {"upload", night, "--url", api.URL, "--state-dir", work}} {
			noSecretIn(t, nil, append(args, "--config", conf)...)
		}
	}
	noSecretIn(t, []string{"TRAFFICUP_REDIS_PASSWORD=CANARY-env", "TRAFFICUP_REDIS_URL=redis://u:CANARY@127.0.0.1:1"}, "config", "show")
}
