package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The far end; nobody listens at shutPort.
const (
	plainPort, securePort, tokenPort, shutPort = 8080, 8443, 8444, 8081

	plainAddr, plainAddr6, secureAddr, tokenAddr = "10.98.0.2:8080", "[fd98::2]:8080", "10.98.0.2:8443", "10.98.0.2:8444"
)

// wireBench is a network of the test's own, at whose other end, in another network,
// are an API and who sees what arrives there.
type wireBench struct {
	t       *testing.T
	trust   string // the configuration by which the far end's certificate is trusted
	dir     string // of the state of the next run
	tap     int
	rejects atomic.Bool // the API refuses every record
	stderr  *os.File    // of the next run; nil: no terminal
}

// farEnd is what is opened in the far network.
type farEnd struct {
	at  map[string]net.Listener // by address
	tap int
	err error
}

func newWireBench(t *testing.T) *wireBench {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		needs(t, "ip (package iproute2)")
	}
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		needs(t, "root, for a network namespace: "+err.Error())
	}
	a := netlink.NewLinkAttrs()
	a.Name = "up0"
	fatal(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "far0"}))
	there, ready := make(chan int), make(chan farEnd)
	go openFar(there, ready)
	far, err := netlink.LinkByName("far0")
	fatal(t, err)
	tid := <-there
	if tid == 0 {
		t.Fatal("no second network")
	}
	fatal(t, netlink.LinkSetNsPid(far, tid))
	there <- 0
	fatal(t, settle("up0", 1))
	end := <-ready
	fatal(t, end.err)
	b := &wireBench{t: t, tap: end.tap}
	t.Cleanup(func() { _ = unix.Close(end.tap) })
	b.serve(end)
	return b
}

// openFar makes a network, gives its thread's number, and when far0 is in it opens
// what is needed there, which stays there.
func openFar(there chan int, ready chan<- farEnd) {
	runtime.LockOSThread() // the thread ends with this function, the network with what is open in it
	if unix.Unshare(unix.CLONE_NEWNET) != nil {
		there <- 0
		return
	}
	there <- unix.Gettid()
	<-there
	end := farEnd{at: map[string]net.Listener{}, err: settle("far0", 2)}
	for _, addr := range []string{plainAddr, plainAddr6, secureAddr, tokenAddr} {
		if end.err == nil {
			end.at[addr], end.err = net.Listen("tcp", addr)
		}
	}
	if end.err == nil {
		end.tap, end.err = openTap("far0")
	}
	ready <- end
}

// settle gives the device addresses that end in n, in the network of this thread, where
// TCP is to speak ECN.
func settle(name string, n int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, cidr := range []string{"10.98.0.%d/24", "fd98::%d/64"} {
		addr, err := netlink.ParseAddr(fmt.Sprintf(cidr, n))
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, addr); err != nil {
			return err
		}
	}
	return errors.Join(netlink.LinkSetUp(link), os.WriteFile("/proc/sys/net/ipv4/tcp_ecn", []byte("1"), 0o600))
}

func openTap(name string) (int, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all))
	if err != nil {
		return 0, err
	}
	return fd, errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 60_000}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
}

