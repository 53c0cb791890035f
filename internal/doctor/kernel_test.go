package doctor

import (
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
)

func tree(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func TestEdge(t *testing.T) {
	kernel := map[string]string{
		"proc/sys/kernel/osrelease":              "6.1.0-test\n",
		"proc/self/status":                       "Name:\tx\nCapEff:\t0000000000003000\n",
		"sys/module/sch_cake/refcnt":             "0\n",
		"lib/modules/6.1.0-test/modules.builtin": "kernel/net/sched/sch_fq_codel.ko\n",
		"lib/modules/6.1.0-test/modules.dep":     "kernel/net/sched/sch_htb.ko.zst:\nkernel/net/netfilter/nf-tables.ko: kernel/drivers/net/ifb.ko kernel/lib/x.ko\n",
	}
	with := func(change map[string]string, without ...string) fs.FS {
		m := maps.Clone(kernel)
		maps.Copy(m, change)
		for _, name := range without {
			delete(m, name)
		}
		return tree(m)
	}
	const (
		admin, raw = "ok capability: CAP_NET_ADMIN", "ok capability: CAP_NET_RAW"
		missing    = "warning kernel module: ifb is missing" // it is only named as what another needs
	)
	// Who may not ask the kernel goes by its files.
	closed := Shaping{Denied: errors.New("EPERM")}
	expect(t, Edge(with(nil), closed, false), "failed capability: CAP_NET_ADMIN", "ok kernel module: sch_cake is loaded", "ok kernel module: sch_fq_codel is built in",
		"ok kernel module: sch_htb is loadable", missing, "ok kernel module: nf_tables is loadable")
	expect(t, Edge(with(nil, "lib/modules/6.1.0-test/modules.builtin", "lib/modules/6.1.0-test/modules.dep"), closed, false)[1:3],
		"ok kernel module: sch_cake is loaded", "warning kernel module: whether there is sch_fq_codel cannot be told by files alone")
	// Who may asks, and needs no files, nor CAP_NET_RAW unless a path is bound.
	all := []string{admin, "ok kernel module: sch_cake is there", "ok kernel module: sch_fq_codel is there", "ok kernel module: sch_htb is there", "ok kernel module: ifb is there", "ok kernel module: nf_tables is there"}
	bare := with(nil, "proc/self/status", "lib/modules/6.1.0-test/modules.builtin", "lib/modules/6.1.0-test/modules.dep")
	expect(t, Edge(bare, Shaping{}, false), all...)
	expect(t, Edge(with(nil), Shaping{}, true)[:2], admin, raw)
	if f := Edge(bare, Shaping{Denied: errors.New("EPERM"), Contained: true}, false)[0]; !strings.Contains(f.Do, "--cap-add NET_ADMIN") {
		t.Error(f)
	}
	expect(t, Edge(with(map[string]string{"proc/self/status": "CapEff:\t0000000000001000\n"}), Shaping{}, true)[1:2], "warning capability: CAP_NET_RAW is not in effect")
	expect(t, Edge(bare, Shaping{}, true)[1:2], "warning capability: cannot be told")
	some := Edge(bare, Shaping{Missing: []string{"cake", "ingress"}, NoMarks: errors.New("no inet")}, false)
	expect(t, some, admin, "warning kernel module: sch_cake is missing", all[2], all[3], missing, "warning kernel module: nf_tables is missing")
	if !strings.Contains(some[1].Do, "kind fq_codel, which is htb") || !strings.Contains(some[5].Do, "own connections are marked: no inet") {
		t.Error(some)
	}
	expect(t, Edge(bare, Shaping{Missing: []string{"fq_codel"}}, false)[1:3], all[1], "ok kernel module: sch_fq_codel is missing; cake does without")
	for _, f := range Edge(bare, Shaping{Missing: []string{"cake", "fq_codel"}}, false)[1:3] {
		if f.Result != Warning || !strings.HasSuffix(f.Do, "nothing can be shaped") {
			t.Error(f)
		}
	}
	expect(t, Edge(tree(nil), Shaping{}, false), "warning kernel: release")
}

func TestCongestion(t *testing.T) {
	proc := tree(map[string]string{"sys/net/ipv4/tcp_available_congestion_control": "reno cubic\n"})
	expect(t, []Finding{Congestion(proc, "cubic"), Congestion(proc, "bbr"), Congestion(proc, "ren"), Congestion(tree(nil), "bbr")},
		"ok congestion: cubic", "failed congestion: no bbr; it has reno, cubic", "failed congestion: no ren", "warning congestion: cannot be told")
}
