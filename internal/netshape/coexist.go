package netshape

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Neighbour is another program of this machine that will undo what we set up, or
// be disturbed by it.
type Neighbour struct {
	Name      string // of the program
	Interface string // "": of none in particular
	Text      string // what it is set up to do
	Do        string // what would make room for both
}

// Coexist finds neighbours in the files of a machine, whose root is the directory
// /. What cannot be read is not there; what is typed by hand is not found.
func Coexist(root fs.FS, d Desired) (all []Neighbour) {
	for _, i := range d.Interfaces {
		if i.Kind != None {
			all = slices.Concat(all, networkd(root, i.Name), networkManager(root, i), sqm(root, i.Name))
		}
	}
	for _, file := range []string{"etc/nftables.conf", "etc/sysconfig/nftables.conf"} {
		if len(d.Classes) > 0 && flushes.MatchString(content(root, file)) {
			all = append(all, Neighbour{
				Name: "nftables", Text: "/" + file + " begins with flush ruleset: a start or reload takes our table away",
				Do: "keep netshape watch running, which puts it back within ten seconds; or have that file flush its own tables only",
			})
		}
	}
	return all
}

var (
	flushes = regexp.MustCompile(`(?m)^[ \t]*flush[ \t]+ruleset`)
	// Sections of networkd that set a queue. [QDisc] is for ingress and clsact,
	// which stand beside ours.
	queueSection = regexp.MustCompile(`(?m)^[ \t]*\[(CAKE|NetworkEmulator|TokenBucketFilter|HierarchyTokenBucket|\w*ControlledDelay|FairQueueing|StochasticFair\w+|[BP]FIFO\w*|\w*PIE|\w+RandomEarlyDetection|DeficitRoundRobinScheduler|EnhancedTransmissionSelection|HeavyHitterFilter|QuickFairQueueing|TrivialLinkEqualizer|BandMultiQueueing|ClassfulMultiQueueing)\]`)
	matchedName  = regexp.MustCompile(`(?m)^[ \t]*Name[ \t]*=(.*)$`)
	tcSection    = regexp.MustCompile(`(?m)^[ \t]*\[tc\]`)
	spared       = regexp.MustCompile(`(?m)^[ \t]*unmanaged-devices.*[=:;,]ifb`)
)

func content(root fs.FS, name string) string {
	data, _ := fs.ReadFile(root, name)
	return string(data)
}

func contents(root fs.FS, patterns ...string) map[string]string {
	found := map[string]string{}
	for _, p := range patterns {
		names, _ := fs.Glob(root, p) // only a bad pattern is an error
		for _, n := range names {
			found[n] = content(root, n)
		}
	}
	return found
}

func networkd(root fs.FS, name string) (all []Neighbour) {
	files := contents(root, "etc/systemd/network/*.network", "run/systemd/network/*.network", "usr/lib/systemd/network/*.network")
	for _, file := range slices.Sorted(maps.Keys(files)) {
		whole := files[file]
		dropIns := "systemd/network/" + path.Base(file) + ".d/*.conf"
		for _, add := range contents(root, "etc/"+dropIns, "run/"+dropIns, "usr/lib/"+dropIns) {
			whole += "\n" + add
		}
		s := queueSection.FindStringSubmatch(whole)
		if s == nil || !networkdMatches(whole, name) {
			continue
		}
		all = append(all, Neighbour{
			Name: "systemd-networkd", Interface: name, Text: fmt.Sprintf("/%s gives it a queue of its own, [%s], when it is configured", file, s[1]),
			Do: "take that section out of the file, and: networkctl reload",
		})
	}
	return all
}

// networkdMatches reports whether a file is for name. One that goes by something
// else than names may be.
func networkdMatches(whole, name string) bool {
	m := matchedName.FindStringSubmatch(whole)
	if m == nil {
		return true
	}
	globs, not := strings.CutPrefix(strings.TrimSpace(m[1]), "!")
	return not != slices.ContainsFunc(strings.Fields(globs), func(g string) bool {
		ok, err := path.Match(g, name)
		return ok || err != nil
	})
}

func networkManager(root fs.FS, i Interface) (all []Neighbour) {
	const program = "NetworkManager"
	if _, err := fs.Stat(root, "run/NetworkManager"); err != nil {
		return nil
	}
	profiles := contents(root, "etc/NetworkManager/system-connections/*", "run/NetworkManager/system-connections/*")
	for _, file := range slices.Sorted(maps.Keys(profiles)) {
		p := profiles[file]
		if tcSection.MatchString(p) && strings.Contains(p+"\n", "interface-name="+i.Name+"\n") {
			all = append(all, Neighbour{program, i.Name, "/" + file + " gives it queues of its own, [tc], when it is activated", "nmcli connection modify ID remove tc"})
		}
	}
	confs := contents(root, "etc/NetworkManager/NetworkManager.conf", "etc/NetworkManager/conf.d/*.conf", "run/NetworkManager/conf.d/*.conf", "usr/lib/NetworkManager/conf.d/*.conf")
	for _, c := range confs {
		if spared.MatchString(c) {
			return all
		}
	}
	if i.Ingress.Kind != "" {
		all = append(all, Neighbour{program, i.Name, "it may take " + ifbName(i.Name) + " for a cable and ask for an address there", "write [keyfile] and below it unmanaged-devices=interface-name:ifb4* to /etc/NetworkManager/conf.d/90-trafficup.conf, and: nmcli general reload"})
	}
	return all
}

// sqm finds sqm-scripts, of OpenWrt and of others.
func sqm(root fs.FS, name string) []Neighbour {
	n := Neighbour{Name: "sqm-scripts", Interface: name, Text: "it shapes this interface, and has the same name for its ifb"}
	for queue := range strings.SplitSeq(content(root, "etc/config/sqm"), "config queue") {
		words := strings.NewReplacer("'", "", `"`, "").Replace(queue)
		if strings.Contains(words, "option interface "+name+"\n") && strings.Contains(words, "option enabled 1\n") {
			n.Do = "have one of the two shape it; without sqm: uci set sqm.@queue[0].enabled=0; uci commit sqm; /etc/init.d/sqm restart"
			return []Neighbour{n}
		}
	}
	if _, err := fs.Stat(root, "etc/sqm/"+name+".iface.conf"); err == nil {
		n.Do = "have one of the two shape it; without sqm: systemctl disable --now sqm@" + name
		return []Neighbour{n}
	}
	return nil
}
