//go:build linux

package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"trafficup/internal/edge"
	"trafficup/internal/failover"
)

// Where metrics go is looked at with the rest of the configuration.
func TestFailoverMetricsAreChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.prom")
	for _, c := range []struct {
		set  []string
		code int
		word string
	}{
		{[]string{"failover.metrics_listen=127.0.0.1:9478", "netshape.metrics_listen=127.0.0.1:9477", "failover.metrics_file=" + file}, 0, ""},
		{[]string{"failover.metrics_listen=9478"}, exitUsage, `failover.metrics_listen: "9478": want HOST:PORT, such as 127.0.0.1:9478`},
		{[]string{"failover.metrics_listen=:9478"}, 0, "failover.metrics_listen: :9478 is every address of this machine"},
		{[]string{"failover.metrics_file=/no/such/x.prom"}, 0, "make it: install -d /no/such"},
		{[]string{"failover.metrics_listen=127.0.0.1:9477", "netshape.metrics_listen=127.0.0.1:9477"}, exitUsage, "failover.metrics_listen: 127.0.0.1:9477 is netshape's"},
		{[]string{"failover.metrics_file=" + file, "netshape.metrics_file=" + file}, exitUsage, "failover.metrics_file: " + file + " is netshape's"},
	} {
		args := []string{"config", "check"}
		for _, s := range c.set {
			args = append(args, "--set", s)
		}
		sys, stdout, stderr := testSystem(args...)
		code := run(sys)
		said := stdout.String() + stderr.String()
		if code != c.code || !strings.Contains(said, c.word) || c.word == "" && strings.Contains(said, "metrics_") {
			t.Errorf("%q: %d %s", c.set, code, said)
		}
	}
}

// A page is put without waiting for the disk; what fails is told once, and when it
// works again; an address that cannot be is refused.
func TestFailoverPage(t *testing.T) {
	said := new(heard)
	sys := &system{stderr: said, soft: t.Context()}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	defer func() { _ = l.Close() }()
	if _, err := newFailoverPage(sys, l.Addr().String()); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
	p, err := newFailoverPage(sys, "")
	fatal(t, err)
	if _, err := p.read(); err == nil {
		t.Error("there is a page before anything is known")
	}
	dir := filepath.Join(t.TempDir(), "later")
	file := filepath.Join(dir, "f.prom")
	report := func(level int) edge.Report { return edge.Report{State: failover.State{Level: level}} }
	for level := range 10 { // nobody writes yet
		p.put(failover.Config{}, report(level), file)
	}
	if data, err := p.read(); err != nil || !strings.Contains(string(data), "damping_level 9\n") {
		t.Errorf("%s %v", data, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { p.write(ctx) })
	defer all.Wait()
	defer cancel()
	soon := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: not in time\n%s", what, said)
			}
		}
	}
	soon("a warning", func() bool {
		return strings.Contains(said.String(), file+": no such file or directory; make it: install -d ")
	})
	p.put(failover.Config{}, report(10), file)
	soon("its turn", func() bool { return len(p.files) == 0 })
	fatal(t, os.Mkdir(dir, 0o700))
	p.put(failover.Config{}, report(11), file)
	soon("the file", func() bool {
		data, _ := os.ReadFile(file)
		return strings.Contains(string(data), "damping_level 11\n") && strings.Contains(said.String(), "metrics: written to "+file+" again\n")
	})
	if n := strings.Count(said.String(), "warning"); n != 1 {
		t.Errorf("%d warnings: %s", n, said)
	}
}
