package api

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"trafficup/internal/breaker"
)

const insideNamespace = "TRAFFICUP_TEST_INSIDE_NAMESPACE"

// inNamespace runs the test once more, in a process with a network of its own,
// and reports false out here.
func inNamespace(t *testing.T) bool {
	if os.Getenv(insideNamespace) != "" {
		loopbackUp(t)
		return true
	}
	if os.Geteuid() != 0 {
		lacks(t, "the right to make a network namespace: run it as root")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), insideNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSPC):
		lacks(t, "the right to make a network namespace: "+err.Error())
	case err != nil:
		t.Errorf("inside: %v\n%s", err, out)
	default:
		t.Logf("inside:\n%s", out)
	}
	return false
}

func loopbackUp(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		t.Fatal(err)
	}
}

// synTOS captures packets on the loopback until the first SYN to port, and
// returns its TOS or traffic class.
func synTOS(t *testing.T, port int) <-chan int {
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		t.Fatal(err)
	}
	tos := make(chan int, 1)
	go func() {
		defer close(tos)
		defer unix.Close(fd)
		p := make([]byte, 1<<16)
		for {
			n, _, err := unix.Recvfrom(fd, p, 0)
			if err == unix.EINTR || err == nil && n < 40 {
				continue
			}
			if err != nil {
				return
			}
			class, tcp := int(p[1]), p[int(p[0]&15)*4:n]
			if p[0]>>4 == 6 {
				class, tcp = int(p[0]&15)<<4|int(p[1])>>4, p[40:n]
			}
			if len(tcp) >= 20 && int(binary.BigEndian.Uint16(tcp[2:])) == port && tcp[13]&0x12 == 0x02 { // SYN without ACK
				tos <- class
				return
			}
		}
	}()
	return tos
}

// The very first packet carries the code point, and the socket the rest.
func TestSocketOptionsOnTheWire(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for _, tc := range []struct {
		name, listen string
		o            SocketOptions
		tos          int
		from         string
	}{
		{"v4, nothing set", "127.0.0.1", SocketOptions{}, 0, "127.0.0.1"},
		{"v4, left", "127.0.0.1", SocketOptions{DSCP: -1}, 0, "127.0.0.1"},
		{"v4, AF41", "127.0.0.1", SocketOptions{DSCP: 34}, 34 << 2, "127.0.0.1"},
		{"v4, all", "127.0.0.1", SocketOptions{DSCP: 63, Interface: "lo", Source: "127.0.0.3", UserTimeout: 12345 * time.Millisecond, Congestion: "reno", KeepAlive: 7 * time.Second}, 63 << 2, "127.0.0.3"},
		{"v6, nothing set", "::1", SocketOptions{}, 0, "::1"},
		{"v6, CS1", "::1", SocketOptions{DSCP: 8, Source: "::1", Interface: "lo", Congestion: "reno"}, 8 << 2, "::1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", net.JoinHostPort(tc.listen, "0"))
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			from := make(chan string, 1)
			go func() {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				from <- c.RemoteAddr().(*net.TCPAddr).IP.String()
				io.WriteString(c, created)
				io.Copy(io.Discard, c)
			}()
			port := ln.Addr().(*net.TCPAddr).Port
			tos := synTOS(t, port)
			c := newTestClient(t, "http://"+net.JoinHostPort(tc.listen, strconv.Itoa(port)), func(cfg *Config) { cfg.Socket = tc.o })
			if o := c.Send(t.Context(), record(1)); o.Class != Acked {
				t.Fatalf("%+v", o)
			}
			if got, ok := <-tos; !ok || got != tc.tos {
				t.Errorf("SYN with %#x (seen: %v), want %#x", got, ok, tc.tos)
			}
			if got := <-from; got != tc.from {
				t.Errorf("came from %s, want %s", got, tc.from)
			}
			readBack(t, c.idle[0].raw.Conn, tc.o)
			c.Close()
		})
	}
}

func readBack(t *testing.T, c net.Conn, o SocketOptions) {
	text := func(level, opt int, want string) {
		onSocket(t, c, func(fd int) error {
			got, err := unix.GetsockoptString(fd, level, opt)
			if got = strings.TrimRight(got, "\x00"); got != want {
				t.Errorf("option %d/%d is %q, want %q", level, opt, got, want)
			}
			return err
		})
	}
	number := func(level, opt, want int) {
		onSocket(t, c, func(fd int) error {
			got, err := unix.GetsockoptInt(fd, level, opt)
			if got != want {
				t.Errorf("option %d/%d is %d, want %d", level, opt, got, want)
			}
			return err
		})
	}
	text(unix.SOL_SOCKET, unix.SO_BINDTODEVICE, o.Interface)
	number(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(o.UserTimeout.Milliseconds()))
	if o.Congestion != "" {
		text(unix.IPPROTO_TCP, unix.TCP_CONGESTION, o.Congestion)
	}
	if o.KeepAlive > 0 {
		number(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(o.KeepAlive.Seconds()))
		number(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(o.KeepAlive.Seconds()))
	}
}

// What the system refuses for good stops the run; what may come back is a path that is down.
func TestSocketOptionsRefused(t *testing.T) {
	s := newRawServer(t, func(_ *rawServer, _ net.Conn, br *bufio.Reader) { io.Copy(io.Discard, br) })
	available, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		lacks(t, err.Error())
	}
	for _, tc := range []struct {
		name    string
		o       SocketOptions
		class   Class
		verdict breaker.Verdict
		says    string
	}{
		{"unknown algorithm", SocketOptions{Congestion: "avian"}, ConfigFault, breaker.Neutral, "this kernel has: " + string(bytes.TrimSpace(available))},
		{"interface that is not there", SocketOptions{Interface: "tun-none"}, Retry, breaker.Fail, "interface tun-none"},
		{"address that is not there", SocketOptions{Source: "192.0.2.1"}, Retry, breaker.Fail, "192.0.2.1"},
		{"address of the other family", SocketOptions{Source: "::1"}, Retry, breaker.Fail, "address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newTestClient(t, s.url(), func(cfg *Config) { cfg.Socket = tc.o })
			o := c.Send(t.Context(), record(1))
			if o.Class != tc.class || o.Breaker != tc.verdict || o.Wrote || !strings.Contains(o.Problem, tc.says) || errors.Is(o.Err, ErrSocket) != (tc.class == ConfigFault) {
				t.Errorf("%+v", o)
			}
		})
	}
	if s.conns.Load() != 0 {
		t.Errorf("%d connections", s.conns.Load())
	}
}
