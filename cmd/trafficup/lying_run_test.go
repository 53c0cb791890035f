package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// lying is an upload to a server that does not do as it should.
type lying struct {
	url     string
	records int
	size    int    // bytes of each payload, more or less; 0: a few
	config  string // the configuration file
	env     map[string]string
	args    []string
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	dir     string // state of an earlier run; empty: none
	night   string // its input
}

// lied is what became of it.
type lied struct {
	lying
	result
	stdout, stderr string
	letters        int
}

// quick makes a run wait for little.
var quick = []string{
	"--concurrency", "4", "--backoff-base", "5ms", "--backoff-cap", "50ms", "--breaker-store", "memory", "--breaker-open", "20ms",
	"--breaker-open-max", "30ms", "--halt-after", "20s", "--retry-budget-min", "1000",
}

func (l lying) upload(t *testing.T) lied {
	t.Helper()
	if l.dir == "" {
		l.dir, l.night = t.TempDir(), writeRecords(t, l.records, l.size)
	}
	config := filepath.Join(l.dir, "trafficup.yaml")
	if err := os.WriteFile(config, []byte(l.config+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"upload", "--config", config, "--state-dir", l.dir, "--url", l.url}, quick...)
	sys, stdout, stderr := testSystem(append(append(args, l.args...), l.night)...)
	sys.dial = l.dial
	for name, value := range l.env {
		sys.environ = append(sys.environ, name+"="+value)
	}
	code := run(sys)
	d := lied{lying: l, result: lastReport(t, l.dir), stdout: stdout.String(), stderr: stderr.String()}
	if d.ExitCode != code {
		t.Errorf("exit %d, the report says %d", code, d.ExitCode)
	}
	files, err := filepath.Glob(l.dir + "/deadletters/*.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d.letters += bytes.Count(text, []byte("\n"))
	}
	return d
}

// is checks the end of a run: the exit code, how many records were acked and how
// many ended as dead letters.
func (d lied) is(t *testing.T, code int, acked int64, letters int) {
	t.Helper()
	if d.ExitCode != code || d.Acked != acked || d.letters != letters {
		t.Fatalf("exit %d with %d acked and %d letters, want %d, %d and %d\n%s%s", d.ExitCode, d.Acked, d.letters, code, acked, letters, d.stdout, d.stderr)
	}
}

// says checks that the user is told all of these.
func (d lied) says(t *testing.T, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(d.stdout+d.stderr, w) {
			t.Errorf("not a word of %q in\n%s%s", w, d.stdout, d.stderr)
		}
	}
}

// writeRecords writes n records whose payloads are size bytes longer than need be.
func writeRecords(t *testing.T, n, size int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"spot_id":"SP-%d","idempotency_key":"%s","payload":%s}`+"\n", i, key(i), liedPayload(i, size))
	}
	path := filepath.Join(t.TempDir(), "night.ndjson")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func liedPayload(i, size int) string {
	return fmt.Sprintf(`{"house_number":"WXYZ-%07d","note":"%s"}`, i, strings.Repeat("x", size))
}

// liar is a server that speaks as its script says, connection by connection.
type liar struct {
	net.Listener
	wg   sync.WaitGroup
	over chan struct{} // closed at the end of the test

	mu     sync.Mutex
	conns  int            // guarded by mu
	calls  map[string]int // guarded by mu; requests read to their end, by key
	faults []string       // guarded by mu; requests that were not what they should be
	size   int            // of the payloads
}

// newLiar serves on loopback; serve is called once for each connection, with its
// number from 1.
func newLiar(t *testing.T, serve func(l *liar, c net.Conn, br *bufio.Reader, n int)) *liar {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newLiarOn(t, ln, serve)
}

func newLiarOn(t *testing.T, ln net.Listener, serve func(l *liar, c net.Conn, br *bufio.Reader, n int)) *liar {
	l := &liar{Listener: ln, calls: map[string]int{}, over: make(chan struct{})}
	l.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			l.mu.Lock()
			l.conns++
			n := l.conns
			l.mu.Unlock()
			l.wg.Go(func() {
				defer c.Close()
				serve(l, c, bufio.NewReader(c), n)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); close(l.over); l.wg.Wait() })
	return l
}

func (l *liar) url() string { return "http://" + l.Addr().String() + "/v1/logs" }

// request reads one request to its end. n is how often its key has come; 0: the
// connection ended.
func (l *liar) request(br *bufio.Reader) (n int) {
	req, err := http.ReadRequest(br)
	if err != nil {
		return 0
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return 0
	}
	return l.count(req, body)
}

// count notes a request, and whether it carries what belongs to its key.
func (l *liar) count(req *http.Request, body []byte) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := req.Header.Get("Idempotency-Key")
	var i int
	fmt.Sscanf(name, "key-%d", &i)
	if want := liedPayload(i, l.size); sha256.Sum256(body) != sha256.Sum256([]byte(want)) || req.ContentLength != int64(len(want)) {
		l.faults = append(l.faults, fmt.Sprintf("%s with %d bytes and a length of %d", name, len(body), req.ContentLength))
	}
	l.calls[name]++
	return l.calls[name]
}

// heard returns the keys that came, the requests and the connections.
func (l *liar) heard(t *testing.T) (keys, calls, conns int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		t.Error(f)
	}
	for _, n := range l.calls {
		calls += n
	}
	return len(l.calls), calls, l.conns
}

const thanks = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"id\":\"r-1\"}"
