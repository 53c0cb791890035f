package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// Sentinels is a master with a replica, and three sentinels that know them.
type Sentinels struct {
	Name            string // of the master
	Master, Replica *Server
	Nodes           []*Server // the sentinels
}

// Sentinel starts all five and waits until they know each other. A master that is
// silent for half a second is replaced.
func Sentinel(t testing.TB) *Sentinels {
	t.Helper()
	g := &Sentinels{Name: "night", Master: Start(t)}
	g.Replica = Start(t, "--replicaof", "127.0.0.1 "+g.Master.port)
	for range 3 {
		g.Nodes = append(g.Nodes, sentinel(t, g.Name, g.Master))
	}
	Wait(t, "the sentinels to know all", func() bool {
		for _, s := range g.Nodes {
			if !has(s.Info("sentinel"), "slaves=1,sentinels=3") {
				return false
			}
		}
		return has(g.Replica.Info("replication"), "master_link_status:up")
	})
	return g
}

// Addrs returns where the sentinels are.
func (g *Sentinels) Addrs() []string { return addrs(g.Nodes) }

func sentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	s := &Server{t: t, Dir: t.TempDir(), args: []string{"--sentinel"}}
	t.Cleanup(s.Stop)
	s.conf = filepath.Join(s.Dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 2\nsentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 3000\n", name, master.port)
	for range 10 {
		if err := os.WriteFile(s.conf, []byte(text), 0o600); err != nil { // a try may have changed it
			t.Fatal(err)
		}
		if s.take(freePort(t)); s.launch(nil) {
			return s
		}
	}
	t.Fatalf("no sentinel starts:\n%s", s.log())
	return nil
}

// Nodes is a cluster of three masters with a replica each.
type Nodes []*Server

// Cluster starts the six and waits until they are one. A master that is silent for
// a second is replaced.
func Cluster(t testing.TB) Nodes {
	t.Helper()
	var all Nodes
	for n := range 6 {
		s := Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0")
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", n+1)
		all = append(all, s)
	}
	for n, s := range all[:3] {
		s.Do("CLUSTER", "ADDSLOTSRANGE", n*16384/3, (n+1)*16384/3-1)
	}
	for _, s := range all[1:] {
		all[0].Do("CLUSTER", "MEET", "127.0.0.1", s.port)
	}
	all.wait("the nodes to meet", func(s *Server) bool { return has(s.cluster(), "cluster_known_nodes:6") })
	for n, s := range all[3:] {
		master := all[n].Do("CLUSTER", "MYID")
		s.Do("CLUSTER", "REPLICATE", master)
	}
	all.wait("the cluster", func(s *Server) bool {
		return has(s.cluster(), "cluster_state:ok") && has(s.Info("replication"), "master_link_status:up", "state=online")
	})
	return all
}

// Addrs returns where the nodes are.
func (n Nodes) Addrs() []string { return addrs(n) }

// Owner returns the master that holds a key, as another node sees it; nil when
// there is none.
func (n Nodes) Owner(key string, witness *Server) *Server {
	c := witness.client()
	defer func() { _ = c.Close() }()
	slot := c.ClusterKeySlot(context.Background(), key).Val()
	for _, shard := range c.ClusterShards(context.Background()).Val() {
		for _, r := range shard.Slots {
			if r.Start <= slot && slot <= r.End {
				return n.master(shard.Nodes)
			}
		}
	}
	return nil
}

func (n Nodes) master(of []goredis.Node) *Server {
	for _, node := range of {
		for _, s := range n {
			if node.Role == "master" && node.Health == "online" && s.port == strconv.FormatInt(node.Port, 10) {
				return s
			}
		}
	}
	return nil
}

func (n Nodes) wait(what string, ok func(*Server) bool) {
	n[0].t.Helper()
	Wait(n[0].t, what, func() bool {
		for _, s := range n {
			if !ok(s) {
				return false
			}
		}
		return true
	})
}

func (s *Server) cluster() string {
	c := s.client()
	defer func() { _ = c.Close() }()
	return c.ClusterInfo(context.Background()).Val()
}

func addrs(of []*Server) (list []string) {
	for _, s := range of {
		list = append(list, s.Addr)
	}
	return list
}