// serve has the API, a proxy and who gives tokens answer at the far end.
func (b *wireBench) serve(end farEnd) {
	cert, trust := selfSigned(b.t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "10.98.0.2")
	b.trust = strings.TrimSuffix(strings.TrimPrefix(trust, "api: {"), "}")
	tunnels := &handed{Listener: end.at[secureAddr], conns: make(chan net.Conn)}
	srv := &http.Server{Protocols: new(http.Protocols), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
				tunnels.conns <- c
			}
		case r.URL.Path == "/token":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"access_token":"t-1","token_type":"Bearer","expires_in":3600}`))
		case b.rejects.Load():
			w.WriteHeader(http.StatusUnprocessableEntity)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
	go tunnels.accept()
	go srv.Serve(end.at[plainAddr])
	go srv.Serve(end.at[plainAddr6])
	go srv.ServeTLS(tunnels, "", "")
	go srv.ServeTLS(end.at[tokenAddr], "", "")
	b.t.Cleanup(func() { _ = srv.Close() })
}

// handed is a listener that is also handed connections.
type handed struct {
	net.Listener
	conns chan net.Conn
}

func (h *handed) accept() {
	defer close(h.conns)
	for {
		c, err := h.Listener.Accept()
		if err != nil {
			return
		}
		h.conns <- c
	}
}

func (h *handed) Accept() (net.Conn, error) {
	if c, ok := <-h.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// arrived is a packet of TCP, as it was seen at the far end.
type arrived struct {
	from, port int
	dscp, ecn  int
	v6, syn    bool
}

// packets are those that have arrived by now. A reset is left out: the kernel gives
// it the mark of what it answers.
func (b *wireBench) packets() (all []arrived) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(b.tap, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return all
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype == unix.PACKET_OUTGOING || n < 40 {
			continue
		}
		p, v6 := buf[:n], buf[0]>>4 == 6
		tos, next, tcp := int(p[1]), p[9], p[int(p[0]&15)*4:]
		if v6 {
			tos, next, tcp = int(p[0]&15)<<4|int(p[1])>>4, p[6], p[40:]
		}
		if next == unix.IPPROTO_TCP && len(tcp) >= 20 && tcp[13]&4 == 0 {
			all = append(all, arrived{int(binary.BigEndian.Uint16(tcp)), int(binary.BigEndian.Uint16(tcp[2:])), tos >> 2, tos & 3, v6, tcp[13]&2 != 0})
		}
	}
}

// run runs the program, and returns its exit code and what it says.
func (b *wireBench) run(config string, args ...string) (int, string) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "trafficup.yaml")
	fatal(b.t, os.WriteFile(file, []byte(config), 0o600))
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "trafficup", append(args, "--config", file, "--state-dir", b.dir, "--retry-budget-min", "100")...)
	cmd.Dir, cmd.Env = filepath.Dir(file), []string{"HOME=" + filepath.Dir(file), "TERM=xterm"}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if b.stderr != nil {
		cmd.Stderr = b.stderr
	}
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		b.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), said.String()
}

// uploads runs the program with a state of its own, and asserts that each packet it
// sends is marked with dscp, and that there were some to each of ports.
func (b *wireBench) uploads(what string, dscp int, config string, ports []int, args ...string) string {
	b.t.Helper()
	if args == nil {
		args = []string{"upload", writeNight(b.t, 20)}
	}
	if args[0] == "upload" {
		b.dir = b.t.TempDir()
	}
	code, said := b.run(config, args...)
	all := b.packets()
	if code != 0 && !b.rejects.Load() {
		b.t.Fatalf("%s: exit %d\n%s", what, code, said)
	}
	begun, capable := map[int]int{}, 0 // by the port it comes from: where to
	for _, p := range all {
		if p.syn {
			begun[p.from] = p.port
		}
		if p.ecn == 2 { // ECT(0): the kernel's bits
			capable++
		}
	}
	for _, p := range all {
		if begun[p.from] != p.port {
			continue // the late end of an earlier run's
		}
		if p.dscp != dscp || !slices.Contains(ports, p.port) || p.v6 != strings.Contains(what, "v6") {
			b.t.Errorf("%s: %+v, want dscp %d to %d", what, p, dscp, ports)
			break
		}
	}
	for _, port := range ports {
		if !slices.Contains(slices.Collect(maps.Values(begun)), port) {
			b.t.Errorf("%s: no connection to %d in %d packets", what, port, len(all))
		}
	}
	if capable == 0 {
		b.t.Errorf("%s: the bits of ECN are gone", what)
	}
	return said
}

// Each packet of a run bears the mark of its class, or its path's, from the first SYN.
func TestMarksOnTheWire(t *testing.T) {
	t.Parallel()
	b := newWireBench(t)
	v4, v6 := "api: {primary: http://10.98.0.2:8080/v1}\n", "api: {primary: \"http://[fd98::2]:8080/v1\"}\n"
	secure := "api: {primary: https://10.98.0.2:8443/v1, " + b.trust
	plain := []int{plainPort}
	b.uploads("v4", 1, v4, plain)
	b.uploads("v6", 1, v6, plain)
	b.uploads("v6, http 2", 1, v6+"paths: {primary: {http: 2}}", plain)
	b.uploads("tls", 1, secure+"}", []int{securePort})
	b.uploads("tls, http 2", 1, secure+"}\npaths: {primary: {http: 2}}", []int{securePort})
	b.uploads("proxy", 1, "api: {primary: http://api.example/v1}\npaths: {primary: {proxy: http://10.98.0.2:8080}}", plain)
	b.uploads("proxy, v6", 1, "api: {primary: http://api.example/v1}\npaths: {primary: {proxy: \"http://[fd98::2]:8080\"}}", plain)
	b.uploads("tunnel, http 2", 1, secure+"}\npaths: {primary: {http: 2, proxy: http://10.98.0.2:8080}}", plain)
	b.uploads("fallback", 1, "api: {primary: http://10.98.0.2:8081/v1, fallback: http://10.98.0.2:8080/v1}\nbreaker: {threshold: 1}", []int{shutPort, plainPort})
	b.uploads("token", 1, secure+", auth: {oauth: {token_url: \"https://10.98.0.2:8444/token\", client_id: a, client_secret: b}}}", []int{securePort, tokenPort})

	for _, c := range []struct {
		text string
		dscp int
	}{{"0", 0}, {"8", 8}, {"46", 46}, {"63", 63}, {"EF", 46}, {"CS1", 8}, {"LE", 1}, {"default", 0}} {
		path := "paths: {primary: {dscp: " + c.text + "}}"
		b.uploads("v4, "+path, c.dscp, v4+path, plain)
		if c.text[0] <= '9' {
			b.uploads("v6, "+path, c.dscp, v6+path, plain)
		}
	}
	b.uploads("class interactive", 18, v4+"upload: {class: interactive}", plain)
	b.uploads("class none", 0, v4+"upload: {class: none}", plain)
	b.uploads("a path's goes over the class", 46, v4+"upload: {class: none}\npaths: {primary: {dscp: ef}}", plain)
	b.uploads("netshape's", 8, v4+"netshape: {classes: [{name: bulk, dscp: cs1, match: {ports: [443]}}, {name: interactive, dscp: ef, match: {ports: [22]}}]}", plain)

	b.rejects.Store(true)
	b.uploads("before the replay", 1, v4, plain)
	b.rejects.Store(false)
	b.uploads("replay", 1, v4, plain, "replay")

	b.stderr = openTerminal(t)
	b.uploads("by hand", 18, v4, plain, "upload", writeNight(t, 3))
	b.uploads("by hand, v6", 18, v6, plain, "upload", writeNight(t, 3))
	b.uploads("by hand, a path's", 1, v4+"paths: {primary: {dscp: le}}", plain, "upload", writeNight(t, 3))
	b.uploads("by hand, a night", 1, v4, plain, "upload", writeNight(t, 1000))
	b.uploads("by hand, of another class", 1, v4, plain, "upload", "--class", "bulk", writeNight(t, 3))
}

// Where marks are not allowed the run warns, once, and delivers.
func TestMarksNotAllowed(t *testing.T) {
	t.Parallel()
	b := newWireBench(t)
	fatal(t, denyMarks())
	config := "api: {primary: http://10.98.0.2:8081/v1, fallback: \"http://10.98.0.2:8080/v1\"}\nbreaker: {threshold: 1}\n"
	for what, config := range map[string]string{"by class": config, "by path": config + "paths: {primary: {dscp: ef}, fallback: {dscp: ef}}"} {
		said := b.uploads(what, 0, config, []int{shutPort, plainPort})
		if strings.Count(said, "without their mark") != 1 || !strings.Contains(said, "warning: path primary: its packets go without their mark: dscp ") || !strings.Contains(said, "operation not permitted") {
			t.Errorf("%s: said\n%s", what, said)
		}
		for _, p := range lastReport(t, b.dir).Pathways {
			if p.DSCP != 0 {
				t.Errorf("%s: reports %+v", what, p)
			}
		}
	}
	if said := b.uploads("v6", 0, "api: {primary: \"http://[fd98::2]:8080/v1\"}", []int{plainPort}); !strings.Contains(said, "without their mark") {
		t.Errorf("v6: said\n%s", said)
	}
}

// denyMarks has the kernel refuse marks to this thread and what it starts.
func denyMarks() error {
	arg := func(n uint32) uint32 { // of a system call, in seccomp_data; the lower half
		if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
			return 16 + 8*n + 4
		}
		return 16 + 8*n
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	unless := func(k uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: skip}
	}
	end := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	deny := end(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	program := []unix.SockFilter{
		load(0), unless(unix.SYS_SETSOCKOPT, 9),
		load(arg(1)), unless(unix.IPPROTO_IP, 3), load(arg(2)), unless(unix.IP_TOS, 5), deny,
		unless(unix.IPPROTO_IPV6, 3), load(arg(2)), unless(unix.IPV6_TCLASS, 1), deny, // the level is still loaded
		end(unix.SECCOMP_RET_ALLOW),
	}
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&f)), 0, 0)
}

// openTerminal returns a terminal, what is written to which is read by nobody in particular.
func openTerminal(t *testing.T) *os.File {
	t.Helper()
	host, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		needs(t, err.Error())
	}
	t.Cleanup(func() { _ = host.Close() })
	fatal(t, unix.IoctlSetPointerInt(int(host.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(host.Fd()), unix.TIOCGPTN)
	fatal(t, err)
	term, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	fatal(t, err)
	go func() { // it ends when the other end is closed
		for buf := make([]byte, 4096); err == nil; _, err = host.Read(buf) {
		}
	}()
	t.Cleanup(func() { _ = term.Close() })
	return term
}
