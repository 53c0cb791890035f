package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A firewall, or a gateway that was replaced, forgets the connection: its packets
// vanish without a word, while new connections work.
func TestDroppedFlowIsLeft(t *testing.T) {
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			lacks(t, "the command "+tool+" (packages iproute2 and nftables)")
		}
	}
	if !inNamespace(t) {
		return
	}
	srv := beyondVeth(t)
	command(t, "nft add table inet cut\nnft add chain inet cut out { type filter hook output priority 0; }\nnft add chain inet cut in { type filter hook input priority 0; }")
	for _, tc := range []struct {
		name    string
		timeout time.Duration
	}{
		{"found by ping", 20 * time.Second},
		{"found by timeout", 1500 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var ports []int
			tr := newTestTransport(t, srv.URL, TransportConfig{HTTP2: true}, func(cfg *Config) {
				cfg.TLS = rootsOf(srv.Certificate())
				cfg.TLS.ServerName = "example.com" // as the test server's certificate says
				cfg.RequestTimeout = tc.timeout
				cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, addr)
					if err == nil {
						mu.Lock()
						ports = append(ports, c.LocalAddr().(*net.TCPAddr).Port)
						mu.Unlock()
					}
					return c, err
				}
			})
			start := time.Now()
			failed := 0
			for i := range 20 {
				if i == 5 {
					mu.Lock()
					port := strconv.Itoa(ports[0])
					mu.Unlock()
					command(t, "nft add rule inet cut out tcp sport "+port+" drop\nnft add rule inet cut in tcp dport "+port+" drop")
				}
				for {
					o := tr.Send(t.Context(), record(i))
					if o.Class == Acked {
						break
					}
					t.Logf("record %d after %v: %s", i, o.Duration, o.Problem)
					if failed++; failed > 2 {
						t.Fatalf("record %d: %+v", i, o)
					}
				}
			}
			if d := time.Since(start); d > time.Minute || failed == 0 || len(ports) != 2 {
				t.Errorf("%v, %d attempts failed, %d connections", d, failed, len(ports))
			}
		})
	}
}

// beyondVeth starts a server in a namespace of its own, at the other end of a
// pair of virtual interfaces. Both vanish with the thread that holds them.
func beyondVeth(t *testing.T) *httptest.Server {
	t.Helper()
	type place struct {
		ln  net.Listener
		err error
	}
	at := make(chan place)
	tid := make(chan int)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			at <- place{err: err}
			return
		}
		tid <- unix.Gettid()
		if <-tid; run("ip addr add 10.77.0.2/24 dev far\nip link set far up") != nil {
			at <- place{err: fmt.Errorf("no interface in the namespace")}
			return
		}
		ln, err := net.Listen("tcp", "10.77.0.2:0")
		at <- place{ln, err}
		<-done
	}()
	var p place
	select {
	case p = <-at:
	case id := <-tid:
		command(t, "ip link add near type veth peer name far\nip link set far netns "+strconv.Itoa(id)+"\nip addr add 10.77.0.1/24 dev near\nip link set near up")
		tid <- 0
		p = <-at
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(ack))
	srv.Listener.Close()
	srv.Listener, srv.EnableHTTP2 = p.ln, true
	srv.StartTLS()
	t.Cleanup(srv.CloseClientConnections)
	t.Cleanup(func() { srv.Listener.Close() })
	return srv
}

func command(t *testing.T, lines string) {
	t.Helper()
	if err := run(lines); err != nil {
		t.Fatal(err)
	}
}

// run runs commands, one a line.
func run(lines string) error {
	for line := range strings.Lines(lines) {
		args := strings.Fields(line)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", args, err, out)
		}
	}
	return nil
}
