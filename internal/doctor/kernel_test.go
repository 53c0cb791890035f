package doctor

import (
	"io/fs"
	"maps"
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
	const missing = "warning kernel module: ifb is missing" // it is only named as what another needs
	right := []string{"ok capability: CAP_NET_ADMIN", "ok capability: CAP_NET_RAW"}
	expect(t, Edge(with(nil)), append(right, "ok kernel module: sch_cake is loaded", "ok kernel module: sch_fq_codel is built in",
		"ok kernel module: sch_htb is loadable", missing, "ok kernel module: nf_tables is loadable")...)
	expect(t, Edge(with(map[string]string{"proc/self/status": "CapEff:\t0000000000002000\n"}))[:2], "failed capability: CAP_NET_ADMIN", "ok capability: CAP_NET_RAW")
	expect(t, Edge(with(map[string]string{"proc/self/status": "CapEff:\t0\n"}))[:2], "failed capability: CAP_NET_ADMIN", "failed capability: CAP_NET_RAW")
	expect(t, Edge(with(nil, "proc/self/status"))[:1], "warning capability: cannot be told")
	expect(t, Edge(with(nil, "lib/modules/6.1.0-test/modules.builtin", "lib/modules/6.1.0-test/modules.dep"))[2:4],
		"ok kernel module: sch_cake is loaded", "warning kernel module: sch_fq_codel is not loaded, and without /lib/modules/6.1.0-test")
	expect(t, Edge(tree(nil)), "warning kernel: release")
}

func TestCongestion(t *testing.T) {
	proc := tree(map[string]string{"sys/net/ipv4/tcp_available_congestion_control": "reno cubic\n"})
	expect(t, []Finding{Congestion(proc, "cubic"), Congestion(proc, "bbr"), Congestion(proc, "ren"), Congestion(tree(nil), "bbr")},
		"ok congestion: cubic", "failed congestion: no bbr; it has reno, cubic", "failed congestion: no ren", "warning congestion: cannot be told")
}
