package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// uplinkBench is a network of the test's own with the uplink up0, at whose other end,
// in another network, far takes what it is sent.
type uplinkBench struct {
	t   *testing.T
	dir string // of the state
	far string // host:port
}

func newUplink(t *testing.T) *uplinkBench {
	t.Helper()
	for _, tool := range []string{"tc", "nft", "ip"} {
		if tool == "nft" && inLab() {
			continue
		}
		if _, err := exec.LookPath(tool); err != nil {
			needs(t, tool)
		}
	}
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		needs(t, "root, for a network namespace: "+err.Error())
	}
	a := netlink.NewLinkAttrs()
	a.Name = "up0"
	fatal(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "far0"}))
	far := make(chan net.Listener)
	here, err := os.Open("/proc/thread-self/ns/net")
	fatal(t, err)
	defer func() { _ = here.Close() }()
	go answer(here, far)
	address(t, "up0", "10.99.0.1/24")
	l := <-far
	if l == nil {
		t.Fatal("the far end does not answer")
	}
	t.Cleanup(func() { _ = l.Close() })
	return &uplinkBench{t, t.TempDir(), l.Addr().String()}
}

// answer makes a network, takes far0 there out of the one given, and listens.
func answer(there *os.File, ready chan<- net.Listener) {
	runtime.LockOSThread()
	defer close(ready)
	if unix.Unshare(unix.CLONE_NEWNET) != nil {
		return
	}
	mine, err := os.Open("/proc/thread-self/ns/net")
	if err != nil || unix.Setns(int(there.Fd()), unix.CLONE_NEWNET) != nil {
		return
	}
	defer func() { _ = mine.Close() }()
	link, err := netlink.LinkByName("far0")
	if err != nil || netlink.LinkSetNsFd(link, int(mine.Fd())) != nil || unix.Setns(int(mine.Fd()), unix.CLONE_NEWNET) != nil {
		return
	}
	addr, err := netlink.ParseAddr("10.99.0.2/24")
	if err != nil || netlink.AddrAdd(link, addr) != nil || netlink.LinkSetUp(link) != nil {
		return
	}
	l, err := net.Listen("tcp", "10.99.0.2:443")
	if err != nil {
		return
	}
	ready <- l
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() { // it ends when the other end is closed
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}()
	}
}

func address(t *testing.T, name, cidr string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	fatal(t, err)
	addr, err := netlink.ParseAddr(cidr)
	fatal(t, err)
	fatal(t, netlink.AddrAdd(link, addr))
	fatal(t, netlink.LinkSetUp(link))
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// needs skips a test for want of something, which may not be where CI runs.
func needs(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("this needs " + what)
	}
	t.Skip("this needs " + what)
}

// lab is set in the kernel of the link lab, which has cake and no nftables, to the
// program that is tried there.
const lab = "TRAFFICUP_LINKLAB"

func inLab() bool { return os.Getenv(lab) != "" }

// needLab skips a test that the link lab runs in a kernel of its own (TestShapers of
// test/linklab), unless it is there.
func needLab(t *testing.T) {
	t.Helper()
	if !inLab() {
		t.Skip("needs cake and netem: TestShapers in test/linklab runs it")
	}
}

// shaping is a command that ended.
type shaping struct {
	t              *testing.T
	line, dir      string // the command line, and where it ran
	code           int
	stdout, stderr string
}

func (u *uplinkBench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(cmp.Or(os.Getenv(lab), "/proc/self/exe"), append([]string{"netshape"}, args...)...)
	cmd.Dir = u.t.TempDir()
	cmd.Env = []string{"HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + os.Getenv("NOTIFY_SOCKET")}
	return cmd
}

// run runs netshape with the state of the test.
func (u *uplinkBench) run(args ...string) shaping {
	u.t.Helper()
	return u.end(u.command(append(args, "--state-dir", u.dir)...))
}

func (u *uplinkBench) end(cmd *exec.Cmd) shaping {
	u.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		u.t.Fatal(err)
	}
	return shaping{u.t, strings.Join(cmd.Args[1:], " "), cmd.Dir, cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// is asserts code and that each of words is in what was said.
func (s shaping) is(code int, words ...string) shaping {
	s.t.Helper()
	for _, w := range words {
		if !strings.Contains(s.stdout+s.stderr, w) {
			s.t.Errorf("%s: does not say %q", s.line, w)
		}
	}
	if s.code != code || s.t.Failed() {
		s.t.Fatalf("%s: exit %d, want %d\nstdout: %s\nstderr: %s", s.line, s.code, code, s.stdout, s.stderr)
	}
	return s
}

func (u *uplinkBench) sh(command string) string {
	u.t.Helper()
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	if err != nil {
		u.t.Fatal(command, err, string(out))
	}
	return string(out)
}

// passing is what goes on whatever a test does.
var passing = regexp.MustCompile(`direct_packets_stat \d+|packets \d+ bytes \d+`)

// stands is all that nft and tc list.
func (u *uplinkBench) stands() string {
	u.t.Helper()
	rules := "nft list ruleset"
	if inLab() {
		rules = "true"
	}
	return passing.ReplaceAllString(u.sh(rules+"; tc qdisc show; tc class show dev up0; tc filter show dev up0; tc filter show dev up0 ingress; ip -o link | cut -d: -f2"), "")
}

// soon waits for what another process does.
func (u *uplinkBench) soon(what string, is func() bool) {
	u.t.Helper()
	for range 600 {
		if is() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	u.t.Fatalf("%s: not in 60 s\n%s", what, u.stands())
}
