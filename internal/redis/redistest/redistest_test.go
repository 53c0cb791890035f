package redistest

import (
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server comes back on its port, without what it knew unless it was to keep it.
func TestStartAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want any
	}{
		"forgets": {nil, int64(0)},
		"keeps":   {[]string{"--appendonly", "yes", "--appendfsync", "always"}, int64(1)},
	} {
		t.Run(name, func(t *testing.T) {
			s := Start(t, tt.args...)
			addr := s.Addr
			s.Do("SET", "k", "v")
			s.Stop()
			s.Stop()
			s.Start()
			Wait(t, "its data", func() bool { return has(s.Info("persistence"), "loading:0") })
			if got := s.Do("EXISTS", "k"); got != tt.want || s.Addr != addr || s.URL() != "redis://"+addr {
				t.Errorf("%v at %s", got, s.URL())
			}
			s.Signal(syscall.SIGSTOP) // must not keep it from its end
		})
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	g := Sentinel(t)
	g.Master.Stop()
	Wait(t, "the replica to be master", func() bool { return has(g.Replica.Info("replication"), "role:master") })
	if len(g.Addrs()) != 3 {
		t.Error(g.Addrs())
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	all := Cluster(t)
	first := all.Owner("k", all[0])
	if first == nil || first.Do("SET", "k", "v") != "OK" || len(all.Addrs()) != 6 {
		t.Fatalf("%v", first)
	}
	witness := all[0]
	if witness == first {
		witness = all[1]
	}
	first.Stop()
	Wait(t, "another owner", func() bool { o := all.Owner("k", witness); return o != nil && o != first })
}
