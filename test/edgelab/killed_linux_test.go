package edgelab

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killSoon kills failover at some moment of its first 400 ms from now.
func (b *bench) killSoon(rng *rand.Rand) {
	time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
	b.stop(syscall.SIGKILL)
}

// loses has the first provider forget what comes, or not any more.
func (b *bench) loses(lost bool) {
	b.t.Helper()
	if lost {
		b.in("isp0", drop(""))
	} else {
		b.in("isp0", forgive)
	}
}

// cleanly ends failover, takes away what is its, and wants everything as it was.
func (b *bench) cleanly(others string) {
	b.t.Helper()
	b.stop(syscall.SIGTERM)
	b.in("edge", b.program+" failover remove --config "+b.config+" --state-dir "+b.dir+"/state")
	if got := b.others(); got != others {
		b.t.Errorf("others' routes were\n%s\nand are\n%s", others, got)
	}
	if ours := b.in("edge", "for f in -4 -6; do ip $f rule | grep 'proto 219' || true; ip $f route show table all | grep 'proto 219' || true; done"); ours != "" {
		b.t.Errorf("left: %s", ours)
	}
}

// settled is what stands beside failover, once IPv6 is sure of its addresses.
func (b *bench) settled() string {
	b.t.Helper()
	b.soon("addresses of IPv6", 10*time.Second, func() bool { return !strings.Contains(b.in("edge", "ip addr"), "tentative") })
	return b.others()
}

// Whenever it is killed, as it starts or as it switches, what is reached by an
// uplink that works stays so, and the next start goes on to the same end.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	others := b.settled()
	rng := rand.New(rand.NewPCG(7, 7))
	for range 14 { // the first finds nothing, the others what one before left undone
		b.start()
		b.killSoon(rng)
		b.reach()
	}
	b.start()
	b.soon("the first choice", 20*time.Second, func() bool { return b.status().Active == "leo" && b.active() == "leo" })
	after := 0
	for range 2 {
		b.loses(true)
		said := ""
		for n := time.Duration(3); b.active() != "lte"; n++ { // failed rounds begin anew with each start
			if n > 12 {
				t.Fatalf("never gone to the backup\n%s", said)
			}
			time.Sleep(n*n*100*time.Millisecond + time.Duration(rng.IntN(300))*time.Millisecond)
			b.killSoon(rng)
			said = b.said.String()
			b.start()
		}
		// It never goes back to the uplink that is dead, however it is started.
		for range 9 {
			after++
			b.killSoon(rng)
			if got := b.active(); got != "lte" {
				t.Fatalf("killed after a switch: %s is active\n%s", got, b.said)
			}
			b.reach()
			b.start()
		}
		b.soon("its state", 10*time.Second, func() bool { return b.status().Active == "lte" })
		b.loses(false)
		b.soon("the way back", 30*time.Second, func() bool { return b.active() == "leo" })
		b.reach()
	}
	t.Logf("killed 14 times as it began, %d times after a switch", after)
	b.cleanly(others)
}

// Without a state, or with one of another boot or that is damaged, it begins anew
// and says so, and what stands in the kernel carries meanwhile.
func TestStateOfAnotherBoot(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.chosen()
	b.stop(syscall.SIGTERM)
	state := b.dir + "/state/state.json"
	text, err := os.ReadFile(state)
	fatal(t, err)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	fatal(t, err)
	id := strings.TrimSpace(string(boot))
	if !strings.Contains(string(text), id) {
		t.Fatalf("the state does not say of which boot it is: %s", text)
	}
	stale := strings.NewReplacer(id, "11111111-2222-3333-4444-555555555555", `"active":0`, `"active":1`, `"active":"leo"`, `"active":"lte"`).Replace(string(text))
	fatal(t, os.WriteFile(state, []byte(stale), 0o600))
	for what, damaged := range map[string]string{"another boot": stale, "damaged": "{\"version\":1,", "empty": "", "of another kind": "[]"} {
		fatal(t, os.WriteFile(state, []byte(damaged), 0o600))
		for _, name := range []string{"history.json", "request.json"} {
			fatal(t, os.WriteFile(b.dir+"/state/"+name, []byte(damaged), 0o600))
		}
		b.start()
		b.soon(what, 20*time.Second, func() bool { return strings.Contains(b.said.String(), "leo is up") })
		b.soon(what+": state", 20*time.Second, func() bool {
			_, err := exec.Command(b.program, "failover", "explain", "--state-dir", b.dir+"/state", "--config", b.config).Output()
			return b.status().Active == "leo" && err == nil
		})
		if strings.Contains(b.said.String(), "switch: lte") {
			t.Errorf("%s: it went by the state\n%s", what, b.said)
		}
		warned := strings.Count(b.said.String(), "all is begun anew")
		if (warned > 0) == (damaged == stale) || warned > 1 || strings.Count(b.said.String(), "request.json") > 1 {
			t.Errorf("%s: it says\n%s", what, b.said)
		}
		b.stop(syscall.SIGTERM)
	}
}

// A second one does not begin.
func TestTwoExcludeEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.chosen()
	cmd := exec.Command("ip", "netns", "exec", b.prefix+"edge", b.program, "failover", "run", "--config", b.config, "--state-dir", b.dir+"/state")
	said := new(lines)
	cmd.Stdout, cmd.Stderr = said, said
	begun := time.Now()
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); err == nil || code != 6 || time.Since(begun) > 8*time.Second || !strings.Contains(said.String(), "is held by") {
		t.Errorf("the second ended with %d after %v: %s", code, time.Since(begun), said)
	}
	if cmd := exec.Command("ip", "netns", "exec", b.prefix+"edge", b.program, "failover", "remove", "--config", b.config, "--state-dir", b.dir+"/state"); cmd.Run() == nil || cmd.ProcessState.ExitCode() != 6 {
		t.Errorf("what runs was removed: %v", cmd.ProcessState)
	}
}
